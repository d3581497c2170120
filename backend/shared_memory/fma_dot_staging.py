"""Operands of a dot of multiply-adds in shared memory: their placement and the chunk size."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.backend.layouts.anchors import neighbours_first, vector_run
from tileir.backend.layouts.dot_layouts import operand_layouts
from tileir.backend.layouts.mma import instruction
from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile, full_swizzle
from tileir.layout import Layout
from tileir.types import Element, Tile, element_of

_LANES = 32

_MOST_STEPS = 1024
"""Multiply-adds of one thread that are written out; what is more becomes a loop."""


@attrs.frozen
class FmaDotStaging:
    """The places of A and B, the second `b_start` bytes after the first."""

    a: SharedTile
    b: SharedTile

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return self.a.bytes + self.b.bytes

    def at(self, base: int) -> FmaDotStaging:
        """The same from byte `base`."""
        b = attrs.evolve(self.b, base=base + self.a.bytes)
        return FmaDotStaging(attrs.evolve(self.a, base=base), b)


def staging(op: Any) -> FmaDotStaging | None:
    """The staging of the operands of the dot `op`; None where they come from registers."""
    if instruction(
        cast(Element, element_of(op.a.type)), op.precision.value
    ) is not None or in_registers(op):
        return None
    rank = len(op.a.type.shape)
    read = operand_layouts(op.c.type.layout, steps(op))
    a, b = _place(op.a.type, rank - 1, read[0]), _place(op.b.type, rank - 2, read[1])
    return FmaDotStaging(a, b)


def in_registers(op: Any) -> bool:
    """Whether every thread owns the operand elements that its part of C needs."""
    layouts = operand_layouts(op.c.type.layout, op.a.type.shape[-1])
    return (op.a.type.layout, op.b.type.layout) == layouts


def _place(tile: Tile, k: int, read: Layout) -> SharedTile:
    """Rows along the dimension in which a thread stores `tile`, and reads it in the layout `read`,
    by the fewest accesses; of two, the one in which it owns more neighbouring elements. Rows along
    K are swizzled, since threads read them at one K. Threads then hold what several steps need, so
    there are rows along K only if a warp takes no more cycles than along the other dimension."""
    rank, stored = len(tile.shape), cast(Layout, tile.layout)

    def place(fast: int) -> SharedTile:
        swizzle = full_swizzle(tile.element, tile.shape, fast) if fast == k else 0
        return SharedTile(tile.element, tile.shape, fast, swizzle)

    def cost(place: SharedTile) -> tuple[int, int]:
        accesses = sum(_accesses(each, place)[0] for each in (stored, read))
        return accesses, -vector_run(stored, place.fast)

    def cycles(place: SharedTile) -> int:
        times = tile.shape[k] // read.extents[k]
        return sum(_accesses(stored, place)) + times * sum(_accesses(read, place))

    places = place(rank - 1), place(rank - 2)
    best = min(places, key=cost)
    return min(places, key=cycles) if best.fast == k else best


def _accesses(layout: Layout, place: SharedTile) -> tuple[int, int]:
    """The accesses by which a warp reads or writes its elements, and their wavefronts."""
    from tileir.backend.shared_memory.bank_conflicts import wavefronts  # few kernels need it

    size, ordered = place.element.bytes, neighbours_first(layout, place.fast)
    run = vector_run(ordered, place.fast)
    width = min(run & -run, max(1, CHUNK // size))
    lanes = [place.offset(ordered.coordinate(lane=lane)) for lane in range(_LANES)]
    count = ordered.size("register") // width
    return count, count * wavefronts(lanes, width * size)


def steps(op: Any) -> int:
    """Steps of K that are written out together: a divisor of K."""
    k, registers = op.a.type.shape[-1], op.c.type.layout.size("register")
    if k * registers <= _MOST_STEPS:
        return k
    return next(
        n for n in (16, 8, 4, 2, 1) if k % n == 0 and (n * registers <= _MOST_STEPS or n == 1)
    )
