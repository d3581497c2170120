"""Divisions of numbers that are never negative as unsigned ones, which take half the
instructions: a role begins with where its tile is, by divisions, one after the other."""

from __future__ import annotations

import attrs

from tileir.analysis.ranges import Ranges, ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import DivRounding, SDiv, SRem, UDiv, URem


def unsigned_divisions(function: Function) -> Function:
    """`function` with unsigned quotients and remainders where both operands are known not to be
    negative, rounded down."""
    if not any(isinstance(op, (SDiv, SRem)) for op in function.ops):
        return function
    known = ranges(function)
    blocks = {
        label: attrs.evolve(block, ops=tuple([_unsigned(op, label, known) for op in block.ops]))
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


def _unsigned(op: Op, label: str, known: Ranges) -> Op:
    if not isinstance(op, (SDiv, SRem)) or op.rounding is DivRounding.CEIL:
        return op
    if any(known.at(operand, label)[0] < 0 for operand in op.operands):
        return op
    made = UDiv if isinstance(op, SDiv) else URem
    return made(op.lhs, op.rhs, results=op.results, location=op.location)
