"""Control flow: branches, return, calls."""

from __future__ import annotations

from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    INT,
    Effects,
    Op,
    Successor,
    attribute,
    op,
    operand,
    successor,
    variadic,
)
from tileir.signature import ANYTHING, ExactType
from tileir.types import I1
from tileir.values import Operand


@op("br")
class Branch(Op):
    """Jump to a block.

    On the latch of a loop, `unroll` requests an unroll factor, and `stages` a number of pipeline
    stages.

    `independent_loads` is a promise about the loads in the loop's own blocks, not in inner loops,
    that reach operand A or B of a dot of the same iteration: before the load, the loop neither
    stores to the memory that it reads, nor changes it by an atomic whose old value is unused.
    `async-pipeline` moves these loads ahead of such stores and atomics. If the promise is broken, a
    load may read its memory before or after them.

    `independent_iterations` is a promise about all loads in the loop's own blocks: no iteration
    loads what another one stores, or changes by an atomic whose old value is unused. If the loop
    has no dots, `async-pipeline` copies the loaded tiles `stages - 1` iterations ahead.

    `br loop`
    """

    target: Successor = successor()
    stages: int | None = attribute(INT, default=None)
    unroll: int | None = attribute(INT, default=None)
    independent_loads: bool = attribute(BOOL_ATTRIBUTE, default=False)
    independent_iterations: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.CONTROL
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return self.target


@op("cond_br")
class CondBranch(Op):
    """Jump to `then` where the scalar `condition` is true, else to `otherwise`.

    `cond_br %p, body, exit`, given `i1 %p`
    """

    condition: Operand = operand(ExactType(I1))
    then: Successor = successor()
    otherwise: Successor = successor()
    stages: int | None = attribute(INT, default=None)
    unroll: int | None = attribute(INT, default=None)
    independent_loads: bool = attribute(BOOL_ATTRIBUTE, default=False)
    independent_iterations: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.CONTROL
    predicable = False

    def evaluate(self, machine: Any, condition: Any) -> Any:
        return self.then if machine.truth(condition) else self.otherwise


@op("ret")
class Return(Op):
    """Leave the function with `values`, one per return type.

    `ret %sum`, given `f32 %sum`
    """

    values: tuple[Operand, ...] = variadic(ANYTHING)
    effects_ = Effects.CONTROL
    predicable = False

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return values


@op("unreachable")
class Unreachable(Op):
    """Promise that this point is never reached.

    `unreachable`
    """

    effects_ = Effects.CONTROL
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return machine.unreachable()
