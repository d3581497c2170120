"""Layouts of shared memory: the offset of every element of a tile.

They are layouts whose register is the offset, counted in elements, and which have no lanes. Rows
may be padded (offsets past a row hold nothing) or swizzled (the place of a vector within its row
is combined with the row's number by exclusive or).
"""

from __future__ import annotations

from tileir.layout import Layout, Repeat, Vector, layout
from tileir.layout_algebra import HardwareCoordinate, invert


def dense(shape: Vector, order: Vector | None = None) -> Layout:
    """Elements one after another, dimensions fastest first in `order` (row-major if None)."""
    return padded_layout(shape, 0, order)


def padded_layout(shape: Vector, pad: int, order: Vector | None = None) -> Layout:
    """Like `dense`, with `pad` unused offsets after every run along the fastest dimension."""
    order = tuple(reversed(range(len(shape)))) if order is None else order
    extents = [shape[d] + (pad if d == order[0] and len(order) > 1 else 0) for d in order]
    repeats = [Repeat("register", n, d) for n, d in zip(extents, order, strict=True)]
    return layout(len(shape), repeats=tuple(repeats))


def swizzled_layout(
    shape: Vector, vector: int, per_phase: int, phases: int, order: Vector | None = None
) -> Layout:
    """Rows along `order[0]` in which the vector of number `i`, `vector` elements wide, is at
    `i ^ (row // per_phase % phases)`, the row being the coordinate along `order[1]`.

    The 128-byte swizzle of TMA and wgmma (PTX ISA, "Swizzling Modes") is 16 bytes to the vector,
    rows of 128 bytes, per_phase 1, phases 8; 64 and 32 bytes are per_phase 2, phases 4 and
    per_phase 4, phases 2. Raises ValueError unless all numbers and the fast extents are powers of
    two and `phases * vector` fits a row.
    """
    rank = len(shape)
    order = tuple(reversed(range(rank))) if order is None else order
    numbers = (vector, per_phase, phases, *(shape[d] for d in order[:2]))
    if any(n < 1 or n & (n - 1) for n in numbers) or vector * phases > shape[order[0]]:
        raise ValueError(f"no swizzle of {shape}: {vector} x {phases} per {per_phase}")
    vectors: list[Vector] = []
    for d in order[:2]:
        for bit in range(shape[d].bit_length() - 1):
            moved = [0] * rank
            moved[d] = 1 << bit
            if len(order) > 1 and d == order[1]:
                moved[order[0]] = (1 << bit) // per_phase % phases * vector
            vectors.append(tuple(moved))
    repeats = tuple(Repeat("register", shape[d], d) for d in order[2:])
    return layout(rank, tuple(vectors), repeats=repeats)


def offset(layout: Layout, coordinate: Vector) -> int | None:
    """Offset of the element at `coordinate`, in elements; None if it is not stored."""
    place: HardwareCoordinate | None = invert(layout).place(coordinate)
    return None if place is None else place.register


def elements(layout: Layout) -> int:
    """Offsets that the layout takes up, unused ones included."""
    return layout.size("register")
