"""What is loaded once although several loops need it: pieces that stay in registers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.strip_mine.plan import Plan, Sink
from tileir.backend.strip_mine.register_limits import words
from tileir.backend.strip_mine.slicing import ChunkEmitter, is_once
from tileir.op import Op
from tileir.types import shape_of
from tileir.values import Value


@attrs.define
class RegisterCache:
    """For loops over one extent in pieces of `size`: the first `count` pieces of `loads`, which
    several loops need, are values; the others are loaded again."""

    size: int
    count: int = 0
    loads: frozenset[Op] = frozenset()
    _values: dict[int, dict[tuple[Op, int], tuple[Value, ...]]] = attrs.field(
        init=False, factory=dict
    )

    def give(self, cutter: ChunkEmitter, piece: int) -> None:
        """Let `cutter` use what earlier loops loaded for `piece`."""
        cutter.made.update(self._values.get(piece, {}))

    def take(self, cutter: ChunkEmitter, piece: int) -> None:
        """Keep what `cutter` loaded for `piece`."""
        found = {key: values for key, values in cutter.made.items() if key[0] in self.loads}
        self._values.setdefault(piece, {}).update(found)


def keepers(plan: Plan, sizes: Mapping[int, int], most: int) -> dict[int, RegisterCache]:
    """A keeper per extent, `sizes` being those of its pieces, for `most` words in all."""
    found: dict[int, RegisterCache] = {}
    for extent, size in sizes.items():
        sinks = [s for s in plan.sinks.values() if s.extent == extent]
        # Pieces that are kept are code of their own, of which a scan would be much.
        loads = [] if any(is_once(s.op, s.dim) for s in sinks) else _shared(sinks)
        each = sum(words(op.results[0].type) // extent * size for op in loads)
        count = min(extent // size, most // each) if each else 0
        found[extent] = RegisterCache(size, count, frozenset(loads) if count else frozenset())
        most -= count * each
    return found


def _shared(sinks: list[Sink]) -> list[Op]:
    """Loads that loops of several levels need, or what one computes for others, cut along the same
    dimension in all of them."""
    levels: dict[Op, set[int]] = {}
    for sink in sinks:
        for op in (*sink.chain.loads, *sink.chain.staged, *[sink.op] * sink.stages):
            levels.setdefault(op, set()).add(sink.level)
    return [op for op, found in levels.items() if len(found) > 1 and _one_way(op, sinks)]


def _one_way(load: Op, sinks: list[Sink]) -> bool:
    result = load.results[0]
    dims = {dim for s in sinks for value, dim in s.chain.seen if value is result}
    (extent,) = {s.extent for s in sinks}
    return len(dims) == 1 and shape_of(result.type)[next(iter(dims))] == extent


def read_later(plan: Plan, level: int) -> frozenset[Op]:
    """Loads of which loops after those of `level` read pieces again."""
    return frozenset(x for s in plan.sinks.values() if s.level > level for x in s.chain.loads)
