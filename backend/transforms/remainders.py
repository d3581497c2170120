"""Recognition of remainders that are written as a difference: `x - x / y * y` is `x % y`. The
range, contiguity and alignment of a remainder are known; those of the difference are not."""

from __future__ import annotations

from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Mul, Sub
from tileir.ops.division import DivRounding, RemRounding, SDiv, SRem, UDiv, URem
from tileir.rewrite import Answer, Walk, rewrite
from tileir.values import Operand

_REMAINDER_OF = {DivRounding.ZERO: RemRounding.ZERO, DivRounding.FLOOR: RemRounding.FLOOR}


def form_remainders(function: Function) -> Function:
    """`function` with such differences replaced by remainders. The quotients stay: a remainder
    whose quotient is also computed is derived from it."""
    return rewrite(function, {Sub.mnemonic: _form_remainder})


def _form_remainder(op: Op, walk: Walk) -> Answer:
    assert isinstance(op, Sub)
    product = walk.definition(op.rhs)
    if not isinstance(product, Mul) or op.predicate is not None:
        return op
    for quotient, divisor in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        remainder = _remainder(walk.definition(quotient), op.lhs, divisor)
        if remainder is not None:
            return remainder
    return op


def _remainder(division: Op | None, number: Operand, divisor: Operand) -> Op | None:
    """The remainder of `number` by `divisor` where `division` has their quotient."""
    if not isinstance(division, (SDiv, UDiv)) or division.predicate is not None:
        return None
    if division.lhs is not number or division.rhs != divisor:
        return None
    if isinstance(division, UDiv):
        return None if division.rounding is DivRounding.CEIL else URem(number, divisor)
    rounding = _REMAINDER_OF.get(division.rounding)
    return None if rounding is None else SRem(number, divisor, rounding=rounding)
