"""Statements that access memory through descriptors and atomically, each instance in its own
region, and statements that compute numbers at the limits of their widths."""

from __future__ import annotations

from tileir.ops.arith import Add, And, Mul, Neg, Select, Shl, Sub
from tileir.ops.atomic import (
    AtomicCAS,
    AtomicKind,
    AtomicLoad,
    AtomicRMW,
    AtomicStore,
    MemoryScope,
    Order,
    fits_kind,
)
from tileir.ops.cast import SExt, Trunc
from tileir.ops.debug import Assert
from tileir.ops.descriptor import (
    DescriptorGather,
    DescriptorLoad,
    DescriptorReduce,
    DescriptorScatter,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.hints import Assume
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr, MakeRange, Reshape
from tileir.testing.access import REGION, TILES, Base, address, size_of
from tileir.testing.shapes import LARGEST, SHAPES
from tileir.testing.under import predicate_for
from tileir.testing.writer import Writer, literal
from tileir.types import (
    I8,
    I16,
    I32,
    I64,
    Descriptor,
    Scalar,
    Tile,
    Type,
    shape_of,
    tile,
    with_element,
)
from tileir.values import Operand, Value, constant

WRITE_ONLY = "v"
"""The buffer that programs never read."""
_BLOCKS = ((8,), (4, 8), (3, 4), (2, 3, 4))
_ROWS = (1, 8)
"""The block of a gather: a row."""
_WIDTHS = (I32, I8, I16, I64)


def _element(base: Base) -> Scalar:
    element = base.pointer.type.pointee  # type: ignore[union-attr]
    assert isinstance(element, Scalar)
    return element


def _value(writer: Writer, kind: Type, digit: int) -> Operand:
    """A live, fully defined value of `kind`, or a literal."""
    return writer.of_type(kind, digit, clean=True)


def _index(writer: Writer, base: Base, digit: int) -> Operand:
    """An index from -1 to 2, plus the number of the instance for an odd digit."""
    offset = constant(I32, digit // 2 % 4 - 1)
    return writer.hide(Add(base.instance, offset)) if digit % 2 else offset


def _descriptor(writer: Writer, base: Base, part: int, shape: tuple[int, ...], cut: int) -> Value:
    """A descriptor of one part of the instance's region. Extents are up to two smaller than the
    block; strides leave no gaps."""
    start = writer.hide(Mul(base.instance, constant(I32, REGION)))
    first = writer.hide(Add(start, constant(I32, part % TILES * LARGEST)))
    place = writer.hide(GetElementPtr(base.pointer, first))
    extents = [max(1, n - cut % 3) if n > 1 else 8 for n in shape]
    pairs: list[Operand] = []
    for dim, extent in enumerate(extents):
        stride = 1
        for later in shape[dim + 1 :]:
            stride *= later
        pairs += [constant(I32, extent), constant(I64, stride)]
    block = tile(_element(base), shape)
    assert isinstance(block, Tile)
    return writer.hide(MakeDescriptor(place, Descriptor(block), tuple(pairs)))


def load_block(writer: Writer, base: Base, part: int, variant: int, digit: int) -> None:
    """Load a block of a tensor of two or three dimensions, or some of its rows."""
    if variant % 4 == 3:
        where = _descriptor(writer, base, part, _ROWS, digit)
        rows = writer.hide(MakeRange(tile(I32, (8,)), start=digit % 3 - 1))
        writer.emit(DescriptorGather(where, rows, _index(writer, base, digit)))
        return
    shape = _BLOCKS[variant % 4 + variant // 8 % 2]
    where = _descriptor(writer, base, part, shape, digit)
    indices = tuple([_index(writer, base, digit + n) for n in range(len(shape))])
    writer.emit(DescriptorLoad(where, indices))


def store_block(writer: Writer, base: Base, part: int, variant: int, digit: int) -> None:
    """Store or add a live tile, or a literal, to a block of a tensor, or to some of its rows."""
    element = _element(base)
    if variant % 4 == 3:
        where = _descriptor(writer, base, part, _ROWS, digit)
        rows = writer.hide(MakeRange(tile(I32, (8,)), start=digit % 3 - 1))
        value = _value(writer, tile(element, (8, 8)), digit)
        writer.perform(DescriptorScatter(where, value, rows, _index(writer, base, digit)))
        return
    shape = _BLOCKS[variant % 4 + variant // 8 % 2]
    where = _descriptor(writer, base, part, shape, digit)
    indices = tuple([_index(writer, base, digit + n) for n in range(len(shape))])
    value = _value(writer, tile(element, shape), digit)
    if variant // 4 % 2 and str(base.pointer.name) != WRITE_ONLY:
        kind = AtomicKind.FADD if element.is_float else AtomicKind.ADD
        writer.perform(DescriptorReduce(where, value, indices, op=kind))
    else:
        writer.perform(DescriptorStore(where, value, indices))


def update(writer: Writer, base: Base, part: int, variant: int, digit: int) -> None:
    """An atomic access to a tile in the instance's own memory, masked for some digits. The old
    value is live."""
    element = _element(base)
    shape = (*SHAPES, ())[variant % (len(SHAPES) + 1)]
    where = address(writer, base, REGION, part % TILES * LARGEST, shape)
    kind = tile(element, shape)
    mask = writer.mask(where.type, digit) if variant % 3 == 0 else None
    value, scope = _value(writer, kind, digit), list(MemoryScope)[digit % 3]
    kinds = [k for k in AtomicKind if fits_kind(k, element) is None]
    if digit % 4 == 0:
        op = AtomicCAS(where, _value(writer, kind, variant), value, mask, scope=scope)
    else:
        op = AtomicRMW(
            where, value, mask, op=kinds[(variant + digit) % len(kinds)],
            sem=list(Order)[variant % 4], scope=scope,
        )  # fmt: skip
    if mask is None:
        writer.emit(op)
        return
    old = writer.hide(op)
    writer.emit(Select(mask, old, literal(kind, digit)))


def read_atomically(writer: Writer, base: Base, shape: int, part: int, digit: int) -> None:
    """Load by an atomic access with a memory order."""
    where = address(writer, base, REGION, part % TILES * LARGEST, SHAPES[shape % len(SHAPES)])
    writer.emit(AtomicLoad(where, sem=(Order.ACQUIRE, Order.RELAXED)[digit % 2]))


def write_atomically(writer: Writer, base: Base, shape: int, part: int, digit: int) -> None:
    """Store a live tile, or a literal, by an access with a memory order."""
    where = address(writer, base, REGION, part % TILES * LARGEST, SHAPES[shape % len(SHAPES)])
    value = _value(writer, with_element(where.type, _element(base)), digit)
    sem = (Order.RELEASE, Order.RELAXED)[digit % 2]
    writer.perform(AtomicStore(where, value, sem=sem))


def write_only(writer: Writer, base: Base, how: int, part: int, digit: int) -> None:
    """One of four kinds of stores, to a buffer that the program never reads."""
    if how % 4 == 0:
        write_atomically(writer, base, digit, part, how // 4)
    elif how % 4 == 3:
        shape = SHAPES[digit % len(SHAPES)]
        where = address(writer, base, REGION, part % TILES * LARGEST, shape)
        writer.perform(
            Store(where, _value(writer, with_element(where.type, _element(base)), digit))
        )
    else:
        store_block(writer, base, part, 3 if how % 4 == 1 else digit % 3, how)


def read_only(writer: Writer, base: Base, how: int, part: int, digit: int) -> None:
    """One of three kinds of loads, from an input."""
    if how % 3 == 0:
        read_atomically(writer, base, digit, part, how // 3)
    elif how % 3 == 1:
        load_block(writer, base, part, digit, how)
    else:
        shape = SHAPES[digit % len(SHAPES)]
        writer.emit(Load(address(writer, base, REGION, part % TILES * LARGEST, shape)))


def corners(writer: Writer, width: int, shape: int, how: int) -> None:
    """Integers with a single bit set, minus one, or negated: the limits of every width."""
    element, dims = _WIDTHS[width % 4], SHAPES[shape % len(SHAPES)]
    numbers = writer.hide(MakeRange(tile(I32, (size_of(tile(I32, dims)),)), start=0))
    if len(dims) > 1:
        numbers = writer.hide(Reshape(numbers, tile(I32, dims)))
    kind = tile(element, dims)
    if element is not I32:
        numbers = writer.hide((SExt if element is I64 else Trunc)(numbers, kind))
    places = writer.hide(And(numbers, constant(kind, element.bits - 1)))
    bit = Shl(constant(kind, 1), places)
    if how % 3 == 0:
        writer.emit(bit)
    elif how % 3 == 1:
        writer.emit(Sub(writer.hide(bit), constant(kind, 1)))
    else:
        writer.emit(Neg(writer.hide(bit)))


def true_condition(writer: Writer, back: int, variant: int, digit: int) -> None:
    """Emit an `assume` or `assert` whose condition is true in all lanes, or in those of a
    predicate."""
    value = writer.tile(back)
    shape = () if value is None or variant % 2 else shape_of(value.type)
    lanes = predicate_for(writer, shape, digit)[1]
    if variant // 2 % 2:
        writer.append(Assert(lanes, message="true where it is asked", predicate=lanes))
    else:
        writer.append(Assume(lanes, predicate=lanes))


__all__ = [
    "corners", "load_block", "read_atomically", "read_only", "size_of", "store_block",
    "true_condition", "update", "write_atomically", "write_only",
]  # fmt: skip
