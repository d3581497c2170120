"""Integer arithmetic, comparisons and selection, elementwise. Integers are two's complement and
wrap. Each op states whether it reads them as signed or unsigned."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from tileir.op import Effects, Op, attribute, family, one_of, op, operand
from tileir.signature import ANY_ELEMENT, FLOATS, INTEGERS, POINTERS, Shaped, TypeVariable
from tileir.types import I1, Scalar, element_of, with_element
from tileir.values import Constant, Operand

I = TypeVariable("T", INTEGERS)  # noqa: E741 - the conventional name of an integer type variable
F = TypeVariable("T", FLOATS)
A = TypeVariable("T", ANY_ELEMENT)
ORDERED = TypeVariable("T", INTEGERS | POINTERS)


class Overflow(Enum):
    """The promise about the range of an integer result (LLVM's nsw, nuw). If the promise is broken,
    the result is undefined."""

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


# Comparisons and selection --------------------------------------------------------------------


class IntegerPredicate(Enum):
    """Relations of two integers: equal or not, then signed and unsigned orders."""

    EQ = "eq"
    NE = "ne"
    SLT = "slt"
    SLE = "sle"
    SGT = "sgt"
    SGE = "sge"
    ULT = "ult"
    ULE = "ule"
    UGT = "ugt"
    UGE = "uge"


class FloatPredicate(Enum):
    """Relations of two floats: `o..` are false, `u..` true where an operand is NaN."""

    FALSE = "false"
    OEQ = "oeq"
    OGT = "ogt"
    OGE = "oge"
    OLT = "olt"
    OLE = "ole"
    ONE = "one"
    ORD = "ord"
    UEQ = "ueq"
    UGT = "ugt"
    UGE = "uge"
    ULT = "ult"
    ULE = "ule"
    UNE = "une"
    UNO = "uno"
    TRUE = "true"


@op("icmp")
class ICmp(Op):
    """Compare two integers or pointers: whether `predicate` is true, and the complement. Pointers
    compare as unsigned addresses; signed relations need integers.

    `%p, %np = icmp (i1<8>, i1<8>) %a, %b {predicate = slt}`, given `i32<8> %a, i32<8> %b`
    """

    lhs: Operand = operand(ORDERED)
    rhs: Operand = operand(ORDERED)
    predicate_: IntegerPredicate = attribute(one_of(IntegerPredicate))
    results_ = (Shaped(I1, ORDERED), Shaped(I1, ORDERED))
    elementwise = True

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.compare("icmp", self.predicate_.value, lhs, rhs)

    def verify(self) -> None:
        signed = self.predicate_.value[0] == "s"
        if signed and element_of(self.lhs.type) not in INTEGERS:
            message = f"predicate {self.predicate_.value} orders signed integers, not pointers"
            raise self.fail("TIR0108", message, "predicate_")


@op("fcmp")
class FCmp(Op):
    """Compare two floats: whether `predicate` is true, and the complement.

    `%p, %np = fcmp (i1<8>, i1<8>) %a, %b {predicate = olt}`, given `f32<8> %a, f32<8> %b`
    """

    lhs: Operand = operand(F)
    rhs: Operand = operand(F)
    predicate_: FloatPredicate = attribute(one_of(FloatPredicate))
    results_ = (Shaped(I1, F), Shaped(I1, F))
    elementwise = True

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.compare("fcmp", self.predicate_.value, lhs, rhs)


@op("select")
class Select(Op):
    """`then` where `condition` is true, else `otherwise`. A lane is undefined only if its condition
    or the selected value is.

    `%r = select f32<64> %c, %a, %b`, given `i1<64> %c, f32<64> %a, f32<64> %b`
    """

    condition: Operand = operand(Shaped(I1, A))
    then: Operand = operand(A)
    otherwise: Operand = operand(A)
    results_ = (A,)
    elementwise = True

    def verify(self) -> None:
        expected = with_element(self.then.type, I1)
        if self.condition.type is not expected:
            message = f"condition must be {expected}, not {self.condition.type}"
            raise self.fail("TIR0101", message, "condition")

    def evaluate(self, machine: Any, condition: Any, then: Any, otherwise: Any) -> Any:
        return machine.select(condition, then, otherwise)
