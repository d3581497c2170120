"""Vectors whose elements are equal, or are equal from the second one on."""

from __future__ import annotations

from tileir.analysis.alignment import alignment
from tileir.analysis.alignment_facts import extents
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.division import Division
from tileir.types import shape_of
from tileir.values import Operand


def are_equal(function: Function, operand: Operand) -> bool:
    """Whether all elements of a tile are equal."""
    return alignment(function).of(operand).constancy >= extents(operand.type)


def are_equal_after_first(function: Function, operand: Operand) -> bool:
    """Whether the elements of a vector from the second one on are equal.

    An example are quotients rounded to zero: the 128 numbers from 128 * n on, divided by 128, are
    all n if n is not negative. If n is negative, the first quotient is n and all others are n +
    1."""
    if are_equal(function, operand):
        return True
    op = definitions(function).get(operand)  # type: ignore[arg-type]
    if op is None or op.predicate is not None or not op.elementwise or op.effects & ~Effects.TRAP:
        return False
    return len(shape_of(operand.type)) == 1 and (
        all(are_equal_after_first(function, x) for x in op.operands) or _is_in_block(function, op)
    )


def _is_in_block(function: Function, op: Op) -> bool:
    """Whether `op` divides the numbers from a multiple of the divisor to the next one."""
    if not isinstance(op, Division):
        return False
    facts = alignment(function)
    value, divisor = facts.of(op.lhs), facts.of(op.rhs)
    (extent,) = shape_of(op.lhs.type)
    return (
        value.contiguity[0] >= extent
        and value.multiple[0] >= extent
        and divisor.constancy[0] >= extent
        and divisor.every % extent == 0
    )
