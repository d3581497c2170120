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
    K are swizzled, since threads read them at one K."""
    rank, layouts = len(tile.shape), (cast(Layout, tile.layout), read)

    def cost(fast: int) -> tuple[int, int]:
        accesses = sum(_accesses(each, fast, tile.element) for each in layouts)
        return accesses, -vector_run(layouts[0], fast)

    fast = min((rank - 1, rank - 2), key=cost)
    swizzle = full_swizzle(tile.element, tile.shape, fast) if fast == k else 0
    return SharedTile(tile.element, tile.shape, fast, swizzle)


def _accesses(layout: Layout, fast: int, element: Element) -> int:
    """The accesses by which a thread reads or writes its elements in rows along `fast`."""
    run = vector_run(neighbours_first(layout, fast), fast)
    width = min(run & -run, max(1, CHUNK // element.bytes))
    return layout.size("register") // width


def steps(op: Any) -> int:
    """Steps of K that are written out together: a divisor of K."""
    k, registers = op.a.type.shape[-1], op.c.type.layout.size("register")
    if k * registers <= _MOST_STEPS:
        return k
    return next(
        n for n in (16, 8, 4, 2, 1) if k % n == 0 and (n * registers <= _MOST_STEPS or n == 1)
    )
