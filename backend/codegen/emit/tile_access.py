"""Tiles from and to shared memory, as wide as their layouts allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.backend.codegen.emit.ldmatrix import OwnedRegisters, load_matrices, store_matrices
from tileir.backend.codegen.emit.shared_addresses import (
    Addresses,
    SharedTileWindow,
    add_terms,
    addresses,
    register_at,
    vector_width,
)
from tileir.backend.codegen.lowering import Fragment, Lowering
from tileir.backend.layouts.anchors import neighbours_first
from tileir.layout import Vector
from tileir.types import I1, I32, Tile


def load_tile(
    lowering: Lowering, window: SharedTileWindow, tile: Tile, rank: Any = None
) -> Fragment:
    """Load `tile` in its layout from the shared memory of block `rank` of the cluster (an i32), or
    of this block. Padding reads an arbitrary element."""
    by_ldmatrix = load_matrices(lowering, window, tile) if rank is None else None
    if by_ldmatrix is not None:
        return by_ldmatrix
    order = neighbours_first(tile.layout, window.place.fast)
    if order is not tile.layout:
        reordered = load_tile(lowering, window, Tile(tile.element, tile.shape, order), rank)
        register_of = {vector: register for register, vector in enumerate(order.registers)}
        return [reordered[register_of[vector]] for vector in tile.layout.registers]
    thread, width = lowering.thread, vector_width(window, tile)
    tile_addresses, values = addresses(lowering, window, tile.layout), list[Any]()
    for register in range(0, tile.layout.size("register"), width):
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            values += [thread.constant(tile.element, 0)] * width
            continue
        address = _offset(
            lowering, register_at(window, tile_addresses, tile.layout.registers[register])
        )
        if inside is not None:
            safe = add_terms(thread, [thread.integer(window.place.base), window.start])
            address = thread.select(I32, inside, address, safe)
        if rank is None:
            values += thread.load_shared(tile.element, width, address)
        else:
            values += thread.load_remote(tile.element, width, address, rank)
    return values


def store_window(
    lowering: Lowering, window: SharedTileWindow, tile: Tile, fragment: Fragment,
    owned: OwnedRegisters | None = None,
) -> None:  # fmt: skip
    """Write `tile` without padding, or only the elements of `owned`. All owners of an element write
    it."""
    if store_matrices(lowering, window, tile, fragment, owned):
        return
    registers = None if owned is None else owned.conditions
    order = neighbours_first(tile.layout, window.place.fast)
    if order is not tile.layout:
        source = {vector: register for register, vector in enumerate(tile.layout.registers)}
        sources = [source[vector] for vector in order.registers]
        fragment = [fragment[register] for register in sources]
        if registers is not None:
            registers = {n: registers[r] for n, r in enumerate(sources) if r in registers}
        tile = Tile(tile.element, tile.shape, order)
    thread, width = lowering.thread, vector_width(window, tile)
    where = addresses(lowering, window, tile.layout)
    for register in range(0, tile.layout.size("register"), width):
        if registers is not None and register not in registers:
            continue
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            continue
        vector = tile.layout.registers[register]
        write = _writer(lowering, window, where, vector, tile, fragment[register:][:width])
        value = None if registers is None else registers[register]
        if value is not None:
            inside = value if inside is None else thread.binary("and", I1, inside, value)
        if inside is None:
            write()
        else:
            thread.when(inside, (), write)


def _writer(
    lowering: Lowering, window: SharedTileWindow, where: Addresses, vector: Vector, tile: Tile,
    values: Fragment,
) -> Callable[[], list[Any]]:  # fmt: skip
    at = _offset(lowering, register_at(window, where, vector))

    def write() -> list[Any]:
        lowering.thread.store_shared(tile.element, at, values)
        return []

    return write


def _offset(lowering: Lowering, address: tuple[Any, int]) -> Any:
    handle, constant = address
    if not constant:
        return handle
    return lowering.thread.binary("add", I32, handle, lowering.thread.integer(constant))
