"""The registers of tiles that are alive across an op, and reductions in threads with too few."""

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.live_registers import live_registers
from tileir.ir import Module
from tileir.textual import parse

ALIVE = """tir 1.0

define void @f(f32 %x) {
entry:
  %n = fadd f32 %x, 1.0
  %i = make_range i32<256>
  %a = splat f32<256> %n
  %b = fmul f32<256> %a, %a
  %h = fptrunc f16<256> %b
  %c = fadd f32<256> %b, %a
  %j = sitofp f32<256> %i
  %w = fpext f32<256> %h
  %d = fadd f32<256> %c, %w
  %e = fadd f32<256> %d, %j
  ret
}
"""


def test_floats_that_are_alive_before_and_after_an_op() -> None:
    """256 numbers of f32 fill 256 registers, and of f16 half of them."""
    function = parse(ALIVE).functions["f"]
    counts = [live_registers(function)[op] for op in function.blocks["entry"].ops]
    assert counts == [0, 0, 0, 256, 512, 128, 384, 512, 256, 0, 0]


SUMS = """tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {{
entry:
  %row = make_range i32<{rows}>
  %rows = reshape i32<{rows}, 1> %row
  %column = make_range i32<128>
  %columns = reshape i32<1, 128> %column
  %i = broadcast i32<{rows}, 128> %rows
  %j = broadcast i32<{rows}, 128> %columns
  %start = mul i32<{rows}, 128> %i, 128
  %place = add i32<{rows}, 128> %start, %j
  %ys = splat f32*<{rows}, 128> %y
  %q = getelementptr f32*<{rows}, 128> %ys, %place
  br loop
loop:
  %k = phi i32 [0, entry], [%k.next, body]
  %acc = phi f32<{rows}, 128> [0.0, entry], [%acc.next, body]
  %least = phi f32<{rows}, 128> [0.0, entry], [%least.next, body]
  %most = phi f32<{rows}, 128> [0.0, entry], [%most.next, body]
  %more, _ = icmp (i1, i1) %k, %n {{predicate = slt}}
  cond_br %more, body, exit
body:
  %from = getelementptr f32* %x, %k
  %xs = splat f32*<{rows}, 128> %from
  %p = getelementptr f32*<{rows}, 128> %xs, %place
  %v = load f32<{rows}, 128> %p
  %sum = reduce f32<{rows}> %v {{axis = 1, combiner = fadd}}
  %sums = reshape f32<{rows}, 1> %sum
  %s = broadcast f32<{rows}, 128> %sums
  %w = fsub f32<{rows}, 128> %v, %s
  %acc.next = fadd f32<{rows}, 128> %acc, %w
  %least.next = fminimum f32<{rows}, 128> %least, %w
  %most.next = fmaximum f32<{rows}, 128> %most, %w
  %k.next = add i32 %k, {elements}
  br loop
exit:
  %range = fsub f32<{rows}, 128> %most, %least
  %result = fadd f32<{rows}, 128> %range, %acc
  store %q, %result
  ret
}}
"""


def sums(rows: int) -> Module:
    return parse(SUMS.format(rows=rows, elements=128 * rows))


def shuffles(rows: int, warps: int) -> int:
    return compile_kernel(sums(rows), "sm_90", {"num_warps": warps}).ptx.count("shfl.sync")


@pytest.mark.parametrize(("rows", "warps"), [(16, 4), (16, 2)])
def test_lanes_share_the_results_of_rows_whose_elements_fit_in_registers(rows, warps):
    """Lanes exchange half of the rows of a warp in each step, and then the results again."""
    assert shuffles(rows, warps) < 5 * rows // warps


@pytest.mark.parametrize(("rows", "warps"), [(16, 1), (32, 2)])
def test_each_row_has_its_own_shuffles_where_registers_do_not_suffice(rows, warps):
    """16 rows of four tiles fill 256 registers of a thread until a sum is known."""
    assert shuffles(rows, warps) == 5 * rows // warps


def test_rows_are_reduced_alike_with_few_and_with_many_registers() -> None:
    x = np.random.default_rng(0).integers(-9, 9, 2 * 16 * 128).astype(np.float32)
    for warps in (1, 4):
        expected, actual = ([x, np.zeros(16 * 128, np.float32), x.size] for _ in range(2))
        tileir.interpret(sums(16), None, 1, expected)
        SimtExecutor().launch(sums(16), "k", 1, actual, num_warps=warps)
        np.testing.assert_array_equal(actual[1], expected[1])
