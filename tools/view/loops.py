"""A layout as loops: what a thread, a lane's place in its warp, or a warp's place in its block
counts through, and how far each step moves in the tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import attrs

from tileir.layout import Layout, Vector


@attrs.frozen
class DrawnLoop:
    """`count` steps of `step` coordinates. `crossed` steps are of the swizzled kind: they change
    coordinates by exclusive or."""

    count: int
    step: Vector
    crossed: bool = False

    @property
    def dim(self) -> int | None:
        """The only dimension it moves along; None where it moves along none or several."""
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
    """The loops that `axis` of a layout (register, lane, warp) counts through, innermost first."""
    result: list[DrawnLoop] = []
    for vector in layout.atom(axis):
        _append(result, DrawnLoop(2, vector, sum(map(bool, vector)) > 1))
    for digit in layout.digits(axis):
        _append(result, DrawnLoop(digit.count, digit.step))
    return tuple(result)


def _append(loops: list[DrawnLoop], loop: DrawnLoop) -> None:
    """Add `loop`, or let the last one count on where `loop` does just that."""
    last = loops[-1] if loops else None
    if last is not None and _follows(last, loop):
        loops[-1] = DrawnLoop(last.count * loop.count, last.step)
    else:
        loops.append(loop)


def _follows(last: DrawnLoop, loop: DrawnLoop) -> bool:
    """Whether `loop` steps by what `last` covers."""
    straight = not last.crossed and not loop.crossed
    return straight and loop.step == tuple(x * last.count for x in last.step)


def nano_tile(layout: Layout) -> Vector:
    """Extents of the largest box of elements side by side, from the first, that a thread holds."""
    registers, extents = set(layout.registers), [1] * layout.rank
    for dim in reversed(range(layout.rank)):
        while _box([*extents[:dim], extents[dim] + 1, *extents[dim + 1 :]]) <= registers:
            extents[dim] += 1
    return tuple(extents)


def _box(extents: Sequence[int]) -> set[Vector]:
    return set(product(*map(range, extents)))
