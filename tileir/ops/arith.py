"""Integer and float arithmetic, elementwise."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import Op, attribute, one_of, op, operand
from tileir.signature import INTEGERS, Var
from tileir.values import Operand

I = Var("T", INTEGERS)  # noqa: E741 - the conventional name of an integer type variable


class Overflow(Enum):
    """What the program promises about the range of an integer result (LLVM's nsw, nuw)."""

    NONE = "none"
    NSW = "nsw"
    NUW = "nuw"
    BOTH = "nsw_nuw"


@op("add")
class Add(Op):
    """Sum modulo 2^n.

    `%r = add i32<64> %a, %b`
    """

    lhs: Operand = operand(I)
    rhs: Operand = operand(I)
    overflow: Overflow = attribute(one_of(Overflow), default=Overflow.NONE)
    results_ = (I,)
    commutative = True
    elementwise = True

    def evaluate(self, machine: Any, lhs: Any, rhs: Any) -> Any:
        return machine.add(lhs, rhs)
