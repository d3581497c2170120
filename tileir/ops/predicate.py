"""Predicated SSA: merging the streams of complementary predicates (MAPL 2019, section 4.3)."""

from __future__ import annotations

from typing import Any

from tileir.op import Op, op, pairs
from tileir.signature import ANY_ELEMENT, BOOL, Each, TypeVariable
from tileir.types import shape_of
from tileir.values import Operand

T = TypeVariable("T", ANY_ELEMENT)


@op("psi")
class Psi(Op):
    """Merge values, lane by lane: the last value whose predicate is true; undefined if none is. A
    predicate is a scalar i1 or an i1 tile of the values' shape.

    `%x = psi i32<8> [%p, %a], [%q, %b]`, given `i1<8> %p, i1<8> %q, i32<8> %a, i32<8> %b`
    """

    arms: tuple[Operand, ...] = pairs(Each(BOOL), T)
    results_ = (T,)
    elementwise = True

    def verify(self) -> None:
        if not self.arms:
            raise self.fail("TIR0117", "at least one pair is needed", "arms")
        shape = shape_of(self.arms[1].type)
        for predicate in self.arms[::2]:
            if shape_of(predicate.type) not in ((), shape):
                message = f"a predicate is i1 or has the values' shape, not {predicate.type}"
                raise self.fail("TIR0104", message, "arms")

    def evaluate(self, machine: Any, arms: tuple[Any, ...]) -> Any:
        return machine.psi(arms)
