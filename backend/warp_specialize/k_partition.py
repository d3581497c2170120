"""Partition K: divide the iterations of an accumulation loop among the ranks of a cluster. Of `n`
ranks, rank r executes iterations r, r + n, r + 2 n, ..., so that their numbers differ by at most
one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import attrs

from tileir.analysis.induction import InductionVariable, TripCount, induction_variables, trip_count
from tileir.analysis.loops import Loop, loops
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.backend.tma.host_expressions import host_values
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op, lookup
from tileir.ops.arith import ICmp, IntegerPredicate, Mul, Select
from tileir.ops.dot import Dot
from tileir.ops.hints import Assume
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import map_edges
from tileir.refusal import Refusal
from tileir.types import I1, I32, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

MAX_BOUND = 1 << 28
"""The bound of a loop is below this, so that the counters of all ranks do not wrap around."""


@attrs.frozen(eq=False)
class AccumulationLoop:
    """A loop, its trip count, its induction variables, and the parameters of its header that are
    accumulators."""

    loop: Loop
    count: TripCount
    counters: tuple[InductionVariable, ...]
    accumulators: tuple[Value, ...]


def find_accumulation_loop(function: Function) -> AccumulationLoop | Refusal:
    """The loop of `function` that contains all its dots, if its iterations only count and
    accumulate; or a Refusal with the reason why there is none."""
    place = defining_blocks(function)
    nest = loops(function)
    around = {nest.innermost.get(place[op.result]) for op in function.ops if isinstance(op, Dot)}
    (header, *more_loops) = around or {None}
    if header is None or more_loops:
        return Refusal("the dots are not all in one loop")
    loop = nest.by_header[header]
    count = trip_count(function, loop)
    if count is None or not count.tested_first or count.ahead or (count.of.stride or 0) <= 0:
        return Refusal("the loop does not count up to a bound that is computed before it")
    if count.relation not in ("slt", "sle"):
        return Refusal(f"the loop runs while its count is {count.relation} its bound")
    effect = next(
        (op for n in loop.order for op in function.blocks[n].ops if _has_effect(op)), None
    )
    if effect is not None:
        return Refusal("the loop has effects besides the accumulation", effect.location)
    return _classify_parameters(function, loop, count)


def _has_effect(op: Op) -> bool:
    return bool(op.effects & (Effects.WRITE | Effects.SYNC))


def _classify_parameters(
    function: Function, loop: Loop, count: TripCount
) -> AccumulationLoop | Refusal:
    counters = {v.value: v for v in induction_variables(function, loop) if _is_counter(function, v)}
    accumulators: list[Value] = []
    for parameter, next_value in _next_values(function, loop):
        if parameter in counters or next_value is parameter:
            continue
        if not isinstance(parameter.type, Tile) or not _is_accumulation(
            function, loop, parameter, next_value
        ):
            return Refusal(f"%{parameter.name or '?'} is neither a counter nor an accumulator")
        accumulators.append(parameter)
    if not accumulators:
        return Refusal("the loop has no accumulator")
    if _read_after_loop(function, loop) - set(accumulators):
        return Refusal("a counter of the loop is read after it")
    return AccumulationLoop(loop, count, tuple(counters.values()), tuple(accumulators))


def _read_after_loop(function: Function, loop: Loop) -> set[Value]:
    """The values that are defined in the loop and read outside of it."""
    place = defining_blocks(function)
    return {
        value
        for label, block in function.blocks.items()
        if label not in loop.blocks
        for op in block.ops
        for value in op.operands
        if isinstance(value, Value) and place[value] in loop.blocks
    } | {
        value
        for label in loop.blocks
        for edge in function.blocks[label].successors
        if edge.label not in loop.blocks
        for value in edge.arguments
        if isinstance(value, Value) and place[value] in loop.blocks
    }


def _is_counter(function: Function, variable: InductionVariable) -> bool:
    """Whether only the next iteration reads the next value of an induction variable."""
    return not variable.falling and len(uses(function)[variable.update.results[0]]) == 1


def _next_values(function: Function, loop: Loop) -> Iterator[tuple[Value, Operand]]:
    """The parameters of the header, each with its value in the next iteration."""
    block = function.blocks[loop.header]
    edges = function.blocks[cast(str, loop.latch)].successors
    edge = next(e for e in edges if e.label == loop.header)
    return zip(block.parameters, edge.arguments, strict=True)


def _is_accumulation(function: Function, loop: Loop, first: Value, last: Operand) -> bool:
    """Whether `last` is `first` plus dots and other terms, none of which depends on `first`."""
    producers, place = definitions(function), defining_blocks(function)
    value = last
    while value is not first:
        op: Any = producers.get(value) if isinstance(value, Value) else None
        if op is None or place[op.result] not in loop.blocks or op.predicate is not None:
            return False
        terms = (op.c,) if isinstance(op, Dot) else _terms(op)
        chained = [x for x in terms if _is_partial_accumulator(function, loop, first, x)]
        if len(chained) != 1:
            return False
        (value,) = chained
    return True


def _terms(op: Op) -> tuple[Operand, ...]:
    return op.inputs if op.mnemonic in ("add", "fadd") else ()


def _is_partial_accumulator(function: Function, loop: Loop, first: Value, value: Operand) -> bool:
    """Whether `value` may be a partial sum of a chain from `first`: it has one reader in the
    loop."""
    if not isinstance(value, Value):
        return False
    label = defining_blocks(function)
    here = [op for op in uses(function).get(value, ()) if _within(function, loop, op)]
    producer: Any = definitions(function).get(value)
    is_addition = (
        value is first
        or isinstance(producer, Dot)
        or (producer is not None and bool(_terms(producer)))
    )
    return len(here) == 1 and is_addition and label[value] in loop.blocks


def _within(function: Function, loop: Loop, op: Op) -> bool:
    return any(op in function.blocks[label].ops for label in loop.blocks)


@attrs.define(eq=False)
class KPartition:
    """The iterations of the loop `plan` of a function that `rank` of `ranks` executes."""

    function: Function
    plan: AccumulationLoop
    rank: Value
    ranks: int
    before: list[Op] = attrs.field(factory=list)
    """The ops to insert before the loop."""

    def partition(self) -> Function | Refusal:
        """The function with the iterations of the rank; or a Refusal with the reason why there is
        none."""
        entering = self._entering()
        if entering is None:
            return Refusal("the loop is entered from several blocks")
        guard = self._guard()
        if isinstance(guard, Refusal):
            return guard
        starts, steps = self._starts(entering), self._steps()
        blocks: dict[str, Block] = {}
        for label, block in self.function.blocks.items():
            ops = list(block.ops)
            if label == self.function.entry.label:
                place = len(ops) - 1
                ops[place:place] = guard
            if label == entering:
                ops[-1:] = [*self.before, self._with_starts(block.terminator, starts)]
            ops = [steps.get(op, op) for op in ops]
            blocks[label] = attrs.evolve(block, ops=tuple(ops))
        return self.function.with_blocks(blocks)

    def _entering(self) -> str | None:
        """The only block outside the loop with an edge to its header."""
        header, inside = self.plan.loop.header, self.plan.loop.blocks
        entering = [
            label
            for label, block in self.function.blocks.items()
            if label not in inside and any(e.label == header for e in block.successors)
        ]
        return entering[0] if len(entering) == 1 else None

    def _guard(self) -> list[Op] | Refusal:
        """Assumptions that start and bound are small enough that no counter wraps around."""
        count = self.plan.count
        if cast(int, count.of.stride) * self.ranks >= MAX_BOUND:
            return Refusal("the step of the loop is too large")
        ops: list[Op] = []
        for end in dict.fromkeys((count.of.start, count.bound)):
            _, most = ranges(self.function).of(end)
            if most < MAX_BOUND:
                continue
            if end not in host_values(self.function):
                return Refusal("the bound of the loop may be too large")
            limit = constant(cast(Scalar, element_of(end.type)), MAX_BOUND)
            test = ICmp(end, limit, predicate_=IntegerPredicate.SLT)
            ops += [test, Assume(test.results[0])]
        return ops

    def _starts(self, entering: str) -> list[Operand]:
        """The initial values of the header's parameters."""
        header = self.function.blocks[self.plan.loop.header]
        last = self.function.blocks[entering].terminator
        edge = next(e for e in last.successors if e.label == header.label)
        counters = {c.value: c for c in self.plan.counters}
        return [
            self._counter_start(counters[p], start) if p in counters
            else self._accumulator_start(start) if p in self.plan.accumulators else start
            for p, start in zip(header.parameters, edge.arguments, strict=True)
        ]  # fmt: skip

    def _counter_start(self, counter: InductionVariable, start: Operand) -> Operand:
        """The start of a counter for this rank."""
        offset = self._times(self._rank_as(counter.step.type), counter.step)
        if counter.update.mnemonic == "add" and isinstance(start, Constant) and not start.bits:
            return offset
        return self._emit(self._step_op(counter, start, offset, ()))

    def _rank_as(self, kind: Any) -> Operand:
        """The rank as an integer of type `kind`."""
        element, value = element_of(kind), self.rank
        if element is not I32:
            name = "sext" if cast(Scalar, element).bits > 32 else "trunc"
            value = self._emit(cast(Any, lookup(name))(value, element))
        return self._emit(Splat(value, kind)) if shape_of(kind) else value

    def _times(self, a: Operand, b: Operand) -> Operand:
        if isinstance(b, Constant) and b.bits == 1:
            return a
        return self._emit(Mul(a, b))

    def _accumulator_start(self, start: Operand) -> Operand:
        """The start of an accumulator: zero for all ranks but the first."""
        if isinstance(start, Constant) and not start.bits:
            return start
        zero = Constant(start.type, 0)
        first = ICmp(self.rank, constant(I32, 0), predicate_=IntegerPredicate.EQ)
        self.before.append(first)
        test: Operand = first.results[0]
        if shape := shape_of(start.type):
            test = self._emit(Splat(test, Tile(I1, shape)))
        return self._emit(Select(test, start, zero))

    def _emit(self, op: Any) -> Value:
        self.before.append(op)
        return op.results[0]

    def _steps(self) -> dict[Op, Op]:
        """The update by `ranks` steps for each update of a counter."""
        return {
            c.update: self._step_op(c, c.value, self._scaled_step(c.step), c.update.results)
            for c in self.plan.counters
        }

    def _step_op(
        self, counter: InductionVariable, value: Operand, step: Operand, results: tuple[Value, ...]
    ) -> Op:
        """The update of a counter for another value and step."""
        first, second = (f.name for f in counter.update.schema if f.pattern is not None)
        return counter.update.evolve(**{first: value, second: step}, results=results)

    def _scaled_step(self, step: Operand) -> Operand:
        kind = cast(Scalar, element_of(step.type))
        if isinstance(step, Constant):
            bits = (step.bits * self.ranks) & ((1 << kind.bits) - 1)
            return Constant(step.type, bits)
        return self._emit(Mul(step, Constant(step.type, self.ranks)))

    def _with_starts(self, terminator: Op, starts: Sequence[Operand]) -> Op:
        header = self.plan.loop.header
        return map_edges(
            terminator, lambda e: Successor(e.label, tuple(starts)) if e.label == header else e
        )
