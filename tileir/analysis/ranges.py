"""Integer ranges: the least and the greatest number an integer can be, as a signed one.

Branch conditions and `assume` narrow what they compare, in the blocks they guard and for the
arguments of the edges they choose. In loops, ranges are widened to numbers that comparisons use,
then to the bounds of the type, and are then narrowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.branch_conditions import Guards, guards
from tileir.analysis.dataflow import forward_values
from tileir.analysis.range_rules import Range, full, hull, of_literal, rule_of
from tileir.analysis.uses import arguments, definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Scalar, Type, element_of
from tileir.values import Constant, Operand, Value

__all__ = ["Range", "Ranges", "ranges", "ranges_of"]

_PATIENCE = 3
"""The number of changes of a block parameter after which its growing bounds are widened."""
_MOST_STOPS = 48
"""The most numbers to which bounds are widened before the end of their type."""
_NARROWINGS = 2
_PASSED_OVER = 8
"""The number of values that can be skipped in the time of analysing one."""


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Ranges:
    """The range of every integer value of a function, over all elements that are defined.

    `exact` are the ops (`add`, `sub`, `mul`, `shl`) whose signed result never wraps.
    """

    facts: Mapping[Value, Range]
    exact: frozenset[Op]
    guards: Guards

    def of(self, operand: Operand) -> Range:
        """The range of `operand` wherever it is defined. Raises TypeError where it is no
        integer."""
        if not isinstance(operand, Value):
            return of_literal(operand)
        fact = self.facts.get(operand)
        return full(operand.type) if fact is None else fact

    def at(self, operand: Operand, label: str) -> Range:
        """The range of `operand` within block `label`, narrowed by the conditions that guard the
        block."""
        return self.guards.narrow(operand, self.of(operand), label, None, self.of)


@memoize
def ranges(function: Function) -> Ranges:
    """The ranges of every integer value of `function`."""
    return _solve(function, None)


def ranges_of(function: Function, *operands: Operand) -> Ranges:
    """The ranges of `operands` at least. A call analyses only the values that these depend on. Once
    the calls together have taken as long as an analysis of all values, the next call analyses all
    values."""
    spent, all_values = _spent(function), len(definitions(function))
    if spent.values > all_values:
        return ranges(function)
    values = _dependent_values(function, operands)
    spent.values += len(values) + all_values // _PASSED_OVER
    return _solve(function, values)


@attrs.define(eq=False)
class _Spent:
    """The cost of the calls of `ranges_of` for a function, in analysed values."""

    values: int = 0


@memoize
def _spent(function: Function) -> _Spent:
    return _Spent()


def _solve(function: Function, within: Set[Value] | None) -> Ranges:
    within = _integers(function) if within is None else within
    solver = _RangeSolver(guards(function), _stops(function), within)
    integers = [p.value for p in function.parameters if _is_integer(p.value)]
    facts = _NoneElsewhere({value: full(value.type) for value in integers})
    result = solver.solve(function, facts)
    return Ranges(result, frozenset(solver.exact), solver.guards)


class _NoneElsewhere(dict[Value, Range | None]):
    """Facts about integers; for all other values, the fact is None."""

    def __missing__(self, value: Value) -> None:
        return None


def _integers(function: Function) -> set[Value]:
    """The integers among the results and parameters of blocks."""
    values = [p for block in function.blocks.values() for p in block.parameters]
    values += [v for op in function.ops for v in op.results]
    return {v for v in values if _holds_integers(v.type)}


def _dependent_values(function: Function, operands: Sequence[Operand]) -> set[Value]:
    """`operands` and all values that facts about them follow from, by ops, edges and guards."""
    defined, passed, bounds = definitions(function), arguments(function), guards(function)
    values: set[Value] = set()
    pending = [*operands]
    while pending:
        operand = pending.pop()
        if isinstance(operand, Value) and operand not in values:
            values.add(operand)
            op = defined.get(operand)
            pending += passed.get(operand, ()) if op is None else op.inputs
            pending += bounds.others(operand)
    return values


def _is_integer(operand: Operand) -> bool:
    return _holds_integers(operand.type)


@lru_cache(4096)
def _holds_integers(type: Type) -> bool:
    element = element_of(type)
    return isinstance(element, Scalar) and element.is_integer


@attrs.define(eq=False, weakref_slot=False, repr=False)
class _RangeSolver:
    """One run over a function: how often parameters moved, and which ops do not wrap."""

    guards: Guards
    stops: tuple[int, ...]
    """The values to which growing bounds are widened, in order."""
    within: Set[Value]
    """The values whose ranges are requested."""
    exact: set[Op] = attrs.field(factory=set[Op])
    moves: dict[Value, int] = attrs.field(factory=dict[Value, int])

    def solve(self, function: Function, facts: dict[Value, Range | None]) -> dict[Value, Any]:
        forward_values(
            function, facts=facts, literal=_literal, transfer=self.transfer, merge=self.widen,
            refine=lambda v, fact, block, to: self.refine(facts, v, fact, block, to),
            refined=self.guards.values,
            sharpen=lambda: _narrow if self.moves else None, most=_NARROWINGS, within=self.within,
        )  # fmt: skip
        return {value: fact for value, fact in facts.items() if fact is not None}

    def refine(
        self, facts: Mapping[Value, Range | None], operand: Operand, fact: Range | None,
        block: str, target: str | None,
    ) -> Range | None:  # fmt: skip
        if fact is None:
            return fact

        def read(other: Operand) -> Range:
            result = facts.get(other) if isinstance(other, Value) else of_literal(other)
            return full(other.type) if result is None else result

        return self.guards.narrow(operand, fact, block, target, read)

    def transfer(self, op: Op, read: Callable[[Operand], Range | None]) -> Sequence[Range | None]:
        integers = [_holds_integers(v.type) for v in op.results]
        if True not in integers:
            return (None,) * len(integers)
        rule = rule_of(op)
        if rule is None:
            return [full(v.type) if _is_integer(v) else None for v in op.results]
        return rule(op, [read(v) for v in op.inputs], self.exact)

    def widen(self, value: Value, old: Range | None, facts: Sequence[Range | None]) -> Any:
        if not _is_integer(value):
            return None
        facts_known = [f for f in facts if f is not None]
        new = (
            hull(facts_known if old is None else [old, *facts_known])
            if facts_known or old
            else full(value.type)
        )
        if old is None or new == old:
            return new
        self.moves[value] = self.moves.get(value, 0) + 1
        if self.moves[value] < _PATIENCE:
            return new
        least, greatest = full(value.type)
        below = (n for n in reversed(self.stops) if least <= n <= new[0])
        above = (n for n in self.stops if new[1] <= n <= greatest)
        return (
            next(below, least) if new[0] < old[0] else old[0],
            next(above, greatest) if new[1] > old[1] else old[1],
        )


@memoize
def _stops(function: Function) -> tuple[int, ...]:
    """Numbers that comparisons use, and their neighbours: the bounds of loops that count to one of
    them."""
    result: set[int] = set()
    for op in function.ops:
        if op.mnemonic == "icmp":
            for bound in (v for v in op.inputs if isinstance(v, Constant)):
                number = int(of_literal(bound)[0])
                result |= {number - 1, number, number + 1}
    return tuple(sorted(result)) if len(result) <= _MOST_STOPS else ()


def _narrow(value: Value, old: Range | None, facts: Sequence[Range | None]) -> Any:
    ranges = [f for f in facts if f is not None]
    return hull(ranges) if ranges else old


def _literal(operand: Any) -> Range | None:
    return of_literal(operand) if _holds_integers(operand.type) else None
