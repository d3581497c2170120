"""Fragments of matrix instructions from and to shared memory: 8 rows of 16 bytes at a time, up to 4
such per instruction (PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store
instruction: stmatrix")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.backend.codegen.emit.shared_addresses import (
    Addresses,
    SharedTileWindow,
    addresses,
    register_at,
)
from tileir.backend.codegen.lowering import Fragment, Lowering
from tileir.backend.shared_memory.shared_tile import CHUNK
from tileir.layout import Layout, Vector, layout
from tileir.types import I32, Tile

_WORD = 4
"""Bytes of one row of a matrix that a lane gets."""


def load_matrices(lowering: Lowering, window: SharedTileWindow, tile: Tile) -> Fragment | None:
    """The fragment of `tile`; None where its layout is not one that `ldmatrix` makes. Warps that
    own nothing read what the first ones do."""
    tile = _without_idle_warps(tile)
    transposed = _direction(window, tile)
    if transposed is None:
        return None
    each = _WORD // tile.element.bytes
    k, step = window.place.slow if transposed else window.place.fast, 8 * each
    starts = sorted(tile.layout.registers[::each], key=lambda v: v[k] // step)
    elements: dict[Vector, Fragment] = {}
    for handle, constant, registers in _row_addresses(lowering, window, tile.layout, starts):
        count = len(registers)
        loaded = lowering.thread.load_matrix(tile.element, count, transposed, handle, constant)
        for i, start in enumerate(registers):
            elements[start] = loaded[i * each :][:each]
    return [x for start in tile.layout.registers[::each] for x in elements[start]]


def _without_idle_warps(tile: Tile) -> Tile:
    """`tile` with copies in place of padding in warps that begin beyond its extents."""
    old = tile.layout
    if old.extents == tile.shape or old.repeats:
        return tile
    idle = [any(x >= n for x, n in zip(v, tile.shape, strict=True)) for v in old.warp]
    warp = tuple((0,) * old.rank if beyond else v for v, beyond in zip(old.warp, idle, strict=True))
    return Tile(tile.element, tile.shape, layout(old.rank, old.register, old.lane, warp, old.block))


@attrs.frozen
class OwnedRegisters:
    """Registers with the condition under which a thread owns their elements, an i1, None for all
    threads. `by_warp` tells that all lanes of a warp own them, or none."""

    conditions: Mapping[int, Any]
    by_warp: bool


def store_matrices(
    lowering: Lowering, window: SharedTileWindow, tile: Tile, fragment: Fragment,
    owned: OwnedRegisters | None,
) -> bool:  # fmt: skip
    """Write `tile`, or only the elements of `owned`; return False, without writing, where no matrix
    store applies."""
    transposed = _direction(window, tile) if lowering.target.stmatrix else None
    each, vectors = _WORD // tile.element.bytes, tile.layout.registers
    every = dict[int, Any].fromkeys(range(len(vectors)))
    conditions = every if owned is None else owned.conditions
    starts: dict[Any, list[int]] = {}
    for register in conditions if transposed is not None else ():
        if register % each == 0:
            starts.setdefault(conditions[register], []).append(register)
    conditional = owned is not None and not owned.by_warp and starts.keys() != {None}
    if conditional or each * sum(map(len, starts.values())) != len(conditions):
        return False
    first = {v: i for i, v in enumerate(vectors)}
    for condition, registers in starts.items():
        rows = _row_addresses(lowering, window, tile.layout, [vectors[r] for r in registers])
        stores = [
            (handle, constant, [x for v in matrices for x in fragment[first[v] :][:each]])
            for handle, constant, matrices in rows
        ]

        def write(stores: Sequence[tuple[Any, int, Fragment]] = stores) -> list[Any]:
            for handle, constant, values in stores:
                lowering.thread.store_matrix(tile.element, transposed, handle, constant, values)
            return []

        write() if condition is None else lowering.thread.when(condition, (), write)
    return True


def _row_addresses(
    lowering: Lowering, window: SharedTileWindow, layout: Layout, starts: Sequence[Vector]
) -> Iterator[tuple[Any, int, Sequence[Vector]]]:
    """Per instruction: the address of the matrix row that a lane passes, as a handle and a
    constant, and which matrices of `starts` the instruction moves."""
    addresses_of_bits: dict[tuple[Vector, ...], Addresses] = {}
    at = 0
    while at < len(starts):
        count, deltas = _together(starts[at : at + 4])
        if deltas not in addresses_of_bits:
            addresses_of_bits[deltas] = _rows(lowering, window, layout, deltas)
        yield *register_at(window, addresses_of_bits[deltas], starts[at]), starts[at : at + count]
        at += count


def _together(starts: Sequence[Vector]) -> tuple[int, tuple[Vector, ...]]:
    """The number of matrices at `starts` that one instruction loads or stores, and the coordinates
    that bit 0 and bit 1 of a matrix's number add."""
    first = starts[0]
    steps = [tuple(b - a for a, b in zip(first, s, strict=True)) for s in starts[1:]]
    if len(starts) == 4:
        combined = tuple(a + b for a, b in zip(steps[0], steps[1], strict=True))
        if steps[2] == combined:
            return 4, (steps[0], steps[1])
    return (2, (steps[0],)) if steps else (1, ())


def _direction(window: SharedTileWindow, tile: Tile) -> bool | None:
    """Whether lanes own the transposed matrices; None where no matrix load yields the layout."""
    layout, place, size = tile.layout, window.place, tile.element.bytes
    if len(place.shape) != 2 or size > _WORD or tile.element.bits < 8:
        return None
    if layout.extents != tile.shape or any(m is not None for m in window.moved):
        return None
    each = _WORD // size
    bits = each.bit_length() - 1
    rows, columns = _units(place.slow), _units(place.fast)
    lanes = (columns(each), columns(2 * each), rows(1), rows(2), rows(4))
    aligned = _is_aligned(window, layout, each)
    if layout.lane == lanes and layout.register[:bits] == tuple(
        columns(1 << i) for i in range(bits)
    ):
        return False if aligned else None
    lanes = (rows(2), rows(4), columns(1), columns(2), columns(4))
    if size == 2 and layout.lane == lanes and layout.register[:1] == (rows(1),):
        return True if aligned else None
    return None


def _units(dim: int) -> Any:
    return lambda step: (0, step) if dim else (step, 0)


def _is_aligned(window: SharedTileWindow, layout: Layout, each: int) -> bool:
    """Whether every matrix begins at a row that is a multiple of 8 and at a chunk."""
    place = window.place
    chunk, fixed = CHUNK // place.element.bytes, window.fixed
    vectors = [*layout.registers[::each], *layout.warp]
    vectors += [d.step for axis in ("lane", "warp") for d in layout.digits(axis)]
    return (
        not (fixed[place.slow] % 8 or fixed[place.fast] % chunk)
        and not any(v[place.slow] % 8 or v[place.fast] % chunk for v in vectors)
        and not layout.digits("lane")
    )


def _rows(
    lowering: Lowering, window: SharedTileWindow, layout: Layout, deltas: tuple[Vector, ...]
) -> Addresses:
    """The position of the row whose address each lane passes: row `lane % 8` of matrix `lane /
    8`."""
    thread, place = lowering.thread, window.place
    row_addresses = addresses(lowering, window, layout, ("warp",))
    lane = thread.lane()
    row = thread.binary("and", I32, lane, thread.integer(7))
    row = row if row_addresses.row is None else thread.binary("add", I32, row, row_addresses.row)
    column, bits = row_addresses.column, row_addresses.bits
    for i, delta in enumerate(deltas):
        if delta[place.slow]:
            row = thread.binary("add", I32, row, _bit(thread, lane, 3 + i, delta[place.slow]))
        if delta[place.fast]:
            part = _bit(thread, lane, 3 + i, delta[place.fast])
            column = part if column is None else thread.binary("add", I32, column, part)
            bits |= delta[place.fast] * place.element.bytes
    return Addresses(lowering, place, row, column, row_addresses.plane, bits)


def _bit(thread: Any, index: Any, bit: int, step: int) -> Any:
    """`step` where that bit of `index` is set."""
    moved = thread.binary("lshr", I32, index, thread.integer(bit))
    one = thread.binary("and", I32, moved, thread.integer(1))
    return thread.binary("mul", I32, one, thread.integer(step))
