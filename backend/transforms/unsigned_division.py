"""Replacement of signed divisions of nonnegative numbers by unsigned ones, which take half the
instructions. The role functions of warp specialization begin with a chain of divisions, which
computes the position of the tile."""

from __future__ import annotations

import attrs

from tileir.analysis.ranges import Ranges, ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.division import DivRounding, SDiv, SRem, UDiv, URem


def unsigned_divisions(function: Function) -> Function:
    """`function` with unsigned quotients and remainders where both operands are known to be
    nonnegative. Divisions that round up are not replaced."""
    if not any(isinstance(op, (SDiv, SRem)) for op in function.ops):
        return function
    bounds = ranges(function)
    blocks = {
        label: attrs.evolve(
            block, ops=tuple([_unsigned_division(op, label, bounds) for op in block.ops])
        )
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


def _unsigned_division(op: Op, label: str, bounds: Ranges) -> Op:
    if not isinstance(op, (SDiv, SRem)) or op.rounding is DivRounding.CEIL:
        return op
    if any(bounds.at(operand, label)[0] < 0 for operand in op.operands):
        return op
    unsigned = UDiv if isinstance(op, SDiv) else URem
    return unsigned(op.lhs, op.rhs, results=op.results, location=op.location)
