"""Barriers of warps that hold loads together, and where they are."""

import re

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.joint_loads import with_joint_loads
from tileir.backend.register_limit import RegisterChoice
from tileir.builder import BF16, F32, Builder, arg, pointer

BARRIER = "bar.warp.sync"

HEAD = ".visible .entry k()\n.reqntid 128\n{\n\t.reg .b32 \t%r<9>;\n"
LOADS = """\tld.global.b32 \t%r1, [%rd1];
\tmov.b32 \t{%rs1, %rs2}, %r1;
\t// begin inline asm
\tmov.b32 %r2, %r4; @%p1 ld.global.b32 {%r2}, [%rd2];
\t// end inline asm
"""


def lines_between(ptx):
    """The last load before the only barrier, and the line after it."""
    before, after = ptx.split("\t" + BARRIER + " \t0xffffffff;\n")
    last = [x for x in before.split("\n") if "ld.global" in x][-1]
    return last, after.split("\n")[0]


@pytest.mark.parametrize(
    "use",
    [
        "\tadd.s32 \t%r5, %r1, 1;",
        "\tcvt.f32.bf16 \t%r5, %rs2;",
        "\t@%p2 st.global.b32 \t[%rd3], %r2;",
        "\tsetp.lt.s32 \t%p3, %r2, 3;",
    ],
)
def test_a_barrier_is_before_the_first_use(use):
    text = HEAD + LOADS + "\tadd.s32 \t%r6, %r7, 1;\n" + use + "\n\tret;\n}\n"
    last, following = lines_between(with_joint_loads(text))
    assert "[%rd2]" in last and following == use


def test_a_use_in_inline_assembly_stays_with_its_comment():
    text = HEAD + LOADS + "\t// begin inline asm\n\tex2.approx.f32 %r5, %r1;\n\tret;\n}\n"
    assert lines_between(with_joint_loads(text))[1] == "\t// begin inline asm"


def test_loads_that_depend_on_loads_have_a_barrier_after_these():
    second = LOADS.replace("%r2", "%r6").replace("%rd2", "%rd6").replace("[%rd1]", "[%rd5]")
    text = HEAD + LOADS + "\tcvt.s64.s32 \t%rd5, %r1;\n" + second + "\tadd.s32 \t%r7, %r6, 1;\n}\n"
    assert with_joint_loads(text).count(BARRIER) == 2


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "\tld.global.b32 \t%r1, [%rd1];\n\tadd.s32 \t%r5, %r1, 1;\n\tret;\n}\n",
        HEAD + LOADS + "\tret;\n}\n",
        HEAD + LOADS + "\t@%p1 bra \t$L__BB0_2;\n\tadd.s32 \t%r5, %r1, 1;\n}\n",
        HEAD + "$L__BB0_1:\n" + LOADS + "\tadd.s32 \t%r5, %r1, 1;\n\tret;\n}\n",
        HEAD + LOADS + "\tadd.s32 \t%r6, %r7, 1;\n\tret;\n}\n",
        ".func f()\n{\n" + LOADS + "\tadd.s32 \t%r5, %r1, 1;\n\tret;\n}\n" + HEAD + "\tret;\n}\n",
    ],
    ids=[
        "one load",
        "no use",
        "use after a branch",
        "not the first block",
        "another value",
        "a function that may be called in a branch",
    ],
)
def test_there_is_no_barrier(text):
    assert with_joint_loads(text) == text


def gate():
    """Softplus of a tile, less its sums along the rows."""
    b = Builder()
    types = {"x": arg(pointer(BF16), aligned=16), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **types) as (x, y):
        rows, columns = b.arange(64), b.arange(64)
        place = rows[:, None] * 128 + columns[None, :]
        v = (x + place).load().to(F32)
        v = b.log2(b.exp2(v * 1.44, fast="fast") + 1.0, fast="fast") * 0.69
        (y + place).store(v - v.sum(axis=0)[None, :])
    return b.module()


class Code:
    """Machine code of `registers`, of which `loads` are in flight of 16."""

    def __init__(self, registers, loads, spills=0):
        self.registers, self.cubin, self.spills = registers, loads, spills


@pytest.mark.parametrize(
    ("before", "after", "independent", "tried", "chosen"),
    [
        (Code(64, 4), Code(64, 16), 16, 1, 1),
        (Code(64, 4), Code(64, 5), 16, 1, 0),
        (Code(64, 4), Code(255, 12), 16, 1, 0),
        (Code(64, 4), Code(64, 16, spills=4), 16, 1, 0),
        (Code(64, 9), Code(64, 16), 16, 0, 0),
        (Code(64, 4), Code(64, 16), 5, 0, 0),
    ],
    ids=["more", "hardly more", "fewer blocks", "spills", "they do not wait", "dependent"],
)
def test_barriers_are_kept_where_more_is_in_flight(
    monkeypatch, before, after, independent, tried, chosen
):
    from tileir.backend import register_limit
    from tileir.backend.gpu_models import machine_of
    from tileir.backend.machine_code import LoadsInFlight

    class Loads:
        of = staticmethod(lambda loads: LoadsInFlight(loads, 16))

    monkeypatch.setattr(register_limit, "LoadsInFlight", Loads)
    monkeypatch.setattr(register_limit, "independent_loads", lambda loads: independent)
    choice = RegisterChoice(machine_of("sm_90"), 2, 0, False)
    text = HEAD + LOADS + "\tadd.s32 \t%r5, %r1, 1;\n\tret;\n}\n"
    assembled = []

    def assemble(ptx):
        assembled.append(ptx)
        return after

    assert choice._with_joint_loads(text, before, assemble) is (before, after)[chosen]
    assert [BARRIER in ptx for ptx in assembled] == [True] * tried
    with_dots = RegisterChoice(machine_of("sm_90"), 2, 0, False, dots=True)
    assert with_dots._with_joint_loads(text, before, assemble) is before


def test_the_barrier_is_in_a_block_that_all_threads_execute():
    ptx = compile_kernel(gate(), "sm_90", {"num_warps": 2}).ptx
    joint = with_joint_loads(ptx)
    first = joint.split("$L__BB")[0]
    assert joint.count(BARRIER) == first.count(BARRIER) >= 1
    assert len(re.findall("ld.global", first.split(BARRIER)[0])) >= 8
