"""Statements that change the shape of a live tile. The new size is bounded."""

from __future__ import annotations

from tileir.ops.rearrange import Cat, ExtractSlice, Join, Split
from tileir.ops.shape import Broadcast, ExpandDims, MakeRange, Reshape, Splat, Trans
from tileir.testing.writer import Writer
from tileir.types import I32, Element, Scalar, Tile, element_of, shape_of, tile
from tileir.values import Value, constant

LARGEST = 96
"""Elements of the largest tile a program makes."""

SHAPES = ((8,), (1,), (7,), (16,), (2, 4), (3, 5), (48,), (4, 1, 3))


def splat(writer: Writer, back: int, shape: int, _: int) -> None:
    """A tile filled with a scalar, or a range if there is no live scalar."""
    dims = SHAPES[shape % len(SHAPES)]
    value = writer.pick(back, lambda t: isinstance(t, Scalar))
    if value is None or not isinstance(value.type, Scalar):
        make_range(writer, back, shape, 0)
    else:
        writer.emit(Splat(value, tile(value.type, dims)))


def make_range(writer: Writer, start: int, shape: int, _: int) -> None:
    """Consecutive integers."""
    count = SHAPES[shape % len(SHAPES)][0]
    writer.emit(MakeRange(tile(I32, (count,)), start=start - 4))


def reshape(writer: Writer, back: int, how: int, _: int) -> None:
    """The elements of a tile in one dimension, or in two."""
    value = writer.tile(back)
    if value is None or not isinstance(value.type, Tile):
        return
    size = value.type.size
    ways = [(size,), *((n, size // n) for n in range(1, size + 1) if size % n == 0)]
    writer.emit(Reshape(value, tile(value.type.element, ways[how % len(ways)])))


def expand(writer: Writer, back: int, axis: int, extent: int) -> None:
    """Add a dimension, and broadcast along it if the tile stays small."""
    value = writer.tile(back)
    if value is None or len(shape_of(value.type)) > 3:
        return
    at = axis % (len(shape_of(value.type)) + 1)
    writer.emit(ExpandDims(value, axis=at))
    wide = writer.live[-1]
    shape = list(shape_of(wide.type))
    shape[at] = 1 + extent % 5
    target = tile(_element(value), tuple(shape))
    if isinstance(target, Tile) and target.size <= LARGEST:
        writer.emit(Broadcast(wide, target))


def transpose(writer: Writer, back: int, how: int, _: int) -> None:
    """Dimensions rotated or reversed."""
    value = writer.tile(back)
    if value is None:
        return
    axes = list(range(len(shape_of(value.type))))
    order = axes[::-1] if how % 2 == 0 else axes[1:] + axes[:1]
    writer.emit(Trans(value, order=tuple(order)))


def join_split(writer: Writer, back: int, other: int, split: int) -> None:
    """Two tiles joined and, for an odd digit, split."""
    low = writer.tile(back)
    if low is None or not isinstance(low.type, Tile) or 2 * low.type.size > LARGEST:
        return
    high = writer.of_type(low.type, other)
    writer.emit(Join(low, high))
    if split % 2:
        writer.emit(Split(writer.live[-1]))


def concatenate(writer: Writer, back: int, other: int, axis: int) -> None:
    """Concatenate two tiles of one type."""
    low = writer.tile(back)
    if low is None or not isinstance(low.type, Tile) or 2 * low.type.size > LARGEST:
        return
    writer.emit(Cat(low, writer.of_type(low.type, other), axis=axis % len(low.type.shape)))


def extract(writer: Writer, back: int, extent: int, offset: int) -> None:
    """A corner of a tile, at a static offset."""
    value = writer.tile(back)
    if value is None:
        return
    shape = shape_of(value.type)
    small = tuple(1 + extent % n for n in shape)
    offsets = tuple(constant(I32, offset % (n - m + 1)) for n, m in zip(shape, small, strict=True))
    writer.emit(ExtractSlice(value, tile(_element(value), small), offsets))


def _element(value: Value) -> Element:
    element = element_of(value.type)
    assert isinstance(element, Scalar)  # live tiles contain numbers
    return element
