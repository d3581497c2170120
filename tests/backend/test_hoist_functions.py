"""Functions of loop invariants are computed before the loop."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.analysis.loops import loops
from tileir.backend import compile as compile_kernel
from tileir.backend.transforms.hoist_functions import hoist_functions
from tileir.interp import interpret
from tileir.ir import Function
from tileir.textual import parse

TEXT = """tir 1.0
define kernel void @scale(f32* %x, f32* %variances, f32* %y, i32 %n) {
entry:
  %rows = make_range i32<ROWS>
  %vs = splat f32*<ROWS> %variances
  %v = getelementptr f32*<ROWS> %vs, %rows
  %variance = load f32<ROWS> %v
  br loop
loop:
  %i = phi i32 [0, entry], [%j, body]
  %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %more, body, done
body:
  %above = fadd f32<ROWS> %variance, 0.5
  %root = rsqrt f32<ROWS> %above
  %least = fmaxnum f32<ROWS> %variance, 1.0
  %quotient = fdiv f32<ROWS> 3.0, %least {fast = approx}
  %column = splat i32<ROWS> %i
  %strides = mul i32<ROWS> %rows, 8
  %at = add i32<ROWS> %strides, %column
  %xs = splat f32*<ROWS> %x
  %p = getelementptr f32*<ROWS> %xs, %at
  %number = load f32<ROWS> %p
  %power = exp f32<ROWS> %number
  %scaled = fmul f32<ROWS> %power, %root
  %result = fmul f32<ROWS> %scaled, %quotient
  %ys = splat f32*<ROWS> %y
  %q = getelementptr f32*<ROWS> %ys, %at
  store %q, %result
  %j = add i32 %i, 1
  br loop
done:
  ret
}
"""


def scale(rows: int) -> Function:
    return parse(TEXT.replace("ROWS", str(rows))).kernel()


def mnemonics_in_loop(function: Function) -> list[str]:
    (loop,) = loops(function).by_header.values()
    return [op.mnemonic for label in loop.order for op in function.blocks[label].ops]


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_functions_and_what_they_need_leave_the_loop(rows: int) -> None:
    before, after = (mnemonics_in_loop(f) for f in (scale(rows), hoist_functions(scale(rows))))
    left = ["fadd", "rsqrt", "fmaxnum", "fdiv"]
    assert [m for m in before if m not in left] == after
    assert set(left) <= set(before)


def test_functions_of_many_elements_stay() -> None:
    function = scale(32)
    assert hoist_functions(function) is function


def test_other_ops_stay() -> None:
    """LLVM moves them. Without functions nothing changes."""
    text = TEXT.replace("ROWS", "4").replace("rsqrt f32<4> %above", "fmul f32<4> %above, 2.0")
    text = text.replace("fdiv f32<4> 3.0, %least {fast = approx}", "fadd f32<4> 3.0, %least")
    function = parse(text).kernel()
    assert hoist_functions(function) is function


@pytest.mark.parametrize("columns", [0, 1, 7])
def test_results_are_the_same(columns: int) -> None:
    module, rng = parse(TEXT.replace("ROWS", "4")), np.random.default_rng(0)
    function = module.kernel()
    changed = module.evolve(functions={"scale": hoist_functions(function)})
    x, v = rng.standard_normal((4, 8), np.float32), rng.random(4, np.float32)
    results = []
    for each in (module, changed):
        y = np.zeros((4, 8), np.float32)
        interpret(each, "scale", (1,), {"x": x, "variances": v, "y": y, "n": columns})
        results.append(y)
    assert (results[0] == results[1]).all() and results[0].any() == bool(columns)


def test_the_compiled_loop_computes_no_root() -> None:
    """The root and the quotient are in the PTX before the label of the loop."""
    ptx = compile_kernel(parse(TEXT.replace("ROWS", "1")), target="sm_90a").ptx
    start = ptx.rindex("\n$L", 0, ptx.index("ex2.approx"))
    assert "rsqrt.approx" in ptx[:start] and "div.full" in ptx[:start]
    assert "rsqrt.approx" not in ptx[start:] and "div.full" not in ptx[start:]
