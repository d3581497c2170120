"""Ops with unusual types, starts and places, by threads and as code that LLVM takes."""

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.rules import FAMILIES, rules
from tileir.backend.executors import SimtExecutor
from tileir.errors import CompileError, LaunchError


def both(text, *arguments, rtol=0.0, **options):
    """The interpreter and the SIMT simulator compute equal results, and ptxas accepts the code."""
    module = textual.parse(text)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    tileir.interpret(module, None, 1, list(arguments))
    SimtExecutor().launch(module, None, 1, copies, **options)
    for expected, actual in zip(arguments, copies, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=rtol)
    return compile_kernel(module, "sm_80", options).ptx


COPY = """tir 1.0
define kernel void @k({x}* %x, {y}* %y) {{
entry:
  %i = make_range i32<{n}>
  %xs = splat {x}*<{n}> %x
  %p = getelementptr {x}*<{n}> %xs, %i
  %v = load {x}<{n}> %p
  {ops}
  %j = make_range i32<{m}>
  %ys = splat {y}*<{m}> %y
  %q = getelementptr {y}*<{m}> %ys, %j
  store %q, %w
  ret
}}
"""


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_histograms_of_every_width(kind):
    text = COPY.format(x="i32", y=kind, n=256, m=8, ops=f"%w = histogram {kind}<8> %v")
    x = np.random.default_rng(0).integers(-2, 10, 256).astype(np.int32)
    both(text, x, np.zeros(8, f"i{int(kind[1:]) // 8}"))


@pytest.mark.parametrize("start", [0, 1, 50, -5])
@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
def test_ranges_begin_anywhere(kind, start):
    line = f"%w = make_range {kind}<64> {{start = {start}}}"
    text = COPY.format(x="i32", y=kind, n=64, m=64, ops=line)
    both(text, np.zeros(64, np.int32), np.zeros(64, f"i{int(kind[1:]) // 8}"), num_warps=1)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "log10", "tanh", "sin", "cbrt"])
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_functions_of_every_width(kind, name):
    text = COPY.format(x=kind, y=kind, n=128, m=128, ops=f"%w = {name} {kind}<128> %v")
    x = np.linspace(0.1, 9, 128).astype(f"f{int(kind[1:]) // 8}")
    both(text, x, np.zeros_like(x), rtol={"f16": 2e-3, "f32": 1e-6, "f64": 1e-14}[kind])


SCAN = """%m, _ = icmp (i1<64>, i1<64>) %v, 3 {{predicate = slt}}
  @%m %s = scan i32<64> %v {{combiner = {combiner}}}
  %z = sub i32<64> %v, %v
  %w = select i32<64> %m, %s, %z"""
COMBINER = """
define i32 @both(i32 %a, i32 %b) {
entry:
  %p = mul i32 %a, %b
  %s = add i32 %a, %b
  %c = add i32 %p, %s
  ret %c
}
"""


@pytest.mark.parametrize("combiner", ["add", "@both"])
def test_a_scan_under_a_predicate_leaves_lanes_out(combiner):
    text = COPY.format(x="i32", y="i32", n=64, m=64, ops=SCAN.format(combiner=combiner))
    text += COMBINER if combiner == "@both" else ""
    both(text, np.arange(64, dtype=np.int32) % 7, np.zeros(64, np.int32))


UNREACHED = """tir 1.0
define kernel void @k(i32* %x) {
entry:
  %v = load i32 %x
  %c, _ = icmp (i1, i1) %v, 4 {predicate = slt}
  cond_br %c, good, never
good:
  store %x, 9
  ret
never:
  unreachable
}
"""


def test_what_is_never_reached():
    assert "st.global" in both(UNREACHED, np.array([3], np.int32))


@pytest.mark.parametrize("warps", [1, 4])
def test_a_tile_of_one_element_is_told_to_all(warps):
    ops = """%h = extract_slice i32<1> %v, 5
  %u = unsplat i32 %h
  %w = splat i32<64> %u"""
    text = COPY.format(x="i32", y="i32", n=64, m=64, ops=ops)
    both(text, np.arange(64, dtype=np.int32), np.zeros(64, np.int32), num_warps=warps)


@pytest.mark.parametrize("name", ["fadd", "fsub", "fmul", "fdiv"])
@pytest.mark.parametrize("how", ["rounding = rz", "rounding = rp", "ftz = true"])
def test_additions_and_multiplications_round_as_they_say(name, how):
    ops = f"%u = fadd f32<128> %v, 3.0\n  %w = {name} f32<128> %v, %u {{{how}}}"
    x = np.random.default_rng(1).uniform(-9, 9, 128).astype(np.float32)
    both(COPY.format(x="f32", y="f32", n=128, m=128, ops=ops), x, np.zeros_like(x))


ONE_ELEMENT_OF_A_DOT = """tir 1.0
define kernel void @k(f16* %x, f32* %y) {num_warps = 4} {
entry:
  %i = make_range i32<256>
  %xs = splat f16*<256> %x
  %p = getelementptr f16*<256> %xs, %i
  %v = load f16<256> %p
  %a = reshape f16<16, 16> %v
  %d = dot f32<16, 1> %a, f16<16, 1> 1.0, 0.0
  %h = reduce f32<1> %d {axis = 0, combiner = fadd}
  %u = unsplat f32 %h
  %j = make_range i32<128>
  %w = splat f32<128> %u
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %j
  store %q, %w
  ret
}
"""


def test_the_only_result_of_a_dot_is_broadcast_to_warps_that_do_not_own_it():
    both(ONE_ELEMENT_OF_A_DOT, np.arange(256).astype(np.float16) % 5, np.zeros(128, np.float32))


@pytest.mark.parametrize("rounding", ["rn", "rz", "rp", "rm"])
@pytest.mark.parametrize(("wide", "narrow"), [("f32", "f16"), ("f64", "f32"), ("f64", "f16")])
def test_narrowing_rounds_as_it_says(wide, narrow, rounding):
    ops = f"%w = fptrunc {narrow}<128> %v {{rounding = {rounding}}}"
    x = np.random.default_rng(1).uniform(-9, 9, 128).astype(f"f{int(wide[1:]) // 8}")
    both(
        COPY.format(x=wide, y=narrow, n=128, m=128, ops=ops), x,
        np.zeros(128, f"f{int(narrow[1:]) // 8}"),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["fminimum", "fmaximum"])
def test_a_nan_among_numbers_is_the_usual_one(name):
    """Of f64, which no instruction compares so: its bits, whatever those of the operand were."""
    ops = f"%t = {name} f64<64> %v, 1.0\n  %w = bitcast i64<64> %t"
    x = np.linspace(-3, 3, 64)
    x.view(np.int64)[5:9] = np.array(np.nan).view(np.int64) + np.arange(4)
    both(COPY.format(x="f64", y="i64", n=64, m=64, ops=ops), x, np.zeros(64, np.int64))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("start", [0, 1, 7])
def test_a_part_put_into_every_other_place(start, stride):
    ops = f"""%h = extract_slice i32<16> %v, 40
  %w = insert_slice i32<64> %v, %h, {start} {{strides = [{stride}]}}"""
    text = COPY.format(x="i32", y="i32", n=64, m=64, ops=ops)
    both(text, np.arange(64, dtype=np.int32), np.zeros(64, np.int32), num_warps=1)


@pytest.mark.parametrize("size", [5, 33, 64, 100])
def test_what_holds_everywhere_is_not_asked_of_threads_beyond(size):
    """Of a tile that does not fill its threads."""
    ops = f"""%c, _ = icmp (i1<{size}>, i1<{size}>) %v, 0 {{predicate = sgt}}
  assert %c {{message = "a number is not positive"}}
  %w = mul i32<{size}> %v, 2"""
    text = COPY.format(x="i32", y="i32", n=size, m=size, ops=ops)
    x = np.arange(size, dtype=np.int32) + 1
    both(text, x, np.zeros(size, np.int32), num_warps=2)
    x[-1] = 0
    with pytest.raises(LaunchError, match="a number is not positive"):
        SimtExecutor().launch(textual.parse(text), None, 1, [x, np.zeros(size, np.int32)])


@pytest.mark.parametrize("number", [np.inf, -np.inf, 57344.0])
def test_multiplications_of_infinite_bytes_are_infinite(number):
    """On a machine that multiplies them as halves."""
    text = """tir 1.0
define kernel void @k(f8e5m2* %x, f32* %y) {
entry:
  %i = make_range i32<512>
  %xs = splat f8e5m2*<512> %x
  %p = getelementptr f8e5m2*<512> %xs, %i
  %v = load f8e5m2<512> %p
  %a = reshape f8e5m2<16, 32> %v
  %b = trans f8e5m2<32, 16> %a {order = [1, 0]}
  %c = dot f32<16, 16> %a, %b, 0.0
  %w = reshape f32<256> %c
  %j = make_range i32<256>
  %ys = splat f32*<256> %y
  %q = getelementptr f32*<256> %ys, %j
  store %q, %w
  ret
}
"""
    x = np.ones(512, ml_dtypes.float8_e5m2)
    x[7] = number
    out = np.zeros(256, np.float32)
    assert "mma.sync" in both(text, x, out)
    assert out[0] == 31 + number * number and out[1] == 31 + number


SHARED = """tir 1.0
stage "warp_specialized"

define kernel void @k({x}* %x, {x}* %y) {{num_warps = {warps}}} {{
entry:
  %b = gpu.shared_alloc {x} addrspace(3)* {{shape = [1, {m}, {n}]}}
  %r = make_range i32<{m}>
  %r1 = expand_dims i32<{m}, 1> %r {{axis = 1}}
  %r2 = broadcast i32<{m}, {n}> %r1
  %c = make_range i32<{n}>
  %c1 = expand_dims i32<1, {n}> %c {{axis = 0}}
  %c2 = broadcast i32<{m}, {n}> %c1
  %r3 = mul i32<{m}, {n}> %r2, {n}
  %o = add i32<{m}, {n}> %r3, %c2
  %xs = splat {x}*<{m}, {n}> %x
  %p = getelementptr {x}*<{m}, {n}> %xs, %o
  {ops}
  gpu.barrier
  %w = gpu.local_load {x}<{m}, {n}> %b, 0
  %ys = splat {x}*<{m}, {n}> %y
  %q = getelementptr {x}*<{m}, {n}> %ys, %o
  store %q, %w
  ret
}}
"""
COPIES = """gpu.async_copy %p, %b, 0
  gpu.async_commit
  gpu.async_wait"""


@pytest.mark.parametrize(("kind", "warps"), [("f16", 8), ("i8", 2), ("f16", 1), ("f32", 4)])
def test_asynchronous_copies_of_any_size(kind, warps):
    """Fewer bytes than 4 a thread copies itself."""
    text = SHARED.format(x=kind, m=16, n=16, warps=warps, ops=COPIES)
    x = np.arange(256).astype({"i8": np.int8, "f16": np.float16, "f32": np.float32}[kind])
    both(text, x, np.zeros_like(x))


@pytest.mark.parametrize("cut", [4, 8, 12, 20, 28])
def test_columns_are_stored_separately(cut):
    ops = f"""%v = load f32<16, 32> %p
  gpu.local_store %v, %b, 0 {{columns = [0, {cut}]}}
  gpu.local_store %v, %b, 0 {{columns = [{cut}, {32 - cut}], offsets = [0, {cut}]}}"""
    text = SHARED.format(x="f32", m=16, n=32, warps=1, ops=ops)
    x = np.arange(512, dtype=np.float32)
    both(text, x, np.zeros_like(x))


TILES_INSIDE = """tir 1.0
define f32 @odd(f32 %a, f32 %b) {
entry:
  %flat = splat f32<2> %a
  %sum = reduce f32 %flat {combiner = fadd}
  %r = fadd f32 %sum, %b
  ret %r
}
define kernel void @k(f32* %x) {num_warps = 1} {
entry:
  %i = make_range i32<32>
  %xs = splat f32*<32> %x
  %p = getelementptr f32*<32> %xs, %i
  %v = load f32<32> %p
  %m = reduce f32 %v {combiner = @odd}
  store %x, %m
  ret
}
"""


def test_a_combiner_that_computes_with_tiles_is_refused_at_the_reduction():
    with pytest.raises(CompileError, match="@odd is a combiner of scalars") as caught:
        SimtExecutor().launch(textual.parse(TILES_INSIDE), None, 1, {"x": np.zeros(32, np.float32)})
    assert caught.value.code == "TIR0706" and caught.value.line == 15


def test_a_rule_is_looked_up_in_the_file_of_its_family_first(monkeypatch):
    read = []

    def importing(name):
        read.append(name.rpartition(".")[2])
        return import_module(name)

    monkeypatch.setattr("tileir.backend.codegen.rules.import_module", importing)
    wrapped = rules.__wrapped__()
    for name, families in (
        ("icmp", ["arith"]), ("fadd", ["arith", "floats"]), ("fcmp", ["arith", "floats"]),
    ):  # fmt: skip
        assert callable(wrapped[name]) and read == families
    with pytest.raises(KeyError):
        wrapped["nothing"]
    assert sorted(read) == sorted(FAMILIES)
