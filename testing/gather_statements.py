"""Statements that move elements to positions known at run time, multiply tiles, or leave lanes
undefined."""

from __future__ import annotations

from tileir.errors import VerifyError
from tileir.ops.arith import Add, And, ICmp, IntegerPredicate, Mul, Overflow, Select, Sub
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.rearrange import ExtractSlice, Gather, InsertSlice
from tileir.ops.reduce import Histogram
from tileir.testing.access import REGION, Base, address
from tileir.testing.writer import Writer, literal
from tileir.types import F32, I1, I32, Scalar, Tile, Type, element_of, shape_of, tile
from tileir.values import Operand, Undef, Value, constant


def gather(writer: Writer, back: int, other: int, axis: int) -> None:
    """Elements of a tile, selected by a live tile of integers that are clamped to the range."""
    source = writer.tile(back)
    if source is None:
        return
    at, shape = axis % len(shape_of(source.type)), shape_of(source.type)
    kind = tile(I32, shape)
    index = _below(writer, writer.of_type(kind, other, clean=True), shape[at])
    writer.emit(Gather(source, index, axis=at))


def insert(writer: Writer, back: int, extent: int, offset: int) -> None:
    """A corner of a tile replaced by literals, at a position that a live number selects."""
    value = writer.tile(back)
    if value is None:
        return
    small, offsets = _part(writer, value, extent, offset)
    part = literal(tile(_element(value), small), extent + offset)
    writer.emit(InsertSlice(value, part, offsets))


def extract_moving(writer: Writer, back: int, extent: int, offset: int) -> None:
    """A corner of a tile at a position that a live number selects."""
    value = writer.tile(back)
    if value is None:
        return
    small, offsets = _part(writer, value, extent, offset)
    writer.emit(ExtractSlice(value, tile(_element(value), small), offsets))


def histogram(writer: Writer, back: int, bins: int, masked: int) -> None:
    """Emit the histogram of a tile of integers."""
    value = writer.tile(back, I32)
    if value is not None:
        mask = writer.mask(value.type, masked)
        writer.emit(Histogram(value, tile(I32, (1 + bins,)), mask))


def dot(writer: Writer, back: int, other: int, addend: int) -> None:
    """A dot of a live tile and one whose rows match its columns, or else literals. Elements are
    integers if accumulation must be exact."""
    a = writer.pick(back, lambda t: _is_operand(t, writer.inexact))
    if a is None or not isinstance(a.type, Tile):
        return
    rows, depth = a.type.shape
    b = writer.tile_of(a.type.element, lambda s: len(s) == 2 and s[0] == depth, other)
    right: Operand = b if b is not None else literal(tile(a.type.element, (depth, 3)), other)
    columns = shape_of(right.type)[1]
    for result in (F32, I32, a.type.element):
        try:
            kind = tile(result, (rows, columns))
            op = Dot(a, right, writer.of_type(kind, addend))
        except VerifyError:
            continue
        writer.emit(op)
        return


def _is_operand(type: Type, inexact: bool) -> bool:
    if not isinstance(type, Tile) or len(type.shape) != 2:
        return False
    return inexact or type.element.is_integer


def poison(writer: Writer, base: Base, kind: int, back: int, digit: int) -> None:
    """Undefined lanes, in programs that may have them: a masked load, a choice without an operand,
    or a broken promise."""
    if not writer.undef:
        return
    if kind % 3 == 0:
        _load_partly(writer, base, digit)
        return
    fits = (lambda t: t is I32 or element_of(t) is I32) if kind % 3 == 1 else None
    value = writer.pick(back, fits or (lambda t: isinstance(element_of(t), Scalar)))
    if value is None:
        return
    if kind % 3 == 1:
        promise = list(Overflow)[1 + digit % (len(Overflow) - 1)]
        cls = (Add, Sub, Mul)[digit // 4 % 3]
        writer.taint(writer.emit(cls(value, writer.of_type(value.type, digit), overflow=promise)))
    else:
        mask = writer.mask(value.type, 2 * digit + 1) or constant(tile(I1, shape_of(value.type)), 0)
        if shape_of(value.type) == ():
            mask = constant(I1, bool(digit % 2))
        writer.emit(Select(mask, value, Undef(value.type)))


def _load_partly(writer: Writer, base: Base, digit: int) -> None:
    kind = tile(I1, (8,))
    mask = writer.mask(kind, 2 * digit + 1)
    row = address(writer, base, REGION, digit, (8,))
    writer.taint(writer.emit(Load(row, constant(kind, False) if mask is None else mask)))


def _part(
    writer: Writer, value: Value, extent: int, offset: int
) -> tuple[tuple[int, ...], tuple[Operand, ...]]:
    shape = shape_of(value.type)
    small = tuple([1 + extent % n for n in shape])
    number = writer.of_type(I32, offset, clean=True)
    extents = zip(shape, small, strict=True)
    return small, tuple([_below(writer, number, n - m + 1) for n, m in extents])


def _below(writer: Writer, number: Operand, bound: int) -> Operand:
    """`number` reduced to 0 to `bound` - 1: its low bits, or 0 where these are too large."""
    kind = number.type
    if bound == 1:
        return constant(kind, 0)
    low = writer.hide(And(number, constant(kind, (1 << (bound - 1).bit_length()) - 1)))
    fits = ICmp(low, constant(kind, bound), predicate_=IntegerPredicate.SLT)
    writer.ops.append(fits)
    return writer.hide(Select(fits.results[0], low, constant(kind, 0)))


def _element(value: Value) -> Scalar:
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    return element
