"""A layout as loops: the loops over registers, lanes or warps, and the distance in the tile of each
step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import attrs

from tileir.layout import Layout, Vector


@attrs.frozen
class DrawnLoop:
    """A loop of `count` steps of `step` coordinates. `crossed` steps are swizzled: they change
    coordinates by exclusive or."""

    count: int
    step: Vector
    crossed: bool = False

    @property
    def dim(self) -> int | None:
        """The only dimension along which the loop moves; None if there is none, or if there are
        several."""
        moving = [d for d, x in enumerate(self.step) if x]
        return moving[0] if len(moving) == 1 else None

    @property
    def words(self) -> str:
        """A short description."""
        if self.dim is None and not any(self.step):
            return f"{self.count} hold the same"
        if self.dim is None:
            return f"{self.count} that differ by xor {list(self.step)}"
        return f"{self.count} along dimension {self.dim}, step {self.step[self.dim]}"


def loops(layout: Layout, axis: str) -> tuple[DrawnLoop, ...]:
    """The loops of `axis` of a layout (register, lane, warp), innermost first."""
    result: list[DrawnLoop] = []
    for vector in layout.atom(axis):
        _append(result, DrawnLoop(2, vector, sum(map(bool, vector)) > 1))
    for digit in layout.digits(axis):
        _append(result, DrawnLoop(digit.count, digit.step))
    return tuple(result)


def _append(loops: list[DrawnLoop], loop: DrawnLoop) -> None:
    """Append `loop`, or extend the last loop if `loop` continues it."""
    last = loops[-1] if loops else None
    if last is not None and _follows(last, loop):
        loops[-1] = DrawnLoop(last.count * loop.count, last.step)
    else:
        loops.append(loop)


def _follows(last: DrawnLoop, loop: DrawnLoop) -> bool:
    """Whether the step of `loop` is the distance that `last` covers."""
    straight = not last.crossed and not loop.crossed
    return straight and loop.step == tuple(x * last.count for x in last.step)


def nano_tile(layout: Layout) -> Vector:
    """The extents of the largest box of adjacent elements, starting at the first, that a thread
    owns."""
    registers, extents = set(layout.registers), [1] * layout.rank
    for dim in reversed(range(layout.rank)):
        while _box([*extents[:dim], extents[dim] + 1, *extents[dim + 1 :]]) <= registers:
            extents[dim] += 1
    return tuple(extents)


def _box(extents: Sequence[int]) -> set[Vector]:
    return set(product(*map(range, extents)))
