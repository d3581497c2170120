"""Writing the loops of a plan, and what stands between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tileir import records
from tileir.backend.lower.combiners import identity
from tileir.backend.strip.chain import Cutter, index, resized
from tileir.backend.strip.keep import Keeper, keepers, read_later
from tileir.backend.strip.plan import Plan, Planner, Sink
from tileir.backend.strip.staging import Stages
from tileir.field import Successor
from tileir.ir import Block
from tileir.op import Op, lookup
from tileir.ops.arith import Add
from tileir.ops.compare import ICmp, IntegerPredicate, Select
from tileir.ops.control import Branch, CondBranch
from tileir.passes.edges import fresh_label
from tileir.types import I32, Element, element_of
from tileir.values import Constant, Operand, Value


@records.define
class Writer:
    """Writes the blocks that stand for one block."""

    block: Block
    planner: Planner
    words: int
    keep: int
    labels: set[str]
    ops: list[Op] = records.field(init=False, factory=list)
    done: list[Block] = records.field(init=False, factory=list)
    loops: int = records.field(init=False, default=0)
    _label: str = records.field(init=False, default="")
    _parameters: tuple[Value, ...] = records.field(init=False, default=())

    def __post_init__(self) -> None:
        self._label, self._parameters = self.block.label, self.block.parameters

    def finish(self) -> list[Block]:
        """The blocks; what was written last ends in the terminator of the old block."""
        self._close()
        self.done[0] = records.evolve(
            self.done[0], comments=self.block.comments, location=self.block.location
        )
        return self.done

    def write(self, plan: Plan) -> None:
        """Everything of a stretch, level by level."""
        sizes: dict[int, int] = {}
        for sink in plan.sinks.values():
            size = piece_size(sink.extent, sink.chain.largest, self.words)
            sizes[sink.extent] = min(size, sizes.get(sink.extent, size))
        kept = keepers(plan, sizes, self.keep)
        stages = Stages(plan, kept, self.ops)
        for level in plan.levels:
            self.ops += [op for op, n in plan.kept.items() if n == level]
            later = read_later(plan, level)
            for sinks in plan.loops(level):
                self._cut(sinks, kept[sinks[0].extent], later, stages)

    def _cut(self, sinks: list[Sink], keeper: Keeper, later: frozenset[Op], stages: Stages) -> None:
        """The kept pieces of `sinks`, the loop over others, the rest, and the results; `later`
        are the loads that other loops repeat."""
        extent, size = sinks[0].extent, keeper.size
        whole, rest = extent // size * size, extent % size
        sums: Sequence[Operand] = [_identity(s, size) for s in sinks if s.reduces]
        done = max(keeper.count, 1 if whole == size else 0)
        for piece in range(done):
            again = later - keeper.loads if piece < keeper.count else later
            cutter = self._cutter(index(piece * size), size, again, stages)
            keeper.give(cutter, piece)
            sums = self._pieces(sinks, cutter, sums)
            keeper.take(cutter, piece)
        if done * size < whole:
            sums = self._loop(sinks, range(done * size, whole, size), sums, later, stages)
        extra: Sequence[Operand] = []
        if rest:
            cutter = self._cutter(index(whole), rest, later, stages)
            stages.give_rest(cutter)
            extra = self._pieces(sinks, cutter, [_identity(s, rest) for s in sinks if s.reduces])
            stages.take_rest(cutter)
        for place, sink in enumerate(s for s in sinks if s.reduces):
            self._result(sink, sums[place], extra[place] if rest else None)

    def _cutter(self, start: Operand, size: int, again: frozenset[Op], stages: Stages) -> Cutter:
        return Cutter(self.planner.definitions, start, size, self.ops, again, stages.buffers)

    def _loop(
        self, sinks: list[Sink], span: range, starts: Sequence[Operand], later: frozenset[Op],
        stages: Stages,
    ) -> list[Operand]:  # fmt: skip
        """A loop over the pieces of `span`; the values its sums have after it."""
        self.loops += 1
        start = Value(I32, "start")
        sums = tuple(Value(s.type, "sum") for s in starts)
        head = self._fresh(f"{self.block.label}.strip")
        after = self._fresh(f"{self.block.label}.after")
        self._close(Branch(Successor(head, (index(span.start), *starts))))
        self._label, self._parameters = head, (start, *sums)
        found = self._pieces(sinks, self._cutter(start, span.step, later, stages), sums)
        following = Add(start, index(span.step), results=(Value(I32, "next"),))
        more = ICmp(following.result, index(span.stop), predicate_=IntegerPredicate.SLT)
        self.ops += [following, more]
        again = Successor(head, (following.result, *found))
        self._close(CondBranch(more.results[0], again, Successor(after)))
        self._label, self._parameters = after, ()
        return found

    def _pieces(self, sinks: list[Sink], cutter: Cutter, sums: Sequence[Operand]) -> list[Operand]:
        """One piece of every sink; the new sums."""
        found, old = list[Operand](), iter(sums)
        for sink in sinks:
            if sink.reduces:
                found.append(_added(sink, cutter, next(old)))
            elif sink.stages:
                cutter.stage(sink.op, sink.dim)
            else:
                cutter.add(cutter.evolve(sink.op, sink.needs))
        return found

    def _result(self, sink: Sink, total: Operand, rest: Operand | None) -> None:
        """What the op of `sink` gave, from the sum of pieces and that of the rest."""
        op = cast(Any, sink.op)
        if rest is None:
            self.ops.append(records.evolve(op, values=(total,), predicate=None))
            return
        first, second = (
            records.evolve(op, values=(v,), predicate=None, results=(), comments=())
            for v in (total, rest)
        )
        joined = _combine(op, first.result, second.result)
        self.ops += [first, second, records.evolve(joined, results=op.results)]

    def _fresh(self, wanted: str) -> str:
        label = fresh_label(wanted, self.labels)
        self.labels.add(label)
        return label

    def _close(self, terminator: Op | None = None) -> None:
        ops = (*self.ops, terminator) if terminator else tuple(self.ops)
        self.done.append(Block(self._label, self._parameters, ops))
        self.ops = []


def piece_size(extent: int, unit: int, most: int) -> int:
    """Elements of a piece along a dimension of `extent`, each `unit` words, so that a piece has
    at most `most`: a divisor of the extent if one is not much smaller."""
    fits = max(1, min(most // unit, extent))
    power = 1 << (fits.bit_length() - 1)
    if extent % power == 0:
        return power
    divisors = (n for n in range(fits, fits // 2, -1) if extent % n == 0 and (n % 4 == 0 or n < 32))
    return next(divisors, power)


def _added(sink: Sink, cutter: Cutter, total: Operand) -> Operand:
    op = cast(Any, sink.op)
    value = cutter.piece(op.values[0], sink.dim)
    if op.predicate is not None:
        held = cutter.piece(*sink.needs[-1])
        neutral = _identity(sink, cutter.size)
        value = cutter.add(Select(held, value, neutral, location=op.location)).result
    joined = records.evolve(_combine(op, total, value), location=op.location)
    return cutter.add(joined).result


def _combine(op: Any, a: Operand, b: Operand) -> Op:
    cls = cast(Any, lookup(op.combiner.value))
    return cls(a, b)


def _identity(sink: Sink, size: int) -> Constant:
    op = cast(Any, sink.op)
    kind = op.values[0].type
    bits = identity(op.combiner.value, cast(Element, element_of(kind)))
    return Constant(resized(kind, sink.dim, size), bits)
