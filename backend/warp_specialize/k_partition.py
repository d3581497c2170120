"""The steps of a loop that only adds up, shared by the ranks of a cluster: of `n` ranks, rank r
takes steps r, r + n, r + 2 n, ... of it, so that no two differ by more than one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import attrs

from tileir.analysis.loops import (
    InductionVariable,
    Loop,
    TripCount,
    induction_variables,
    loops,
    trip_count,
)
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.backend.tma.host_expressions import host_values
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op, lookup
from tileir.ops.arith import Mul
from tileir.ops.compare import ICmp, IntegerPredicate, Select
from tileir.ops.dot import Dot
from tileir.ops.program import Assume
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import map_edges
from tileir.refusal import Refusal
from tileir.types import I1, I32, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

FARTHEST = 1 << 28
"""What a loop counts to, at most: so far that the steps of all ranks do not wrap around."""


@attrs.frozen(eq=False)
class AccumulationLoop:
    """A loop, what it counts, and the parameters of its header that hold its sums."""

    loop: Loop
    count: TripCount
    counters: tuple[InductionVariable, ...]
    sums: tuple[Value, ...]


def find_accumulation_loop(function: Function) -> AccumulationLoop | Refusal:
    """The loop of `function` that has all its dots, whose rounds do nothing but count and add;
    else why there is none."""
    place = defining_blocks(function)
    nest = loops(function)
    around = {nest.innermost.get(place[op.result]) for op in function.ops if isinstance(op, Dot)}
    (header, *others) = around or {None}
    if header is None or others:
        return Refusal("the dots are not all in one loop")
    loop = nest.by_header[header]
    count = trip_count(function, loop)
    if count is None or not count.tested_first or count.ahead or (count.of.stride or 0) <= 0:
        return Refusal("its loop does not count up to a number that it knows first")
    if count.relation not in ("slt", "sle"):
        return Refusal(f"its loop goes on while its count is {count.relation} something")
    acting = next((op for n in loop.order for op in function.blocks[n].ops if _acts(op)), None)
    if acting is not None:
        return Refusal("the loop has effects besides the accumulation", acting.location)
    return _carrying(function, loop, count)


def _acts(op: Op) -> bool:
    return bool(op.effects & (Effects.WRITE | Effects.SYNC))


def _carrying(function: Function, loop: Loop, count: TripCount) -> AccumulationLoop | Refusal:
    counters = {v.value: v for v in induction_variables(function, loop) if _counts(function, v)}
    sums: list[Value] = []
    for parameter, following in _followed(function, loop):
        if parameter in counters or following is parameter:
            continue
        if not isinstance(parameter.type, Tile) or not _adds(function, loop, parameter, following):
            return Refusal(f"%{parameter.name or '?'} is neither counted nor added to")
        sums.append(parameter)
    if not sums:
        return Refusal("its loop adds nothing")
    if _leaving(function, loop) - set(sums):
        return Refusal("what its loop counts is looked at behind")
    return AccumulationLoop(loop, count, tuple(counters.values()), tuple(sums))


def _leaving(function: Function, loop: Loop) -> set[Value]:
    """What is defined in the loop and read outside of it."""
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


def _counts(function: Function, variable: InductionVariable) -> bool:
    """Whether nobody but the next round looks at where the variable is next."""
    return not variable.falling and len(uses(function)[variable.update.results[0]]) == 1


def _followed(function: Function, loop: Loop) -> Iterator[tuple[Value, Operand]]:
    """The header's parameters and what they are in the next round."""
    block = function.blocks[loop.header]
    edges = function.blocks[cast(str, loop.latch)].successors
    edge = next(e for e in edges if e.label == loop.header)
    return zip(block.parameters, edge.arguments, strict=True)


def _adds(function: Function, loop: Loop, first: Value, last: Operand) -> bool:
    """Whether `last` is `first` and products or others added, none of which depends on it."""
    made, place = definitions(function), defining_blocks(function)
    value = last
    while value is not first:
        op: Any = made.get(value) if isinstance(value, Value) else None
        if op is None or place[op.result] not in loop.blocks or op.predicate is not None:
            return False
        terms = (op.c,) if isinstance(op, Dot) else _terms(op)
        found = [x for x in terms if _leads(function, loop, first, x)]
        if len(found) != 1:
            return False
        (value,) = found
    return True


def _terms(op: Op) -> tuple[Operand, ...]:
    return op.inputs if op.mnemonic in ("add", "fadd") else ()


def _leads(function: Function, loop: Loop, first: Value, value: Operand) -> bool:
    """Whether `value` may be a sum on its way from `first`: it has one reader in the loop."""
    if not isinstance(value, Value):
        return False
    label = defining_blocks(function)
    here = [op for op in uses(function).get(value, ()) if _within(function, loop, op)]
    made: Any = definitions(function).get(value)
    chained = value is first or isinstance(made, Dot) or (made is not None and bool(_terms(made)))
    return len(here) == 1 and chained and label[value] in loop.blocks


def _within(function: Function, loop: Loop, op: Op) -> bool:
    return any(op in function.blocks[label].ops for label in loop.blocks)


@attrs.define(eq=False)
class KPartition:
    """The loop `found` of a function for `rank` of `ranks`."""

    function: Function
    found: AccumulationLoop
    rank: Value
    ranks: int
    before: list[Op] = attrs.field(factory=list)
    """What is computed before the loop."""

    def shared(self) -> Function | Refusal:
        """The function with the rank's steps alone; else why there is none."""
        entering = self._entering()
        if entering is None:
            return Refusal("its loop is entered from several places")
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
                ops[-1:] = [*self.before, self._passing(block.terminator, starts)]
            ops = [steps.get(op, op) for op in ops]
            blocks[label] = attrs.evolve(block, ops=tuple(ops))
        return self.function.with_blocks(blocks)

    def _entering(self) -> str | None:
        """The only block that leads into the loop."""
        header, inside = self.found.loop.header, self.found.loop.blocks
        found = [
            label
            for label, block in self.function.blocks.items()
            if label not in inside and any(e.label == header for e in block.successors)
        ]
        return found[0] if len(found) == 1 else None

    def _guard(self) -> list[Op] | Refusal:
        """Ops by which the steps of all ranks end before they wrap around."""
        count = self.found.count
        if cast(int, count.of.stride) * self.ranks >= FARTHEST:
            return Refusal("its loop takes too large steps")
        ops: list[Op] = []
        for end in dict.fromkeys((count.of.start, count.bound)):
            _, most = ranges(self.function).of(end)
            if most < FARTHEST:
                continue
            if end not in host_values(self.function):
                return Refusal("what its loop counts to is not known to be small")
            limit = constant(cast(Scalar, element_of(end.type)), FARTHEST)
            test = ICmp(end, limit, predicate_=IntegerPredicate.SLT)
            ops += [test, Assume(test.results[0])]
        return ops

    def _starts(self, entering: str) -> list[Operand]:
        """What the header's parameters are at first."""
        header = self.function.blocks[self.found.loop.header]
        last = self.function.blocks[entering].terminator
        edge = next(e for e in last.successors if e.label == header.label)
        counters = {c.value: c for c in self.found.counters}
        return [
            self._counter(counters[p], start) if p in counters
            else self._sum(start) if p in self.found.sums else start
            for p, start in zip(header.parameters, edge.arguments, strict=True)
        ]  # fmt: skip

    def _counter(self, counter: InductionVariable, start: Operand) -> Operand:
        """Where a counter starts."""
        moved = self._times(self._ranked(counter.step.type), counter.step)
        if counter.update.mnemonic == "add" and isinstance(start, Constant) and not start.bits:
            return moved
        return self._made(self._moved(counter, start, moved, ()))

    def _ranked(self, kind: Any) -> Operand:
        """The rank as a number of type `kind`."""
        element, value = element_of(kind), self.rank
        if element is not I32:
            name = "sext" if cast(Scalar, element).bits > 32 else "trunc"
            value = self._made(cast(Any, lookup(name))(value, element))
        return self._made(Splat(value, kind)) if shape_of(kind) else value

    def _times(self, a: Operand, b: Operand) -> Operand:
        if isinstance(b, Constant) and b.bits == 1:
            return a
        return self._made(Mul(a, b))

    def _sum(self, start: Operand) -> Operand:
        """What a sum starts at: zero for all ranks but the first."""
        if isinstance(start, Constant) and not start.bits:
            return start
        zero = Constant(start.type, 0)
        first = ICmp(self.rank, constant(I32, 0), predicate_=IntegerPredicate.EQ)
        self.before.append(first)
        test: Operand = first.results[0]
        if shape := shape_of(start.type):
            test = self._made(Splat(test, Tile(I1, shape)))
        return self._made(Select(test, start, zero))

    def _made(self, op: Any) -> Value:
        self.before.append(op)
        return op.results[0]

    def _steps(self) -> dict[Op, Op]:
        """The ops that move counters, by as many steps as there are ranks."""
        return {
            c.update: self._moved(c, c.value, self._multiplied(c.step), c.update.results)
            for c in self.found.counters
        }

    def _moved(
        self, counter: InductionVariable, value: Operand, step: Operand, results: tuple[Value, ...]
    ) -> Op:
        """The op that moves a counter, for another value and step."""
        first, second = (f.name for f in counter.update.schema if f.pattern is not None)
        return counter.update.evolve(**{first: value, second: step}, results=results)

    def _multiplied(self, step: Operand) -> Operand:
        kind = cast(Scalar, element_of(step.type))
        if isinstance(step, Constant):
            bits = (step.bits * self.ranks) & ((1 << kind.bits) - 1)
            return Constant(step.type, bits)
        return self._made(Mul(step, Constant(step.type, self.ranks)))

    def _passing(self, terminator: Op, starts: Sequence[Operand]) -> Op:
        header = self.found.loop.header
        return map_edges(
            terminator, lambda e: Successor(e.label, tuple(starts)) if e.label == header else e
        )
