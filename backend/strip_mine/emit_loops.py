"""Writing the loops of a plan, and what stands between them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.backend.strip_mine.chunk_carries import Carried, ChunkCarry, sum_of
from tileir.backend.strip_mine.plan import Plan, Planner, Sink
from tileir.backend.strip_mine.register_cache import RegisterCache, keepers, read_later
from tileir.backend.strip_mine.slicing import ChunkEmitter, index
from tileir.backend.strip_mine.spill import SpillChunks
from tileir.backend.strip_mine.staging import StagingBuffers
from tileir.field import Successor
from tileir.ir import Block
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.control import Branch, CondBranch
from tileir.passes.cfg_edit import fresh_label
from tileir.types import I32
from tileir.values import Operand, Value


@attrs.define
class LoopEmitter:
    """Writes the blocks that stand for one block."""

    block: Block
    planner: Planner
    words: int
    keep: int
    labels: set[str]
    moving: SpillChunks
    ops: list[Op] = attrs.field(init=False, factory=list)
    done: list[Block] = attrs.field(init=False, factory=list)
    loops: int = attrs.field(init=False, default=0)
    _label: str = attrs.field(init=False, default="")
    _parameters: tuple[Value, ...] = attrs.field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        self._label, self._parameters = self.block.label, self.block.parameters

    def finish(self) -> list[Block]:
        """The blocks; what was written last ends in the terminator of the old block."""
        self._close()
        self.done[0] = attrs.evolve(
            self.done[0], comments=self.block.comments, location=self.block.location
        )
        return self.done

    def write(self, plan: Plan) -> None:
        """Everything of a stretch, level by level."""
        sizes: dict[int, int] = {}
        for sink in plan.sinks.values():
            size = piece_size(sink.extent, sink.chain.largest, self.words)
            sizes[sink.extent] = min(size, sizes.get(sink.extent, size))
        sizes = {extent: self.moving.sizes.get(extent, size) for extent, size in sizes.items()}
        kept = keepers(plan, sizes, self.keep)
        stages = StagingBuffers(plan, kept, self.ops)
        for level in plan.levels:
            self.ops += [op for op, n in plan.kept.items() if n == level]
            later = read_later(plan, level)
            for sinks in plan.loops(level):
                self._cut(sinks, kept[sinks[0].extent], later, stages)

    def _cut(
        self, sinks: list[Sink], keeper: RegisterCache, later: frozenset[Op], stages: StagingBuffers
    ) -> None:
        """The kept pieces of `sinks`, the loop over others, the rest, and the results; `later`
        are the loads that other loops repeat."""
        extent, size = sinks[0].extent, keeper.size
        whole, rest = extent // size * size, extent % size
        sums = [sum_of(sink) for sink in sinks]
        if sinks[0].backward:
            self._cut_backward(sums, size, extent, later, stages)
            return
        totals = [s.start(size) for s in sums]
        alone = whole == size or any(carried is None for carried in totals)
        done = max(keeper.count, 1 if alone else 0)
        for piece in range(done):
            again = later - keeper.loads if piece < keeper.count else later
            cutter = self._cutter(index(piece * size), size, again, stages)
            keeper.give(cutter, piece)
            totals = _piece(sums, cutter, totals)
            keeper.take(cutter, piece)
        if done * size < whole:
            totals = self._loop(sums, range(done * size, whole, size), totals, later, stages)
        ends: Sequence[Carried | None] = [None] * len(sums)
        if rest:
            cutter = self._cutter(index(whole), rest, later, stages)
            stages.give_rest(cutter)
            begin = [t if s.on else s.start(rest) for s, t in zip(sums, totals, strict=True)]
            ends = _piece(sums, cutter, begin)
            stages.take_rest(cutter)
        for one, total, end in zip(sums, totals, ends, strict=True):
            assert total is not None
            one.finish(self.ops, total, end)

    def _cut_backward(
        self,
        sums: list[ChunkCarry],
        size: int,
        extent: int,
        later: frozenset[Op],
        stages: StagingBuffers,
    ) -> None:
        """Scans from the end: the rest, then the others from the last one on."""
        whole, rest = extent // size * size, extent % size
        totals = [s.start(size) for s in sums]
        if rest:
            cutter = self._cutter(index(whole), rest, later, stages)
            stages.give_rest(cutter)
            totals = _piece(sums, cutter, totals)
            stages.take_rest(cutter)
        if whole == size:
            _piece(sums, self._cutter(index(0), size, later, stages), totals)
        elif whole:
            self._loop(sums, range(whole - size, -size, -size), totals, later, stages)

    def _cutter(
        self, start: Operand, size: int, again: frozenset[Op], stages: StagingBuffers
    ) -> ChunkEmitter:
        return ChunkEmitter(
            self.planner.definitions,
            start,
            size,
            self.ops,
            again,
            self.moving.pieces,
            stages.buffers,
            self.planner.sliced,
        )

    def _loop(
        self,
        sums: list[ChunkCarry],
        span: range,
        starts: Sequence[Carried | None],
        later: frozenset[Op],
        stages: StagingBuffers,
    ) -> list[Carried]:
        """A loop over the pieces of `span`; what its sums have come to behind it."""
        self.loops += 1
        start = Value(I32, "start")
        inside = [[Value(x.type, "sum") for x in carried or ()] for carried in starts]
        head = self._fresh(f"{self.block.label}.strip")
        after = self._fresh(f"{self.block.label}.after")
        given = [x for carried in starts for x in carried or ()]
        self._close(Branch(Successor(head, (index(span.start), *given))))
        self._label, self._parameters = head, (start, *(x for held in inside for x in held))
        found = _piece(sums, self._cutter(start, abs(span.step), later, stages), inside)
        following = Add(start, index(span.step), results=(Value(I32, "next"),))
        end = IntegerPredicate.SLT if span.step > 0 else IntegerPredicate.SGT
        more = ICmp(following.result, index(span.stop), predicate_=end)
        self.ops += [following, more]
        again = Successor(head, (following.result, *(x for carried in found for x in carried)))
        self._close(CondBranch(more.results[0], again, Successor(after)))
        self._label, self._parameters = after, ()
        return found

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


def _piece(
    sums: Sequence[ChunkCarry], cutter: ChunkEmitter, before: Sequence[Carried | None]
) -> list[Carried]:
    """One piece of every sink; what it has come to."""
    return [one.add(cutter, carried) for one, carried in zip(sums, before, strict=True)]
