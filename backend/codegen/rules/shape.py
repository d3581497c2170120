"""Shape ops that emit no code: the handles are only renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.layout import Vector, differs_in_units
from tileir.types import I32, Pointer, Tile

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


def _make_range(lowering: Lowering, op: Any) -> list[Fragment]:
    tile, thread = op.result.type, lowering.thread
    values: list[str] = []
    for register in range(registers(tile)):
        at = lowering.coordinate(tile.layout, register, 0)
        at = convert_integer(thread, tile.element, at)
        start = thread.constant(tile.element, op.start & ((1 << tile.element.bits) - 1))
        values.append(thread.binary("add", tile.element, at, start) if op.start else at)
    return [values]


def convert_integer(thread: Any, element: Any, at: str) -> str:
    """An i32 as an integer of `element`."""
    if element.bits == I32.bits:
        return at
    return thread.convert("zext" if element.bits > I32.bits else "trunc", I32, element, at)


def _splat(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.scalar(op.value)] * registers(op.result.type)]


def _broadcast(lowering: Lowering, op: Any) -> list[Fragment]:
    return [_at_source(lowering, op, lambda v, shape: _collapse_units(v, shape))]


def _expand_dims(lowering: Lowering, op: Any) -> list[Fragment]:
    return [_at_source(lowering, op, lambda v, _: (*v[: op.axis], *v[op.axis + 1 :]))]


def _trans(lowering: Lowering, op: Any) -> list[Fragment]:
    inverse = [op.order.index(d) for d in range(len(op.order))]
    return [_at_source(lowering, op, lambda v, _: tuple(v[d] for d in inverse))]


def _at_source(lowering: Lowering, op: Any, move: Any) -> Fragment:
    """The handle of every register of the result: the operand's handle at the coordinate that
    `move` returns."""
    source, tile = op.value.type, op.result.type
    fragment = lowering.fragment(op.value)
    where = {v: r for r, v in enumerate(source.layout.registers)}
    return [fragment[where[move(v, source.shape)]] for v in tile.layout.registers]


def _collapse_units(v: Vector, shape: Vector) -> Vector:
    return tuple(0 if n == 1 else x for x, n in zip(v, shape, strict=True))


def _reshape(lowering: Lowering, op: Any) -> list[Fragment]:
    source, tile = op.value.type, op.result.type
    if differs_in_units(source.shape, tile.shape):
        return [_at_source(lowering, op, lambda v, _: _units_moved(v, tile.shape, source.shape))]
    moved = source.layout.reshape(source.shape, tile.shape)
    if moved == tile.layout:
        return [_in_order(lowering.fragment(op.value))]
    return [_through_memory(lowering, op, source, tile)]


def _units_moved(v: Vector, old: Vector, new: Vector) -> Vector:
    """The coordinate `v` of a tile of shape `old`, as a coordinate of a tile of shape `new`. The
    shapes differ in dimensions of extent 1."""
    coordinates_left = iter([x for x, n in zip(v, old, strict=True) if n > 1])
    return tuple(next(coordinates_left) if n > 1 else 0 for n in new)


def _in_order(fragment: Fragment) -> Fragment:
    """Reshaping changes the coordinates of registers, not their order."""
    return fragment


def _through_memory(lowering: Lowering, op: Any, source: Tile, tile: Tile) -> Fragment:
    from tileir.backend.codegen.rules.rearrange import reshape_through_memory

    return reshape_through_memory(lowering, op, source, tile)


def _getelementptr(t: Thread, op: Any, pointer: Handle, index: Handle) -> Handle:
    kind = scalar_of(op.pointer.type)
    assert isinstance(kind, Pointer)
    return t.advance(kind, pointer, index, scalar_of(op.index.type))


FEWEST_ROWS = 16
"""The fewest rows of a thread from which on their addresses are distances from that of the first
one, which takes more instructions than another address, since all its terms have 64 bits, and two
registers. Kernels with 32 rows took 4 to 7 % less time on an H200; one with eight rows of each of
five tensors took 3 % more."""

_each_address = elementwise(_getelementptr)


def _addresses(lowering: Lowering, op: Any) -> list[Fragment]:
    if registers(op.result.type) >= FEWEST_ROWS:
        from tileir.backend.codegen.rules.addresses import addresses  # loads analyses

        fragment = addresses(lowering, op)
        if fragment is not None:
            return [fragment]
    return _each_address(lowering, op)


RULES: dict[str, Rule] = {
    "make_range": _make_range,
    "splat": _splat,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "trans": _trans,
    "reshape": _reshape,
    "getelementptr": _addresses,
}
