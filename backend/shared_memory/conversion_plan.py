"""Plans of layout conversions: by renaming registers if every thread owns its elements already, by
shuffles or transpositions of matrices if its warp does, else through shared memory.

`tileir.backend.codegen.emit.conversion` emits the instructions of a plan.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING

import attrs

from tileir.layout import Layout, Vector
from tileir.layout_bits import Subspace
from tileir.types import Element, Tile

if TYPE_CHECKING:
    from tileir.backend.layouts.matrix_transposes import TransposePlan
    from tileir.backend.layouts.warp_shuffles import ShufflePlan
    from tileir.backend.shared_memory.conversion_staging import ConversionStaging


def conversion_bytes(source: Tile, target: Layout) -> int:
    """Shared memory that a conversion needs."""
    from tileir.backend.shared_memory.conversion_staging import ConversionStaging

    plan = conversion(source, target)
    return plan.bytes_at_once if isinstance(plan, ConversionStaging) else 0


@cache
def conversion(
    source: Tile, target: Layout
) -> tuple[int, ...] | ShufflePlan | TransposePlan | ConversionStaging:
    """The plan of the conversion of a tile to the layout `target`: a register for each register,
    shuffles, transpositions of matrices, or a copy through shared memory, whichever takes fewer
    cycles of a warp."""
    from tileir.backend.layouts.warp_shuffles import exchange
    from tileir.backend.shared_memory.conversion_staging import staging

    renamed = register_permutation(source.layout, target, source.shape)
    if renamed is not None:
        return tuple(renamed)
    size = source.element.bytes
    staged = staging(source.layout, target, source.shape, size)
    if source.element.bits >= 8:
        from tileir.backend.shared_memory.matrix_staging import matrix_stagings

        ways = staged, *matrix_stagings(source.layout, target, source.shape, size)
        staged = min(ways, key=lambda method: method.cost + method.moves())
    shuffles = exchange(source.layout, target, _most_packed(source.element))
    if shuffles is None:
        return staged
    waiting = _LATENCY if _stays_in_warps(staged, source, target) else _WAITING
    if _shuffling(shuffles, source) > staged.cost + waiting:
        return staged
    if source.element.bits != 16:
        return shuffles
    from tileir.backend.layouts.matrix_transposes import transposition

    return transposition(source.layout, target) or shuffles


@cache
def within_warps(source: Tile, target: Layout) -> bool:
    """Whether a conversion goes through shared memory, and each warp reads only what its own lanes
    wrote. Warps then need not wait for each other."""
    from tileir.backend.shared_memory.conversion_staging import ConversionStaging

    plan = conversion(source, target)
    several = source.layout.size("warp") > 1
    return several and isinstance(plan, ConversionStaging) and _stays_in_warps(plan, source, target)


def _stays_in_warps(plan: ConversionStaging, source: Tile, target: Layout) -> bool:
    """Whether every warp reads only what its own lanes wrote."""
    from tileir.layout_algebra import flat_columns

    source_layout = source.layout
    if plan.iterations > 1 or source_layout.repeats != target.repeats:
        return False
    if source_layout.atom_extents != target.atom_extents or any(
        r.axis != "register" for r in source_layout.repeats
    ):
        return False
    if any(n > covered for n, covered in zip(source_layout.extents, plan.covered, strict=True)):
        return False
    source_columns, target_columns = (
        flat_columns(layout, ("register", "lane")) for layout in (source_layout, target)
    )
    alone = Subspace.of(source_columns)
    if any(v not in alone for v in target_columns) or len(Subspace.of(target_columns)) < len(alone):
        return False
    warps = [flat_columns(layout, ("warp",)) for layout in (source_layout, target)]
    if len(warps[0]) != len(warps[1]) or not all(map(alone.copy().add, warps[0])):
        return False
    return all(a ^ b in alone for a, b in zip(*warps, strict=True))


_WAITING = 24
"""Cycles that a barrier and the latency of shared memory take beyond the accesses."""

_LATENCY = 8
"""The same within a warp, which waits for no other: shuffles have nearly the same latency."""


def _shuffling(plan: ShufflePlan, source: Tile) -> int:
    """Cycles of a warp for all words."""
    return repetitions(source.layout) * max(1, source.element.bytes // 4) * plan.cycles


def repetitions(layout: Layout) -> int:
    """Equal parts of the registers: repetitions of the atom."""
    return prod(digit.count for digit in layout.digits("register"))


def _most_packed(element: Element) -> int:
    """Elements that fit a word of a shuffle."""
    return {1: 4, 8: 4, 16: 2}.get(element.bits, 1)


def register_permutation(source: Layout, target: Layout, shape: Vector) -> list[int] | None:
    """For every register of `target`, the register of `source` of the same thread that contains its
    element.

    None if the two layouts place elements in different threads. Padding may come from any register.
    """
    if not _same_threads(source, target):
        return None
    where = {v: r for r, v in enumerate(source.registers)}
    permutation: list[int] = []
    for coordinate in target.registers:
        register = where.get(coordinate)
        if register is None and all(a < n for a, n in zip(coordinate, shape, strict=True)):
            return None
        permutation.append(0 if register is None else register)
    return permutation


def _same_threads(source: Layout, target: Layout) -> bool:
    """Whether every thread starts at the same element in both layouts, or, if the target replicates
    elements, at one that its own registers reach."""
    return source.thread_part == target.thread_part


@attrs.frozen
class Placement:
    """Row-major addresses of a tile in shared memory from byte `base`, with `pad` bytes after every
    row so that columns do not conflict in one bank."""

    element: Element
    strides: Vector
    base: int
    bytes: int


def placement(tile: Tile, base: int = 0) -> Placement:
    """The placement of the elements of `tile` in shared memory."""
    size, strides = tile.element.bytes, [0] * len(tile.shape)
    step = size
    for dim in reversed(range(len(tile.shape))):
        strides[dim] = step
        step *= tile.shape[dim]
        if dim == len(tile.shape) - 1 and dim and step % 128 == 0:
            step += 16
    return Placement(tile.element, tuple(strides), base, step)


def in_layout(tile: Tile, layout: Layout) -> Tile:
    """`tile` in another layout."""
    return Tile(tile.element, tile.shape, layout)
