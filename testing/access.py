"""Statements that access memory, and their addresses. Each program instance has its own region in
every buffer, so that instances do not conflict."""

from __future__ import annotations

import attrs

from tileir.ops.arith import Add, Mul
from tileir.ops.atomic import AtomicKind, AtomicRMW
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr, MakeRange, Reshape, Splat
from tileir.testing.shapes import LARGEST
from tileir.testing.writer import Writer, literal
from tileir.types import I32, Scalar, Tile, Type, element_of, pointer, shape_of, tile
from tileir.values import Value, constant

TILES = 4
"""Tiles a program instance can keep in its scratch memory."""
REGION = TILES * LARGEST
"""Elements per instance of an input or scratch buffer."""

COUNTERS = 8
"""Elements of the buffer that all instances add to."""


@attrs.frozen
class Base:
    """The region of a program instance in a buffer: the pointer parameter and the number of the
    instance."""

    pointer: Value
    instance: Value


def load_input(writer: Writer, base: Base, shape: tuple[int, ...], offset: int) -> None:
    """Load a tile (or scalar) of an input, all of it in bounds."""
    where = address(writer, base, REGION, offset % (REGION - LARGEST), shape)
    writer.emit(Load(where))


def store_scratch(writer: Writer, base: Base, back: int, index: int, mask: int) -> None:
    """Store a live tile of the scratch buffer's element type to tile `index` of the buffer, masked
    for an odd digit."""
    element = element_of(base.pointer.type.pointee)  # type: ignore[union-attr]
    value = writer.pick(back, lambda t: element_of(t) is element and size_of(t) <= LARGEST)
    if value is None:
        return
    where = address(writer, base, REGION, index % TILES * LARGEST, shape_of(value.type))
    writer.perform(Store(where, value, writer.mask(value.type, mask)))


def load_scratch(writer: Writer, base: Base, shape: tuple[int, ...], index: int, mask: int) -> None:
    """Load tile `index` of the scratch buffer. Lanes that the mask excludes get a literal."""
    where = address(writer, base, REGION, index % TILES * LARGEST, shape)
    flags = writer.mask(where.type, mask)
    element = base.pointer.type.pointee  # type: ignore[union-attr]
    other = None if flags is None else literal(tile(element, shape), mask)
    result = writer.emit(Load(where, flags, other))
    if writer.undef:
        writer.taint(result)


def count(writer: Writer, base: Base, back: int, counter: int) -> None:
    """Add a scalar to a counter that all instances share. The old value is not used, so the order
    of the instances does not matter."""
    where = writer.hide(GetElementPtr(base.pointer, constant(I32, counter % COUNTERS)))
    value = writer.of_type(I32, back, clean=True)
    writer.perform(AtomicRMW(where, value, op=AtomicKind.ADD))


def store_output(writer: Writer, name: str, instance: Value, value: Value) -> Value:
    """Store all of `value` to a buffer of its own. The result is the pointer parameter of the
    buffer."""
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    parameter = Value(pointer(element), name)
    base = Base(parameter, instance)
    where = address(writer, base, size_of(value.type), 0, shape_of(value.type))
    writer.ops.append(Store(where, value))
    return parameter


def address(writer: Writer, base: Base, region: int, offset: int, shape: tuple[int, ...]) -> Value:
    """Pointers to consecutive elements of the instance's region, in row-major order. `region` is
    the number of its elements."""
    start = writer.hide(Mul(base.instance, constant(I32, region)))
    index = writer.hide(Add(start, constant(I32, offset)))
    first = writer.hide(GetElementPtr(base.pointer, index))
    if not shape:
        return first
    size = size_of(tile(I32, shape))
    steps = writer.hide(MakeRange(tile(I32, (size,)), start=0))
    if len(shape) > 1:
        steps = writer.hide(Reshape(steps, tile(I32, shape)))
    everywhere = writer.hide(Splat(first, tile(base.pointer.type, shape)))  # type: ignore[arg-type]
    return writer.hide(GetElementPtr(everywhere, steps))


def size_of(type: Type) -> int:
    """The number of elements of a type; 1 for scalars."""
    return type.size if isinstance(type, Tile) else 1
