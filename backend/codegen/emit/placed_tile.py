"""Tiles in shared memory that are placed row by row
(`tileir.backend.shared_memory.conversion_plan.placement`): addresses, stores and loads."""

from __future__ import annotations

from tileir.backend.codegen.lowering import Fragment, Lowering
from tileir.backend.shared_memory.conversion_plan import Placement, placement
from tileir.layout import Layout
from tileir.types import I32, Tile


def address(lowering: Lowering, place: Placement, layout: Layout, register: int) -> str:
    """The byte offset in shared memory of the element of a register, an i32."""
    thread, fixed = lowering.thread, place.base
    total: str | None = None
    for dim, stride in enumerate(place.strides):
        moving = lowering.offset(layout, dim)
        at = layout.registers[register][dim]
        if moving is None:
            fixed += at * stride
            continue
        coordinate = lowering.coordinate(layout, register, dim)
        term = thread.binary("mul", I32, coordinate, thread.integer(stride), "nsw nuw")
        total = term if total is None else thread.binary("add", I32, total, term, "nsw nuw")
    if total is None:
        return thread.integer(fixed)
    return thread.binary("add", I32, total, thread.integer(fixed), "nsw nuw") if fixed else total


def store_tile(lowering: Lowering, fragment: Fragment, tile: Tile, base: int) -> None:
    """Store a tile to shared memory from byte `base`. The first owner of each element stores it;
    padding is not stored."""
    place, thread = placement(tile, base), lowering.thread
    first = lowering.first_owner(tile.layout)
    for register, handle in enumerate(fragment):
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            continue
        at = address(lowering, place, tile.layout, register)

        def write(at: str = at, handle: str = handle) -> list[str]:
            thread.store_shared(tile.element, at, [handle])
            return []

        thread.when(lowering.conjunction(first, inside) or "true", (), write)


def load_tile(lowering: Lowering, tile: Tile, base: int) -> Fragment:
    """Load a tile from shared memory. Padding loads the first element."""
    place, thread, values = placement(tile, base), lowering.thread, list[str]()
    for register in range(tile.layout.size("register")):
        inside = lowering.inside(tile.layout, tile.shape, register)
        if inside == "false":
            values.append(thread.constant(tile.element, 0))
            continue
        at = address(lowering, place, tile.layout, register)
        if inside is not None:
            at = thread.select(I32, inside, at, thread.integer(base))
        values += thread.load_shared(tile.element, 1, at)
    return values
