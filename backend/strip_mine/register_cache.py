"""Chunks of loads that stay in registers for several loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.backend.demand import registers
from tileir.backend.strip_mine.plan import Sink, StripMinePlan
from tileir.backend.strip_mine.slicing import ChunkEmitter, runs_in_order
from tileir.op import Op
from tileir.types import shape_of
from tileir.values import Value


@attrs.define
class RegisterCache:
    """The register cache of the loops over one extent, in chunks of `size` elements: the first
    `count` chunks of `loads` stay in registers; the others are reloaded by each loop."""

    size: int
    count: int = 0
    loads: frozenset[Op] = frozenset()
    _values: dict[int, dict[tuple[Op, int], tuple[Value, ...]]] = attrs.field(
        init=False, factory=dict
    )

    def provide(self, emitter: ChunkEmitter, chunk: int) -> None:
        """Provide `emitter` with the values that earlier loops loaded for `chunk`."""
        emitter.results.update(self._values.get(chunk, {}))

    def record(self, emitter: ChunkEmitter, chunk: int) -> None:
        """Record the values that `emitter` loaded for `chunk`."""
        loaded = {key: values for key, values in emitter.results.items() if key[0] in self.loads}
        self._values.setdefault(chunk, {}).update(loaded)


def register_caches(
    plan: StripMinePlan, sizes: Mapping[int, int], words_left: int
) -> dict[int, RegisterCache]:
    """A register cache per extent, given the size of a chunk by extent. All of them together have
    at most `words_left` words, over all threads, small elements packed. Every cached chunk is
    peeled off its loops: there is none where that is too much code for the loads it saves."""
    caches: dict[int, RegisterCache] = {}
    for extent, size in sizes.items():
        sinks = [s for s in plan.sinks.values() if s.extent == extent]
        loads = [] if any(runs_in_order(s.op, s.dim) for s in sinks) else _reused_loads(sinks)
        each = sum(_words_of_chunk(op.results[0].type, size, extent) for op in loads)
        computed = {(value, dim, s.level) for s in sinks for value, dim in s.slice.seen}
        code = sum(_words_of_chunk(value.type, size, extent) for value, _, _ in computed)
        if code > _MOST_CODE * each:
            loads, each = [], 0
        count = min(extent // size, words_left // each) if each else 0
        caches[extent] = RegisterCache(size, count, frozenset(loads) if count else frozenset())
        words_left -= count * each
    return caches


_MOST_CODE = 256
"""Words that a peeled chunk may compute for each word of it that stays in registers. Rows that are
normalised compute up to 60; where a column is kept for each chunk of a matrix, thousands."""


def _words_of_chunk(type: Any, size: int, extent: int) -> int:
    """The registers, over all threads, of a chunk of `size` of the `extent` elements along a
    dimension of a tile."""
    return -(-registers(type) * size // extent)


def _reused_loads(sinks: list[Sink]) -> list[Op]:
    """Loads and staged ops that loops of several levels use, cut along one dimension."""
    levels: dict[Op, set[int]] = {}
    for sink in sinks:
        for op in (*sink.slice.loads, *sink.slice.staged, *[sink.op] * sink.stages):
            levels.setdefault(op, set()).add(sink.level)
    return [op for op, used_at in levels.items() if len(used_at) > 1 and _is_cut_alike(op, sinks)]


def _is_cut_alike(load: Op, sinks: list[Sink]) -> bool:
    result = load.results[0]
    dims = {dim for s in sinks for value, dim in s.slice.seen if value is result}
    (extent,) = {s.extent for s in sinks}
    return len(dims) == 1 and shape_of(result.type)[next(iter(dims))] == extent


def loads_repeated_after(plan: StripMinePlan, level: int) -> frozenset[Op]:
    """Loads that loops of a level above `level` repeat."""
    return frozenset(x for s in plan.sinks.values() if s.level > level for x in s.slice.loads)
