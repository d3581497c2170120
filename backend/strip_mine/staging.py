"""What is computed once although later loops need it: pieces in memory of each thread's own.

A load must not be repeated behind a store that may change what it reads. Its pieces, or those of
what is computed from it, are then written into a private buffer by the one loop that computes
them, and later loops read them there. The piece that is smaller than others stays in registers.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.strip_mine.plan import Plan, Sink
from tileir.backend.strip_mine.register_cache import RegisterCache
from tileir.backend.strip_mine.slicing import Buffers, ChunkEmitter, resized
from tileir.op import Op
from tileir.ops.private import PrivateAlloc
from tileir.types import Buffer, Tile
from tileir.values import Value


@attrs.define
class StagingBuffers:
    """The private buffers of a plan, which are allotted into `ops`."""

    plan: Plan
    keepers: Mapping[int, RegisterCache]
    ops: list[Op]
    buffers: dict[Op, Buffers] = attrs.field(init=False, factory=dict)
    _rests: dict[tuple[Op, int], tuple[Value, ...]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for op in self.plan.staged:
            sink = self.plan.sinks[op]
            if _is_read_later(sink, self.plan):
                self._allot(sink)

    def give_rest(self, cutter: ChunkEmitter) -> None:
        """Let `cutter` use the smaller pieces of what is staged."""
        cutter.made.update(self._rests)

    def take_rest(self, cutter: ChunkEmitter) -> None:
        """Keep the smaller pieces of what `cutter` computed once."""
        staged = self.plan.staged
        self._rests.update({key: made for key, made in cutter.made.items() if key[0] in staged})

    def _allot(self, sink: Sink) -> None:
        keeper = self.keepers[sink.extent]
        first = keeper.count if sink.op in keeper.loads else 0
        count = sink.extent // keeper.size - first
        if count <= 0:
            return
        made: list[Value] = []
        for value in sink.op.results:
            tile = resized(value.type, sink.dim, keeper.size)
            assert isinstance(tile, Tile)
            allotted = PrivateAlloc(Buffer(tile, count, "private"), location=sink.op.location)
            self.ops.append(allotted)
            made.append(allotted.result)
        self.buffers[sink.op] = Buffers(tuple(made), sink.dim, keeper.size, first)


def _is_read_later(sink: Sink, plan: Plan) -> bool:
    """Whether another loop needs what `sink` computes."""
    return any(sink.op in s.chain.staged and s.level > sink.level for s in plan.sinks.values())
