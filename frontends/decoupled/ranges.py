"""Current positions along a dimension: one position, or a tile of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.builder import Builder, Expr


@attrs.frozen(eq=False)
class Range:
    """Positions along a dimension. `extent` is 0 for one, whose `index` is a scalar; `mask` tells
    those within the tensor, None where all are; none is before `first` or after `last`."""

    index: Expr | int
    extent: int = 0
    mask: Expr | None = None
    first: Expr | int | None = None
    last: Expr | int | None = None


@attrs.frozen
class DimensionWalk:
    """The iteration over a dimension: from `start`, at most `block` positions and none beyond
    `size`, `tensor` (0: all) at a time. Positions from `end` on may be skipped."""

    size: int
    block: int
    tensor: int
    start: Expr | int = 0
    end: Expr | int | None = None

    @property
    def step(self) -> int:
        """Positions at a time."""
        return min(self.tensor or self.block, self.block)

    @property
    def whole(self) -> bool:
        """Whether all positions are worked on at a time."""
        return self.step == self.block

    @property
    def is_ragged(self) -> bool:
        """Whether the last block is a part of one."""
        return self.size % self.block != 0

    @property
    def extent(self) -> int:
        """Extent of the tiles; 0 where positions come one by one."""
        return 0 if self.step == 1 else self.step


@contextmanager
def positions(b: Builder, walk: DimensionWalk, stages: int | None) -> Generator[Range]:
    """The loop over a dimension, if it takes one; inside, where it is."""
    if walk.whole:
        yield at_once(b, walk)
        return
    limit = _limit(b, walk)
    most = limit if walk.end is None else _least(b, walk.end, limit)
    options: dict[str, Any] = {} if stages is None else {"stages": stages}
    with b.for_(0, most, walk.step, **options) as place:
        first = place + walk.start
        if walk.step == 1:
            yield Range(first, first=first, last=first)
        else:
            index = first + b.arange(walk.step)
            exact = not walk.is_ragged and walk.block % walk.step == 0
            mask = None if exact else _inside(index, walk, limit)
            yield Range(index, walk.step, mask, first, first + (walk.step - 1))


def at_once(b: Builder, walk: DimensionWalk) -> Range:
    """All positions of a block."""
    if walk.block == 1:
        return Range(walk.start, first=walk.start, last=walk.start)
    index = walk.start + b.arange(walk.block)
    last = walk.start + (walk.block - 1)
    mask = index < walk.size if walk.is_ragged else None
    return Range(index, walk.block, mask, walk.start, last)


def _limit(b: Builder, walk: DimensionWalk) -> Expr | int:
    """Positions of this block."""
    if not walk.is_ragged:
        return walk.block
    return _least(b, walk.size - walk.start, walk.block)


def _least(b: Builder, one: Expr | int, other: Expr | int) -> Expr | int:
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return b.minimum(one, other)


def _inside(index: Expr, walk: DimensionWalk, limit: Expr | int) -> Expr:
    if walk.block % walk.step == 0 or isinstance(walk.start, int):
        return index < (walk.size if walk.is_ragged else walk.block)
    return index < limit + walk.start
