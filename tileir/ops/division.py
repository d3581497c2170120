"""Integer division, elementwise. Dividing by zero has no meaning and is reported."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import Effects, attribute, family, one_of, op
from tileir.ops.arith import IntegerBinary
from tileir.values import Constant, Operand


class DivRounding(Enum):
    """The rounding of a quotient that is not an integer."""

    ZERO = "zero"
    FLOOR = "floor"
    CEIL = "ceil"


class RemRounding(Enum):
    """The quotient that a remainder belongs to; `floor` gives it the sign of the divisor."""

    ZERO = "zero"
    FLOOR = "floor"


def _not_zero(divisor: Operand) -> bool:
    """Whether a divisor is a literal that divides."""
    return isinstance(divisor, Constant) and divisor.bits != 0


@family
class Division(IntegerBinary):
    """Division: dividing by zero has no meaning and is reported."""

    rounding: DivRounding = attribute(one_of(DivRounding), default=DivRounding.ZERO)
    effects_ = Effects.TRAP
    divides = True
    harmless = ("rhs", 1)

    @property
    def effects(self) -> Effects:
        return Effects.PURE if _not_zero(self.rhs) else Effects.TRAP

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise(self.mnemonic, lhs, rhs, rounding=self.rounding.value, op=self)


@op("sdiv")
class SDiv(Division):
    """Signed quotient, rounded to zero, down or up. Traps on a zero divisor; the smallest
    integer divided by -1 wraps to itself.

    `%r = sdiv i32<64> %a, %b {rounding = floor}`
    """


@op("udiv")
class UDiv(Division):
    """Unsigned quotient, rounded to zero, down or up. Traps on a zero divisor.

    `%r = udiv i32<64> %a, %b {rounding = ceil}`
    """


@op("srem")
class SRem(IntegerBinary):
    """Signed remainder: `lhs - rhs * sdiv(lhs, rhs)` with the same rounding. Traps on a zero
    divisor.

    `%r = srem i32<64> %a, %b {rounding = floor}`
    """

    rounding: RemRounding = attribute(one_of(RemRounding), default=RemRounding.ZERO)
    effects_ = Effects.TRAP
    divides = True
    harmless = ("rhs", 1)

    @property
    def effects(self) -> Effects:
        return Effects.PURE if _not_zero(self.rhs) else Effects.TRAP

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise("srem", lhs, rhs, rounding=self.rounding.value, op=self)


@op("urem")
class URem(IntegerBinary):
    """Unsigned remainder. Traps on a zero divisor.

    `%r = urem i32<64> %a, 8`
    """

    effects_ = Effects.TRAP
    divides = True
    harmless = ("rhs", 1)

    @property
    def effects(self) -> Effects:
        return Effects.PURE if _not_zero(self.rhs) else Effects.TRAP

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise("urem", lhs, rhs, op=self)
