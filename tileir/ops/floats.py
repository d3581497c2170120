"""Float arithmetic, elementwise. IEEE 754: every result is the real one, rounded once."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import BOOL_ATTRIBUTE, EXACT, ROUNDED, Op, attribute, family, one_of, op, operand
from tileir.signature import FLOATS, TypeVariable
from tileir.types import element_of
from tileir.values import Operand

F = TypeVariable("T", FLOATS)


class FastMath(Enum):
    """The freedom of a compiler in the lowering of a float op.

    `contract` allows fusion with a neighbouring op into one rounding. `approx` allows approximate
    instructions of the target. `fast` allows both, reassociation, and flushing of subnormals to
    zero. The interpreter uses none of this freedom, the CPU only `approx`.
    """

    NONE = "none"
    CONTRACT = "contract"
    APPROX = "approx"
    FAST = "fast"


class Rounding(Enum):
    """The rounding mode, by the names of the PTX ISA: to nearest even, to zero, down, up."""

    NEAREST = "rn"
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"


@family
class FloatUnary(Op):
    """One float in, one of the same type out."""

    value: Operand = operand(F)
    results_ = (F,)
    elementwise = True

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.elementwise(self.mnemonic, value)


@family
class FloatBinary(Op):
    """Two floats of one type in, one of the same type out."""

    lhs: Operand = operand(F)
    rhs: Operand = operand(F)
    results_ = (F,)
    elementwise = True

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise(self.mnemonic, lhs, rhs)


@family
class Rounded(FloatBinary):
    """Float arithmetic with one rounding. A rounding mode other than `rn` needs f32 or f64, and
    `ftz`, which reads and writes subnormals as zeros of their sign, needs f32 (PTX ISA 9.7.3)."""

    fast: FastMath = attribute(one_of(FastMath), default=FastMath.NONE)
    rounding: Rounding = attribute(one_of(Rounding), default=Rounding.NEAREST)
    ftz: bool = attribute(BOOL_ATTRIBUTE, default=False)
    numerics = ROUNDED

    def verify(self) -> None:
        bits = bits_of(self.lhs)
        if self.rounding is not Rounding.NEAREST and bits < 32:
            message = f"rounding = {self.rounding.value} needs f32 or f64, not {self.lhs.type}"
            raise self.fail("TIR0107", message, "rounding")
        if self.ftz and bits != 32:
            raise self.fail("TIR0107", f"ftz needs f32, not {self.lhs.type}", "ftz")

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        mode = self.rounding.value
        return machine.elementwise(self.mnemonic, lhs, rhs, rounding=mode, ftz=self.ftz)


@op("fadd")
class FAdd(Rounded):
    """Sum, rounded once.

    `%r = fadd f32<64> %a, %b {fast = contract}`
    """

    commutative = True


@op("fsub")
class FSub(Rounded):
    """Difference, rounded once.

    `%r = fsub f32<64> %a, %b {rounding = rz}`
    """


@op("fmul")
class FMul(Rounded):
    """Product, rounded once.

    `%r = fmul f32<64> %a, 0.5`
    """

    commutative = True


@op("fdiv")
class FDiv(Rounded):
    """Quotient, rounded once. Division by zero gives an infinity, 0/0 a NaN.

    `%r = fdiv f32<64> %a, %b {fast = approx}`
    """


@op("frem")
class FRem(FloatBinary):
    """Remainder of the quotient rounded to zero, exact, with the sign of `lhs` (C's fmod). NaN
    where `lhs` is infinite or `rhs` is zero.

    `%r = frem f32<64> %a, %b`
    """

    numerics = EXACT


@op("fneg")
class FNeg(FloatUnary):
    """The sign bit flipped, of NaNs too.

    `%r = fneg f32<64> %a`
    """


@op("fabs")
class FAbs(FloatUnary):
    """The sign bit cleared, of NaNs too.

    `%r = fabs f32<64> %a`
    """


@op("copysign")
class CopySign(FloatBinary):
    """Magnitude of `lhs`, sign bit of `rhs`.

    `%r = copysign f32<64> %a, %b`
    """


@op("fminimum")
class FMinimum(FloatBinary):
    """Smaller of two floats; NaN if either is; -0.0 is below 0.0 (IEEE 754-2019 minimum).

    `%r = fminimum f32<64> %a, %b`
    """

    commutative = True


@op("fmaximum")
class FMaximum(FloatBinary):
    """Larger of two floats; NaN if either is; 0.0 is above -0.0 (IEEE 754-2019 maximum).

    `%r = fmaximum f32<64> %a, %b`
    """

    commutative = True


@op("fminnum")
class FMinNum(FloatBinary):
    """Smaller of two floats; if one is NaN, the other one; -0.0 is below 0.0 (IEEE 754-2019
    minimumNumber).

    `%r = fminnum f32<64> %a, %b`
    """

    commutative = True


@op("fmaxnum")
class FMaxNum(FloatBinary):
    """Larger of two floats; if one is NaN, the other one; 0.0 is above -0.0 (IEEE 754-2019
    maximumNumber).

    `%r = fmaxnum f32<64> %a, %b`
    """

    commutative = True


def bits_of(operand: Operand) -> int:
    """Bits of an element of `operand`."""
    element: Any = element_of(operand.type)
    return element.bits
