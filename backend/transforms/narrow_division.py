"""Divisions of 32 bits in place of 64-bit divisions, which are subroutines. The instance, the
extents and the strides that a launch passes have 32 bits; programs widen them before they divide.
"""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.analysis.ranges import Ranges, ranges
from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.cast import SExt, Trunc
from tileir.ops.division import SDiv, SRem, UDiv, URem
from tileir.types import I32, I64
from tileir.values import Constant, Operand

_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1


def narrow_divisions(function: Function) -> Function:
    """`function` in which scalar 64-bit quotients and remainders have 32 bits, if the ranges of
    both operands are within those of an i32. The least i32 divided by -1 has no 32-bit quotient, so
    such divisions stay as they are."""
    if not any(map(_is_wide, function.ops)):
        return function
    bounds = ranges(function)
    return function.with_blocks(
        {label: _narrowed_block(block, bounds) for label, block in function.blocks.items()}
    )


def _narrowed_block(block: Block, bounds: Ranges) -> Block:
    """A quotient and a remainder of the same operands share their truncated operands, so that later
    passes recognize them as belonging together."""
    narrow = dict[Operand, Operand]()
    ops = tuple(new for op in block.ops for new in _narrow(op, block.label, bounds, narrow))
    return attrs.evolve(block, ops=ops)


def _is_wide(op: Op) -> bool:
    return isinstance(op, (SDiv, SRem, UDiv, URem)) and op.result.type is I64


def _narrow(op: Op, label: str, bounds: Ranges, narrow: dict[Operand, Operand]) -> list[Op]:
    if not _is_wide(op) or op.predicate is not None:
        return [op]
    division = cast(Any, op)
    (low, high), divisor = bounds.at(division.lhs, label), bounds.at(division.rhs, label)
    is_signed = isinstance(op, (SDiv, SRem))
    least = _LEAST + 1 if is_signed else 0
    if not (least <= low and high <= _GREATEST):
        return [op]
    if not ((_LEAST if is_signed else 0) <= divisor[0] and divisor[1] <= _GREATEST):
        return [op]
    builder = OpBuilder(op)
    lhs, rhs = (_truncate(builder, x, narrow) for x in (division.lhs, division.rhs))
    builder.add_final(SExt(builder.add(division.evolve(lhs=lhs, rhs=rhs)), I64))
    return builder.ops


def _truncate(builder: OpBuilder, x: Operand, narrow: dict[Operand, Operand]) -> Operand:
    if isinstance(x, Constant):
        return Constant(I32, int(x.value) & 0xFFFFFFFF)
    if x not in narrow:
        narrow[x] = builder.add(Trunc(x, I32))
    return narrow[x]
