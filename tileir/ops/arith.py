"""Integer arithmetic, elementwise. Integers are two's complement and wrap; sign is the op's."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from tileir.op import Effects, Op, attribute, family, one_of, op, operand
from tileir.signature import INTEGERS, TypeVariable
from tileir.types import Scalar, element_of
from tileir.values import Constant, Operand

I = TypeVariable("T", INTEGERS)  # noqa: E741 - the conventional name of an integer type variable


class Overflow(Enum):
    """What the program promises about the range of an integer result (LLVM's nsw, nuw): where
    the promise is broken, the result is undefined."""

    NONE = "none"
    NSW = "nsw"
    NUW = "nuw"
    BOTH = "nsw_nuw"


@family
class IntegerUnary(Op):
    """One integer in, one of the same type out."""

    value: Operand = operand(I)
    results_ = (I,)
    elementwise = True

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.elementwise(self.mnemonic, value)


@family
class IntegerBinary(Op):
    """Two integers of one type in, one of the same type out."""

    lhs: Operand = operand(I)
    rhs: Operand = operand(I)
    results_ = (I,)
    elementwise = True

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise(self.mnemonic, lhs, rhs)


@family
class Wrapping(IntegerBinary):
    """Integer arithmetic modulo 2^n, with an optional promise that it does not wrap."""

    overflow: Overflow = attribute(one_of(Overflow), default=Overflow.NONE)

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise(self.mnemonic, lhs, rhs, overflow=self.overflow.value)


@op("add")
class Add(Wrapping):
    """Sum modulo 2^n.

    `%r = add i32<64> %a, %b`
    """

    commutative = True


@op("sub")
class Sub(Wrapping):
    """Difference modulo 2^n.

    `%r = sub i32<64> %a, %b {overflow = nsw}`
    """


@op("mul")
class Mul(Wrapping):
    """Low n bits of the product.

    `%r = mul i32<64> %a, 4`
    """

    commutative = True


def _in_range(count: Operand) -> bool:
    """Whether a shift count is a literal below the number of bits."""
    if not isinstance(count, Constant):
        return False
    return count.bits < cast(Scalar, element_of(count.type)).bits


@op("smulhi")
class SMulHi(IntegerBinary):
    """High n bits of the 2n-bit signed product.

    `%r = smulhi i32<64> %a, %b`
    """

    commutative = True


@op("umulhi")
class UMulHi(IntegerBinary):
    """High n bits of the 2n-bit unsigned product.

    `%r = umulhi i32<64> %a, %b`
    """

    commutative = True


@op("and")
class And(IntegerBinary):
    """Bitwise and.

    `%r = and i1<64> %p, %q`
    """

    commutative = True


@op("or")
class Or(IntegerBinary):
    """Bitwise or.

    `%r = or i32<64> %a, 1`
    """

    commutative = True


@op("xor")
class Xor(IntegerBinary):
    """Bitwise exclusive or; with -1 (`true` for i1) the complement.

    `%r = xor i32<64> %a, -1`
    """

    commutative = True


@family
class Shift(IntegerBinary):
    """A shift by `rhs` bits, unsigned; a shift by n or more has no meaning and is reported."""

    effects_ = Effects.TRAP
    harmless = ("rhs", 0)

    @property
    def effects(self) -> Effects:
        return Effects.PURE if _in_range(self.rhs) else Effects.TRAP

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.elementwise(self.mnemonic, lhs, rhs, op=self)


@op("shl")
class Shl(Shift):
    """Shift left, zeros coming in. Traps on a shift count of n or more.

    `%r = shl i32<64> %a, 3`
    """


@op("lshr")
class LShr(Shift):
    """Shift right, zeros coming in. Traps on a shift count of n or more.

    `%r = lshr i32<64> %a, %b`
    """


@op("ashr")
class AShr(Shift):
    """Shift right, copies of the sign coming in. Traps on a shift count of n or more.

    `%r = ashr i32<64> %a, %b`
    """


@op("smin")
class SMin(IntegerBinary):
    """Smaller of two signed integers (of i1, where true is -1, their or).

    `%r = smin i32<64> %a, %b`
    """

    commutative = True


@op("smax")
class SMax(IntegerBinary):
    """Larger of two signed integers (of i1, where true is -1, their and).

    `%r = smax i32<64> %a, %b`
    """

    commutative = True


@op("umin")
class UMin(IntegerBinary):
    """Smaller of two unsigned integers.

    `%r = umin i32<64> %a, %b`
    """

    commutative = True


@op("umax")
class UMax(IntegerBinary):
    """Larger of two unsigned integers.

    `%r = umax i32<64> %a, %b`
    """

    commutative = True


@op("neg")
class Neg(IntegerUnary):
    """Negation modulo 2^n: the smallest integer is its own.

    `%r = neg i32<64> %a`
    """


@op("iabs")
class IAbs(IntegerUnary):
    """Absolute value modulo 2^n: the smallest integer is its own.

    `%r = iabs i32<64> %a`
    """


@op("ctpop")
class CtPop(IntegerUnary):
    """Number of one bits, modulo 2^n.

    `%r = ctpop i32<64> %a`
    """


@op("clz")
class Clz(IntegerUnary):
    """Number of zero bits above the highest one bit; n for zero, modulo 2^n.

    `%r = clz i32<64> %a`
    """
