"""Ops with unusual types, starts and places, by threads and as code that LLVM takes."""

import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.executor import SimtExecutor


def both(text, *arguments, rtol=0.0, **options):
    """The interpreter and the machine of threads leave the same, and the code is taken."""
    module = textual.parse(text)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    tileir.interpret(module, None, 1, list(arguments))
    SimtExecutor().launch(module, None, 1, copies, **options)
    for wanted, found in zip(arguments, copies, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol)
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
    made = f"%w = make_range {kind}<64> {{start = {start}}}"
    text = COPY.format(x="i32", y=kind, n=64, m=64, ops=made)
    both(text, np.zeros(64, np.int32), np.zeros(64, f"i{int(kind[1:]) // 8}"), num_warps=1)


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
