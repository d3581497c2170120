"""Comparisons, and the choice they are made for, elementwise."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import Op, attribute, one_of, op, operand
from tileir.signature import ANY_ELEMENT, FLOATS, INTEGERS, POINTERS, Shaped, TypeVariable
from tileir.types import I1, element_of, with_element
from tileir.values import Operand

C = TypeVariable("T", INTEGERS | POINTERS)
F = TypeVariable("T", FLOATS)
A = TypeVariable("T", ANY_ELEMENT)


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
    """Whether two integers or pointers are in the relation `predicate`, and the complement.
    Pointers compare as unsigned addresses; signed relations need integers.

    `%p, %np = icmp (i1<8>, i1<8>) %a, %b {predicate = slt}`, given `i32<8> %a, i32<8> %b`
    """

    lhs: Operand = operand(C)
    rhs: Operand = operand(C)
    predicate_: IntegerPredicate = attribute(one_of(IntegerPredicate))
    results_ = (Shaped(I1, C), Shaped(I1, C))
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
    """Whether two floats are in the relation `predicate`, and the complement.

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
    """`then` where `condition` is true, else `otherwise`. Undefined only where the condition or
    the value chosen is.

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
