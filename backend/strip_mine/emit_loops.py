"""Emission of the loops of a plan, and of the ops between them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.backend.demand import is_large
from tileir.backend.strip_mine.addresses import exchanges_bytes
from tileir.backend.strip_mine.chunk_carries import Carried, ChunkCarry, carry_of
from tileir.backend.strip_mine.plan import Planner, Sink, StripMinePlan
from tileir.backend.strip_mine.register_cache import (
    RegisterCache,
    loads_repeated_after,
    register_caches,
)
from tileir.backend.strip_mine.slicing import ChunkEmitter, index
from tileir.backend.strip_mine.spill import SpillChunks
from tileir.backend.strip_mine.staging import StagingBuffers
from tileir.field import Successor
from tileir.ir import Block
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate
from tileir.ops.control import Branch, CondBranch
from tileir.passes.cfg_edit import reserve_label
from tileir.types import I32
from tileir.values import Operand, Value

_NEXT_TO_WHOLE = 4
"""How many times as large chunks are next to a large tile that stays whole. On an H200, a decoding
attention took 1057 us with this, and 1629 us with 1."""


@attrs.define
class LoopEmitter:
    """Emits the blocks that replace one block. Chunks have at most `words` words, those of bytes
    that change threads `exchanged_words`, and caches `keep` words, over all threads; `labels`
    are the labels in use."""

    block: Block
    planner: Planner
    words: int
    exchanged_words: int
    keep: int
    labels: set[str]
    spilled: SpillChunks
    ops: list[Op] = attrs.field(init=False, factory=list)
    done: list[Block] = attrs.field(init=False, factory=list)
    loops: int = attrs.field(init=False, default=0)
    _label: str = attrs.field(init=False, default="")
    _parameters: tuple[Value, ...] = attrs.field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        self._label, self._parameters = self.block.label, self.block.parameters

    def finish(self) -> list[Block]:
        """The emitted blocks; the last one has the terminator of the old block."""
        self._close()
        self.done[0] = attrs.evolve(
            self.done[0], comments=self.block.comments, location=self.block.location
        )
        return self.done

    def write(self, plan: StripMinePlan) -> None:
        """Emit a region, level by level."""
        sizes: dict[int, int] = {}
        words = self._words_of_chunks(plan)
        exchanged = self._extents_of_exchanges(plan)
        for sink in plan.sinks.values():
            most = max(words, self.exchanged_words) if sink.extent in exchanged else words
            size = chunk_size(sink.extent, sink.slice.largest, most)
            sizes[sink.extent] = min(size, sizes.get(sink.extent, size))
        sizes = {extent: self.spilled.sizes.get(extent, size) for extent, size in sizes.items()}
        caches = register_caches(plan, sizes, self.keep)
        staging = StagingBuffers(plan, caches, self.ops)
        for level in plan.levels:
            self.ops += [op for op, n in plan.kept.items() if n == level]
            later = loads_repeated_after(plan, level)
            for sinks in plan.loops(level):
                self._cut(sinks, caches[sinks[0].extent], later, staging)

    def _words_of_chunks(self, plan: StripMinePlan) -> int:
        """The words of a chunk: more where the registers are there anyway, for a large tile that
        stays whole. Few blocks are resident then, so each has to have more loads in flight."""
        whole = any(is_large(op, self.planner.limit) for op in plan.kept)
        return min(_NEXT_TO_WHOLE * self.words, self.planner.limit) if whole else self.words

    def _extents_of_exchanges(self, plan: StripMinePlan) -> set[int]:
        """The extents of tiles whose bytes change threads between their loads and their store."""
        function = self.planner.function
        return {
            sink.extent for sink in plan.sinks.values()
            if exchanges_bytes(sink.op, (*sink.slice.loads, *sink.slice.staged), function)
        }  # fmt: skip

    def _cut(
        self,
        sinks: list[Sink],
        cache: RegisterCache,
        reloaded: frozenset[Op],
        staging: StagingBuffers,
    ) -> None:
        """Emit one fused loop: the cached chunks peeled off, the loop over the others, the smaller
        last chunk, and the results. Later loops repeat the loads `reloaded`."""
        extent, size = sinks[0].extent, cache.size
        full_extent, remainder = extent // size * size, extent % size
        carries = [carry_of(sink) for sink in sinks]
        if sinks[0].backward:
            self._cut_backward(carries, size, extent, reloaded, staging)
            return
        totals = [s.start(size) for s in carries]
        first_is_peeled = full_extent == size or any(carried is None for carried in totals)
        peeled = max(cache.count, 1 if first_is_peeled else 0)
        for chunk in range(peeled):
            here = reloaded - cache.loads if chunk < cache.count else reloaded
            emitter = self._emitter(index(chunk * size), size, here, staging)
            cache.provide(emitter, chunk)
            totals = _add_chunks(carries, emitter, totals)
            cache.record(emitter, chunk)
        if peeled * size < full_extent:
            totals = self._loop(
                carries, range(peeled * size, full_extent, size), totals, reloaded, staging
            )
        ends: Sequence[Carried | None] = [None] * len(carries)
        if remainder:
            emitter = self._emitter(index(full_extent), remainder, reloaded, staging)
            staging.provide_rest(emitter)
            starts = [
                t if s.continues else s.start(remainder)
                for s, t in zip(carries, totals, strict=True)
            ]
            ends = _add_chunks(carries, emitter, starts)
            staging.record_rest(emitter)
        for carry, total, end in zip(carries, totals, ends, strict=True):
            assert total is not None
            carry.finish(self.ops, total, end)

    def _cut_backward(
        self,
        carries: list[ChunkCarry],
        size: int,
        extent: int,
        reloaded: frozenset[Op],
        staging: StagingBuffers,
    ) -> None:
        """Emit the loop of reverse scans: the smaller last chunk, then the others backward."""
        full_extent, remainder = extent // size * size, extent % size
        totals = [s.start(size) for s in carries]
        if remainder:
            emitter = self._emitter(index(full_extent), remainder, reloaded, staging)
            staging.provide_rest(emitter)
            totals = _add_chunks(carries, emitter, totals)
            staging.record_rest(emitter)
        if full_extent == size:
            _add_chunks(carries, self._emitter(index(0), size, reloaded, staging), totals)
        elif full_extent:
            self._loop(carries, range(full_extent - size, -size, -size), totals, reloaded, staging)

    def _emitter(
        self, start: Operand, size: int, reloaded: frozenset[Op], staging: StagingBuffers
    ) -> ChunkEmitter:
        return ChunkEmitter(
            self.planner.definitions,
            start,
            size,
            self.ops,
            reloaded,
            self.spilled.chunk_buffers,
            staging.buffers,
            self.planner.sliced,
        )

    def _loop(
        self,
        carries: list[ChunkCarry],
        span: range,
        starts: Sequence[Carried | None],
        reloaded: frozenset[Op],
        staging: StagingBuffers,
    ) -> list[Carried]:
        """Emit a loop over the chunks that start at `span`; returns the carried values after it."""
        self.loops += 1
        start = Value(I32, "start")
        inside = [[Value(x.type, "sum") for x in carried or ()] for carried in starts]
        head = reserve_label(f"{self.block.label}.strip", self.labels)
        after = reserve_label(f"{self.block.label}.after", self.labels)
        initial = [x for carried in starts for x in carried or ()]
        self._close(Branch(Successor(head, (index(span.start), *initial))))
        self._label, self._parameters = head, (start, *(x for carried in inside for x in carried))
        results = _add_chunks(
            carries, self._emitter(start, abs(span.step), reloaded, staging), inside
        )
        following = Add(start, index(span.step), results=(Value(I32, "next"),))
        comparison = IntegerPredicate.SLT if span.step > 0 else IntegerPredicate.SGT
        more = ICmp(following.result, index(span.stop), predicate_=comparison)
        self.ops += [following, more]
        back_edge = Successor(
            head, (following.result, *(x for carried in results for x in carried))
        )
        self._close(CondBranch(more.results[0], back_edge, Successor(after)))
        self._label, self._parameters = after, ()
        return results

    def _close(self, terminator: Op | None = None) -> None:
        ops = (*self.ops, terminator) if terminator else tuple(self.ops)
        self.done.append(Block(self._label, self._parameters, ops))
        self.ops = []


def chunk_size(extent: int, unit: int, limit: int) -> int:
    """The elements of a chunk along a dimension of `extent` elements of `unit` words each, so that
    a chunk has at most `limit` words: a divisor of the extent if one is not much smaller."""
    largest = max(1, min(limit // unit, extent))
    power = 1 << (largest.bit_length() - 1)
    if extent % power == 0:
        return power
    divisors = (
        n for n in range(largest, largest // 2, -1) if extent % n == 0 and (n % 4 == 0 or n < 32)
    )
    return next(divisors, power)


def _add_chunks(
    carries: Sequence[ChunkCarry], emitter: ChunkEmitter, before: Sequence[Carried | None]
) -> list[Carried]:
    """Emit one chunk of every sink; returns the carried values after it."""
    return [carry.add(emitter, carried) for carry, carried in zip(carries, before, strict=True)]
