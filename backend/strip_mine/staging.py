"""Private buffers for chunks that are computed once although later loops need them.

A load must not be repeated after a store that may change the memory it reads. One loop then stores
its chunks, or those of a value computed from it, to a private buffer, and later loops load them
from there. The smaller last chunk stays in registers.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.strip_mine.plan import Sink, StripMinePlan
from tileir.backend.strip_mine.register_cache import RegisterCache
from tileir.backend.strip_mine.slicing import ChunkEmitter, StagedBuffers, chunk_type
from tileir.op import Op
from tileir.ops.private import PrivateAlloc
from tileir.types import Buffer, Tile
from tileir.values import Value


@attrs.define
class StagingBuffers:
    """The staging buffers of a plan; the ops that allocate them are appended to `ops`."""

    plan: StripMinePlan
    register_caches: Mapping[int, RegisterCache]
    ops: list[Op]
    buffers: dict[Op, StagedBuffers] = attrs.field(init=False, factory=dict)
    _rest_values: dict[tuple[Op, int], tuple[Value, ...]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for op in self.plan.staged_ops:
            sink = self.plan.sinks[op]
            if _is_read_later(sink, self.plan):
                self._allocate(sink)

    def provide_rest(self, emitter: ChunkEmitter) -> None:
        """Provide `emitter` with the smaller last chunks of staged ops."""
        emitter.results.update(self._rest_values)

    def record_rest(self, emitter: ChunkEmitter) -> None:
        """Record the smaller last chunks of staged ops that `emitter` emitted."""
        staged = self.plan.staged_ops
        self._rest_values.update(
            {key: values for key, values in emitter.results.items() if key[0] in staged}
        )

    def _allocate(self, sink: Sink) -> None:
        cache = self.register_caches[sink.extent]
        first = cache.count if sink.op in cache.loads else 0
        count = sink.extent // cache.size - first
        if count <= 0:
            return
        buffers: list[Value] = []
        for value in sink.op.results:
            tile = chunk_type(value.type, sink.dim, cache.size)
            assert isinstance(tile, Tile)
            allocation = PrivateAlloc(Buffer(tile, count, "private"), location=sink.op.location)
            self.ops.append(allocation)
            buffers.append(allocation.result)
        self.buffers[sink.op] = StagedBuffers(tuple(buffers), sink.dim, cache.size, first)


def _is_read_later(sink: Sink, plan: StripMinePlan) -> bool:
    """Whether a loop of a higher level uses the chunks of `sink`."""
    return any(sink.op in s.slice.staged and s.level > sink.level for s in plan.sinks.values())
