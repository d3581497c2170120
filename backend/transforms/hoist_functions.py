"""Functions of numbers that a loop does not change, computed before the loop."""

from __future__ import annotations

from math import prod

from tileir.backend.stage_conditions import is_function
from tileir.ir import Function
from tileir.op import Op
from tileir.passes.licm import hoist
from tileir.types import shape_of

_MOST_ELEMENTS = 16
"""Elements of a tile that is kept in registers during a loop: each thread may have all of them."""


def hoist_functions(function: Function) -> Function:
    """Compute approximate functions and quotients of loop invariants before the loop, as far as
    their results have at most 16 elements.

    They become instructions of PTX that LLVM does not move. A normalization often computes the
    reciprocal root of a variance in the loop that scales the row. Other ops stay: LLVM moves them.

    before:
        loop:
          %above = fadd f32<2, 1> %variance, 0.00001
          %scale = rsqrt f32<2, 1> %above
          ...
    after:
          %above = fadd f32<2, 1> %variance, 0.00001
          %scale = rsqrt f32<2, 1> %above
          br loop
        loop:
          ...
    """
    return hoist(function, _is_small)


def _is_small(op: Op) -> bool:
    """Whether `op` computes a function of few elements."""
    return is_function(op) and all(prod(shape_of(v.type)) <= _MOST_ELEMENTS for v in op.results)
