"""What a program or the options ask for is followed, or a remark says what is used and why."""

from pathlib import Path

import pytest

from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.errors import CompileError
from tileir.textual import parse
from tileir.tools.opt import main as opt

LOOP = """tir 1.0
define kernel void @k(f32* %x, i32 %n) {{{attributes}}} {{
entry:
  %r = make_range i32<256>
  %xs = splat f32*<256> %x
  %p = getelementptr f32*<256> %xs, %r
  br loop
loop:
  %i = phi i32 [0, entry], [%i1, loop]
  %f = sitofp f32 %i
  %v = splat f32<256> %f
  store %p, %v
  %i1 = add i32 %i, 1
  %more, _ = icmp (i1, i1) %i1, %n {{predicate = slt}}
  cond_br %more, loop, done{latch}
done:
  ret
}}
"""
MATMUL = Path(__file__).with_name("matmul.tir").read_text()


def unfulfilled_requests(text, target="sm_90a", **options):
    remarks = compile_kernel(parse(text), target, options).remarks
    return [r for r in remarks if r.code == "TIR0760"]


def loop(attributes="", latch=""):
    return LOOP.format(attributes=attributes, latch=latch)


@pytest.mark.parametrize(
    ("attributes", "latch", "options", "words", "line"),
    [("", "", {"num_stages": 5}, "num_stages = 5 is not followed: 1 is used", 2),
     ("", " {stages = 3}", {}, "stages = 3 of the loop is not followed: 1 is used", 15),
     ("", " {unroll = 4}", {}, "unroll = 4 of the loop is not followed: 1 is used", 15),
     ("", "", {"prefetch_operands": True}, "prefetch_operands = True is not followed", 2),
     ("", "", {"warp_specialize": True},
      "warp_specialize = True is not followed: the kernel has no dots", 2),
     ("", "", {"persistent": True}, "persistent = True is not followed", 2),
     ("", "", {"split_k": 2}, "split_k = 2 is not followed", 2),
     ("multicast = 2", "", {}, "multicast = 2 is not followed", 2),
     ("num_ctas = 2", "", {}, "num_ctas = 2 is not followed: `cluster`", 2),
     ("max_registers = 64", "", {}, "max_registers = 64 is not followed", 2)],
)  # fmt: skip
def test_a_request_that_is_not_followed_is_remarked_upon(attributes, latch, options, words, line):
    (remark,) = unfulfilled_requests(loop(attributes, latch), **options)
    assert words in remark.message and remark.location.line == line


@pytest.mark.slow
def test_nothing_is_reported_of_what_is_followed():
    assert not unfulfilled_requests(
        loop(), num_warps=2, num_stages=1, max_registers=64, opt_level=1
    )
    assert not unfulfilled_requests(MATMUL)
    assert not unfulfilled_requests(MATMUL, num_stages=3)
    assert not unfulfilled_requests(MATMUL, "sm_80", num_stages=3)


def test_stages_that_do_not_fit():
    (remark,) = unfulfilled_requests(MATMUL, num_stages=1_000_000)
    assert "num_stages = 1000000 is not followed: 6 are used" in remark.message


def test_roles_need_a_target_that_has_them():
    (remark,) = unfulfilled_requests(MATMUL, "sm_80", warp_specialize=True)
    assert "sm_80 has no wgmma and TMA" in remark.message
    (remark,) = unfulfilled_requests(MATMUL, "sm_90a", warp_specialize=False, persistent=True)
    assert remark.message == "persistent = True is not followed: warp_specialize = False"


@pytest.mark.slow
def test_what_spills_says_how_much(tmp_path, capsys):
    path = Path(__file__).parent / "spills.tir"
    compiled = compile_kernel(parse(path.read_text()), "sm_80")
    (remark,) = [r for r in compiled.remarks if r.code == "TIR0759"]
    assert remark.message.startswith(f"{compiled.metadata.spills} bytes of registers are spilled")
    arguments = [str(path), "--target", "sm_80", "--emit", "cubin", "--remarks"]
    assert opt([*arguments, "-o", str(tmp_path / "k.cubin"), "--no-isolate"]) == 0
    assert "TIR0759" in capsys.readouterr().err


@for_each(
    ("name", "value"),
    [
        ("num_warps", 0),
        ("num_stages", 0),
        ("max_registers", 0),
        ("multicast", 0),
        ("split_k", -1),
        ("permit", ("assembly",)),
        ("permit", "inline_asm"),
        ("permit", (1,)),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(name, value):
    with pytest.raises(CompileError, match=name) as caught:
        compile_kernel(parse(loop()), "sm_90a", {name: value})
    assert caught.value.code == "TIR0716"
