"""The lanes of a value that are defined, where a predicate left some undefined.

A lane whose predicate is undefined takes no part in a reduction, a scan or a histogram. An
undefined lane must therefore not become defined before it reaches such a predicate: folding and
algebraic laws leave these ops alone, and lowering computes the defined lanes
(`tileir.passes.defined_lanes`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tileir.analysis import memoize
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Operand, Undef, Value


def collects(op: Op) -> bool:
    """Whether `op` combines lanes, so that its results depend on which of them take part."""
    return op.predicate_follows_operand and op.effects is Effects.PURE


@memoize
def kept_undefined(function: Function) -> frozenset[Value]:
    """Values whose undefined lanes decide which lanes a reduction, scan or histogram combines:
    no pass may define more of them."""
    predicates = [op.predicate for op in function.ops if op.predicate is not None and collects(op)]
    if not predicates:
        return frozenset()
    values = transitive_operands(function, predicates)
    origin = definitions(function)
    if any(_leaves_undefined(origin[value]) for value in values):
        return frozenset(values)
    return frozenset()


def _leaves_undefined(op: Op) -> bool:
    return op.predicate is not None or any(isinstance(v, Undef) for v in op.inputs)


def transitive_operands(function: Function, operands: Iterable[Operand | None]) -> set[Value]:
    """The results of ops that `operands` are computed from, their own included."""
    origin, values = definitions(function), set[Value]()
    waiting = list(operands)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Value) and value in origin and value not in values:
            op = origin[value]
            values.update(op.results)
            waiting.extend(op.operands)
    return values
