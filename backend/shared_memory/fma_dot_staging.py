"""Operands of a dot of multiply-adds in shared memory: their placement and the chunk size."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.backend.layouts.anchors import vector_run
from tileir.backend.layouts.dot_layouts import operand_layouts
from tileir.backend.layouts.mma import instruction
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
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
    return FmaDotStaging(_place(op.a.type, rank - 1), _place(op.b.type, rank - 2))


def in_registers(op: Any) -> bool:
    """Whether every thread owns the operand elements that its part of C needs."""
    layouts = operand_layouts(op.c.type.layout, op.a.type.shape[-1])
    return (op.a.type.layout, op.b.type.layout) == layouts


def _place(tile: Tile, k: int) -> SharedTile:
    """Rows along the dimension in which threads own neighbouring elements. Rows along K are
    swizzled, since threads read them at one K."""
    rank = len(tile.shape)
    fast = max((rank - 1, rank - 2), key=lambda d: vector_run(tile.layout, d))
    swizzle = full_swizzle(tile.element, tile.shape, fast) if fast == k else 0
    return SharedTile(tile.element, tile.shape, fast, swizzle)


def steps(op: Any) -> int:
    """Steps of K that are written out together: a divisor of K."""
    k, registers = op.a.type.shape[-1], op.c.type.layout.size("register")
    if k * registers <= _MOST_STEPS:
        return k
    return next(
        n for n in (16, 8, 4, 2, 1) if k % n == 0 and (n * registers <= _MOST_STEPS or n == 1)
    )
