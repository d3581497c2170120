"""Accesses of tiles in shared memory (`tileir.backend.shared_memory.shared_tile`) in a layout."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.codegen.lowering import THREADS, Axes, Lowering
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile
from tileir.layout import Layout, Vector
from tileir.types import I32, Tile


@attrs.define
class Addresses:
    """Byte offsets in a shared tile, relative to a point that depends on the thread: `row` and
    `column` (in elements along the slow and the fast dimension) and `plane` (in bytes), each None
    for 0.

    `bits` is the mask of the bits that the byte offset of `column` may have set.
    """

    lowering: Lowering
    place: SharedTile
    row: Any
    column: Any
    plane: Any
    bits: int
    _cached: dict[tuple[int, int], Any] = attrs.field(init=False, factory=dict)

    def at(self, row: int, column: int) -> tuple[Any, int]:
        """A handle and a constant whose sum is the offset of the element at this displacement."""
        place, size = self.place, self.place.element.bytes
        low = row % 8 if place.swizzle else 0
        span = place.pitch if place.panel else CHUNK << place.swizzle
        within = column * size % span
        if within & self.bits:
            far = (column * size - within) // size
            key, constant = (low, -1 - (column - far)), far * size
        else:
            flipped = within & ~(CHUNK - 1)
            key, constant = (low, flipped), column * size - flipped
        if key not in self._cached:
            self._cached[key] = self._base(*key)
        constant = place.along(constant) + (row - low) * place.pitch + place.base
        return self._cached[key], constant

    def _base(self, low: int, flipped: int) -> Any:
        thread, place = self.lowering.thread, self.place
        column, wide = self.column, bool(self.bits & ~(place.pitch - 1))
        if flipped < 0:
            wide = True
            column = thread.binary("add", I32, column, thread.integer(-1 - flipped))
            flipped = 0
        size = place.element.bytes
        total = None if column is None else times(thread, column, size)
        panel = None
        if place.panel and total is not None and wide:
            total, panel = self._split_panel(total)
        row = self.row
        if row is None:
            flipped ^= self._phase(low) * CHUNK
        elif low:
            row = thread.binary("add", I32, row, thread.integer(low))
        if row is not None and place.swizzle:
            phase = thread.binary("lshr", I32, row, thread.integer(3 - place.swizzle))
            mask = thread.integer((1 << place.swizzle) - 1)
            phase = times(thread, thread.binary("and", I32, phase, mask), CHUNK)
            total = phase if total is None else thread.binary("xor", I32, total, phase)
        if flipped:
            fixed = thread.integer(flipped)
            total = fixed if total is None else thread.binary("xor", I32, total, fixed)
        first = thread.integer(low * place.pitch) if row is None and low else None
        far = first if row is None else times(thread, row, place.pitch)
        return add_terms(thread, [total, far, panel, self.plane])

    def _split_panel(self, offset: Any) -> tuple[Any, Any]:
        """Split byte `offset` of a row into the byte within the row of its panel, and the first
        byte of that panel."""
        thread, place = self.lowering.thread, self.place
        within = thread.binary("and", I32, offset, thread.integer(place.pitch - 1))
        shift = thread.integer(place.pitch.bit_length() - 1)
        panel = thread.binary("lshr", I32, offset, shift)
        return within, times(thread, panel, place.panel_bytes)

    def _phase(self, row: int) -> int:
        """The swizzle phase of one of eight rows: the number that is combined with the index of a
        chunk by exclusive or."""
        return row >> (3 - self.place.swizzle)


def times(thread: Any, x: Any, count: int) -> Any:
    """The i32 `x` times the constant `count`."""
    return thread.binary("mul", I32, x, thread.integer(count)) if count != 1 else x


def add_terms(thread: Any, terms: list[Any]) -> Any:
    """The sum of those i32 that are not None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else thread.binary("add", I32, total, term)
    return thread.integer(0) if total is None else total


@attrs.frozen
class SharedTileWindow:
    """The part of a shared tile that a layout covers. It begins `fixed` elements (constants) plus
    `moved` elements (handles, None for 0) into the last two dimensions, and `start` bytes (a
    handle) further on."""

    place: SharedTile
    fixed: tuple[int, int] = (0, 0)
    moved: tuple[Any, Any] = (None, None)
    start: Any = None


def addresses(
    lowering: Lowering, window: SharedTileWindow, layout: Layout, axes: Axes = THREADS
) -> Addresses:
    """The offsets of the elements of a layout from each thread's first element. If `axes` are those
    of warps only, the offsets are from the first element of the warp's first thread."""
    place, thread = window.place, lowering.thread
    shift = len(place.shape) - 2
    row, column = (
        _add_optional(thread, lowering.offset(layout, d, axes), window.moved[d - shift])
        for d in (place.slow, place.fast)
    )
    bits = _moving_bits(layout, place.fast, axes) * place.element.bytes
    if window.moved[place.fast - shift] is not None:
        bits = -1
    plane = [window.start]
    for dim in range(shift):
        moving = lowering.offset(layout, dim, axes)
        plane.append(None if moving is None else times(thread, moving, place.stride(dim)))
    planes = [p for p in plane if p is not None]
    return Addresses(
        lowering, place, row, column, add_terms(thread, planes) if planes else None, bits
    )


def _add_optional(thread: Any, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return thread.binary("add", I32, a, b)


def _moving_bits(layout: Layout, dim: int, axes: Axes) -> int:
    """The mask of the bits of the coordinate along `dim` that `axes` may set."""
    bits = 0
    for axis in axes:
        for vector in layout.atom(axis):
            bits |= vector[dim]
        for digit in layout.digits(axis):
            if digit.step[dim]:
                bits |= -(digit.step[dim] & -digit.step[dim])
    return bits


def register_at(window: SharedTileWindow, addresses: Addresses, vector: Vector) -> tuple[Any, int]:
    """The offset of the element of a register whose coordinates in thread 0 are `vector`, as a
    handle and a constant."""
    place = window.place
    shift = len(place.shape) - 2
    near = [vector[shift + i] + window.fixed[i] for i in range(2)]
    handle, constant = addresses.at(near[place.slow - shift], near[place.fast - shift])
    for dim in range(shift):
        constant += vector[dim] * place.stride(dim)
    return handle, constant


def vector_width(window: SharedTileWindow, tile: Tile) -> int:
    """The number of neighbours along the fast dimension that one access may move."""
    place = window.place
    fast, shift = place.fast, len(place.shape) - 2
    width = min(vector_run(tile.layout, fast), CHUNK // place.element.bytes)
    exact = tile.layout.extents[fast] == tile.shape[fast]
    while width > 1 and (
        window.fixed[fast - shift] % width or (not exact and tile.shape[fast] % width)
    ):
        width //= 2
    return width
