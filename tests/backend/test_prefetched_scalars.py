"""Loads of scalars for a later iteration: ptxas does not wait for them when they are issued."""

import re

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.textual import parse

KERNEL = """tir 1.0
define kernel void @k(f32* aligned(16) noalias %x, f32* aligned(16) noalias %y, i32 %n) {
entry:
  %lanes = make_range i32<128>
  %first = load f32 %x
  br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %scale = phi f32 [%first, entry], [%PASSED, loop]
  %sum = phi f32<128> [0.0, entry], [%total, loop]
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
  %p = getelementptr f32* %x, %j
  %next = load f32 %p, MASK
  %twice = fadd f32 %next, %next
  %scales = splat f32<128> %scale
  %numbers = sitofp f32<128> %lanes
  %product = fmul f32<128> %scales, %numbers
  %total = fadd f32<128> %sum, %product
  cond_br %more, loop, exit
exit:
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %lanes
  store %q, %total
  ret
}
"""


def program(mask="%more, 0.0", passed="next"):
    return parse(KERNEL.replace("MASK", mask).replace("PASSED", passed))


def test_what_is_loaded_for_the_next_iteration_stays_in_registers_of_the_lanes():
    """The mask also asks for something that differs between lanes, as far as ptxas knows."""
    ptx = compile_kernel(program(), "sm_90a", {"num_warps": 4}).ptx
    assert ptx.count("%lanemask_le") == 1
    assert re.search(r"and\.pred\b", ptx)


@pytest.mark.parametrize(
    "module",
    [program(mask="true, 0.0"), program(passed="twice")],
    ids=["always loaded", "read in the same iteration"],
)
def test_other_loads_have_their_own_masks(module):
    assert "lanemask" not in compile_kernel(module, "sm_90a", {"num_warps": 4}).ptx


def test_the_loop_computes_the_same():
    x, y, n = np.arange(1, 6, dtype=np.float32), np.zeros(128, np.float32), 5
    SimtExecutor().launch(program(), None, 1, [x, y, n], target="sm_90a", num_warps=4)
    np.testing.assert_array_equal(y, np.arange(128, dtype=np.float32) * x.sum())
