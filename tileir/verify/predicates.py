"""Predicates: reads of lanes where a value is undefined, and the predicates of `psi`.

A value defined under `@%p` is undefined where `%p` is false. Elementwise ops propagate undefined
lanes to their results. A warning is reported if an undefined lane may reach memory, a branch, a
reduction or an effect outside of the program. There are no errors, because predicates are known at
run time only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.predicates import Predicates, predicates
from tileir.errors import Diagnostic, Severity
from tileir.ir import Function
from tileir.op import Effects, Op
from tileir.types import shape_of
from tileir.values import Operand, Value

Needs: TypeAlias = tuple[Operand, ...]
"""The predicates that must all be true for a lane of a value to be defined."""


def check_predicates(function: Function) -> Iterator[Diagnostic]:
    """Warnings and remarks about predicated values of `function`."""
    flow = _PredicateFlow(predicates(function))
    for label in cfg(function).order:
        for op in function.blocks[label].ops:
            if op.mnemonic == "psi":
                yield from _check_psi(flow, op)
            yield from _check_reads(flow, op)
            _define(flow, op)
        _pass_on(flow, function, label)


@attrs.frozen(weakref_slot=False)
class _PredicateFlow:
    """The facts about predicates, and the predicate under which each value so far is defined."""

    facts: Predicates
    needs: dict[Value, Needs] = attrs.field(factory=dict[Value, Needs])

    def missing(self, operand: Operand, where: Needs) -> Needs:
        """Predicates that `operand` needs and that `where` does not imply."""
        if not isinstance(operand, Value):
            return ()
        return tuple(
            p for p in self.needs.get(operand, ()) if p not in where and not self._holds(p, where)
        )

    def _holds(self, predicate: Operand, where: Needs) -> bool:
        return self.facts.covers((predicate,), where)


_SEEN = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.CONTROL


def _where(op: Op) -> Needs:
    return () if op.predicate is None else (op.predicate,)


def _check_reads(flow: _PredicateFlow, op: Op) -> Iterator[Diagnostic]:
    """Reads by an op through which undefined lanes can be seen."""
    if not flow.needs or (op.effects is Effects.PURE and not op.predicate_follows_operand):
        return
    effects = op.effects
    if effects & _SEEN or op.predicate_follows_operand:
        yield from _check_inputs(flow, op)
    if op.predicate is not None and effects & ~Effects.READ:
        for needed in flow.missing(op.predicate, ()):
            yield _warning(op, op.predicate, needed, "predicate")


def _check_inputs(flow: _PredicateFlow, op: Op) -> Iterator[Diagnostic]:
    mask, other = getattr(op, "mask", None), getattr(op, "other", None)
    masked = _where(op) if mask is None else (*_where(op), mask)
    for index, operand in enumerate(op.inputs):
        where = _where(op) if operand is mask or operand is other else masked
        for needed in flow.missing(operand, where):
            yield _warning(op, operand, needed, index)


def _warning(op: Op, operand: Operand, needed: Operand, index: int | str) -> Diagnostic:
    message = f"{_name(operand)} is undefined where {_name(needed)} is false, and is read here"
    return Diagnostic("TIR0230", message, op.location, Severity.WARNING, operand=index)


def _name(operand: Operand) -> str:
    return f"%{operand.name or '?'}" if isinstance(operand, Value) else "a literal"


def _define(flow: _PredicateFlow, op: Op) -> None:
    """The requirements of the results of `op`: its predicate, and further requirements of its
    inputs."""
    where = _where(op)
    required = dict.fromkeys(() if _counts_lanes(op) else where)
    if op.elementwise and flow.needs:
        for condition, operand in _arms(op):
            for needed in flow.missing(operand, (*where, *condition)):
                if shape_of(needed.type) in ((), shape_of(op.results[0].type)):
                    required[needed] = None
    if required:
        for value in op.results:
            flow.needs[value] = tuple(required)


def _counts_lanes(op: Op) -> bool:
    """Whether the predicate selects the lanes that are counted; without any, the count is 0."""
    tiled = op.predicate is not None and shape_of(op.predicate.type) != ()
    return tiled and op.mnemonic == "histogram"


def _arms(op: Any) -> Sequence[tuple[Needs, Operand]]:
    """The inputs of an elementwise op, each with the condition under which it counts."""
    if op.mnemonic == "psi":
        return [((p,), v) for p, v in zip(op.arms[::2], op.arms[1::2], strict=True)]
    if op.mnemonic == "select":
        return [((), op.condition), ((op.condition,), op.then), ((), op.otherwise)]
    return [((), operand) for operand in op.inputs]


def _pass_on(flow: _PredicateFlow, function: Function, label: str) -> None:
    for edge in function.blocks[label].successors:
        for parameter, argument in zip(
            function.blocks[edge.label].parameters, edge.arguments, strict=True
        ):
            if isinstance(argument, Value) and argument in flow.needs:
                flow.needs[parameter] = flow.needs[argument]


_MOST_COMPARED = 32
"""The most predicates of a `psi` that are compared with each other, in quadratic time."""


def _check_psi(flow: _PredicateFlow, op: Any) -> Iterator[Diagnostic]:
    conditions: tuple[Operand, ...] = op.arms[::2]
    facts = flow.facts
    if not facts.covers(conditions, _where(op)):
        message = "psi: lanes where all predicates are false are undefined"
        yield Diagnostic("TIR0231", message, op.location, Severity.REMARK)
    if len(conditions) > _MOST_COMPARED:
        return
    for index, condition in enumerate(conditions):
        later = conditions[index + 1 :]
        if later and facts.covers(later, (condition,)):
            message = f"psi: value {index} is never chosen, later predicates hold where its does"
            yield Diagnostic("TIR0233", message, op.location, Severity.WARNING, operand=2 * index)
        elif any(_overlap(facts, condition, other) for other in later):
            message = f"psi: predicate {index} and later ones may hold together; the last decides"
            yield Diagnostic("TIR0232", message, op.location, Severity.REMARK, operand=2 * index)


def _overlap(facts: Predicates, first: Operand, second: Operand) -> bool:
    """Whether two predicates may be true together, and the second does not imply the first."""
    return not facts.exclusive(first, second) and not facts.implies(second, first)
