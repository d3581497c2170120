"""Convolutions as matmuls: pixels by channels times channels by filters.

`boxes` takes pixels as boxes of an image with channels last; `channels_last` converts an image with
channels first to that form. `implicit_gemm` takes any run of pixels of an image with channels
first. `with_increment_table` does so with a table of pointer increments (Tillet et al. 2019,
sections 6.2.1 and 6.2.2).
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.testing.workloads.tables import ABSENT


@attrs.frozen
class Filter:
    """A filter: its rows and columns, the stride of outputs in the input, and the padding with
    zeros on each side."""

    rows: int = 3
    columns: int = 3
    stride: int = 1
    padding: tuple[int, int] = (1, 1)

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Extents of the output for an image of `height` x `width`."""
        sizes = zip((height, width), (self.rows, self.columns), self.padding, strict=True)
        h, w = ((n + 2 * p - r) // self.stride + 1 for n, r, p in sizes)
        return h, w

    @property
    def taps(self) -> int:
        return self.rows * self.columns


def boxes(
    height: int, width: int, bn: int, bk: int, filter: Filter, element: Any = F16, *,
    first: bool = False,
) -> Module:  # fmt: skip
    """`convolution(x, w, y, h, width, oh, ow, c, k)` on a grid of tiles, blocks of k and images: y
    [n, oh, ow, k] = x [n, h stride, width stride, c] * w [rows, columns, c, k]; tiles of `height` x
    `width` outputs by `bn` channels, in steps of `bk` channels. Extents of x are multiples of the
    stride, so that a tap reads rows (and columns) with the same remainder modulo `stride` for all
    outputs. With channels `first`, y is [n, k, oh, ow]."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    numbers = dict.fromkeys(("h", "width", "oh", "ow", "c", "k"), I32)
    step = filter.stride
    with b.kernel("convolution", **kinds, **numbers) as (x, w, y, h, wide, oh, ow, c, k):
        tiles_per_row = (ow + (width - 1)) // width
        pid, image = b.program_id(axis=0), b.program_id(axis=2)
        rows = b.arange(height) + pid // tiles_per_row * height
        columns = b.arange(width) + pid % tiles_per_row * width
        outputs = b.arange(bn) + b.program_id(axis=1) * bn
        acc = b.var(b.full((height * width, bn), 0.0, F32))
        with b.for_(0, filter.rows) as r, b.for_(0, filter.columns) as s, b.for_(0, c, bk) as at:
            channels = b.arange(bk) + at
            down, right = r - filter.padding[0], s - filter.padding[1]
            i, j = (rows + down // step)[:, None, None], (columns + right // step)[None, :, None]
            deep = channels[None, None, :]
            inside = (i >= 0) & (i < h) & (j >= 0) & (j < wide) & (deep < c)
            row, column = (image * h + i) * step + down % step, j * step + right % step
            pixels = (x + ((row * (wide * step) + column) * c + deep)).load(inside, 0.0)
            w_mask = (channels < c)[:, None] & (outputs < k)[None, :]
            place = ((r * filter.columns + s) * c + channels)[:, None] * k + outputs[None, :]
            taps = (w + place).load(w_mask, 0.0)
            acc.set(b.dot(pixels.reshape(height * width, bk), taps, acc.get()))
        i, j, o = rows[:, None, None], columns[None, :, None], outputs[None, None, :]
        result = acc.get().to(element).reshape(height, width, bn)
        pixel = i * ow + j
        place = (image * k + o) * (oh * ow) + pixel if first else (image * oh * ow + pixel) * k + o
        (y + place).store(result, (i < oh) & (j < ow) & (o < k))
    return b.module()


def channels_last(bp: int, bc: int, element: Any = F16, *, of: tuple[int, int] = (1, 1)) -> Module:
    """`channels_last(x, y, pixels, c)` on a grid of blocks of pixels, blocks of channels and
    images: y [n, pixels, c] is x [n, c, pixels], by tiles of `bp` pixels and `bc` channels; both
    extents are multiples of those in `of`."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xy"}
    sizes = {n: arg(I32, multiple_of=m) for n, m in zip(("pixels", "c"), of, strict=True)}
    with b.kernel("channels_last", **kinds, **sizes) as (x, y, pixels, c):
        pixel = (b.arange(bp) + b.program_id(axis=0) * bp)[None, :]
        channel = (b.arange(bc) + b.program_id(axis=1) * bc)[:, None]
        inside = (pixel < pixels) & (channel < c)
        image = b.program_id(axis=2) * (pixels * c)
        values = (x + (image + (channel * pixels + pixel))).load(inside)
        (y + (image + (pixel * c + channel))).store(values, inside)
    return b.module()


def implicit_gemm(
    bm: int, bn: int, bk: int, filter: Filter, element: Any = F16, *, precision: Any = "ieee"
) -> Module:
    """`convolution(x, w, y, h, width, oh, ow, c, k)` on a grid of blocks of outputs, blocks of k
    and images: y [n, k, oh, ow] = x [n, c, h, width] * w [rows, columns, c, k]; tiles of `bm`
    outputs of an image, one after the other, by `bn` channels. Steps of `bk` channels, the last
    may have fewer."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    numbers = dict.fromkeys(("h", "width", "oh", "ow", "c", "k"), I32)
    with b.kernel("convolution", **kinds, **numbers) as (x, w, y, h, wide, oh, ow, c, k):
        image = b.program_id(axis=2)
        pixel = b.arange(bm) + b.program_id(axis=0) * bm
        result = b.arange(bn) + b.program_id(axis=1) * bn
        i = pixel.sdiv(ow) * filter.stride - filter.padding[0]
        j = pixel.srem(ow) * filter.stride - filter.padding[1]
        first = (x + image * (c * h * wide)) + (i * wide + j)
        acc = b.var(b.full((bm, bn), 0.0, F32))
        at = _Taps(b, filter)
        with b.for_((c + (bk - 1)) // bk * filter.taps):
            r, s, tap, channels = (
                at.row.get(),
                at.column.get(),
                at.tap,
                b.arange(bk) + at.deep.get(),
            )
            in_bounds = (
                (pixel < oh * ow) & (i + r >= 0) & (i + r < h) & (j + s >= 0) & (j + s < wide)
            )
            place = first[:, None] + ((channels * (h * wide)) + (r * wide + s))[None, :]
            pixels = place.load(in_bounds[:, None] & (channels < c)[None, :], 0.0)
            w_mask = (channels < c)[:, None] & (result < k)[None, :]
            taps = (w + ((tap * c + channels)[:, None] * k + result[None, :])).load(w_mask, 0.0)
            acc.set(b.dot(pixels, taps, acc.get(), precision=precision))
            at.step(bk, c)
        inside = (pixel < oh * ow)[:, None] & (result < k)[None, :]
        place = ((image * k + result) * (oh * ow))[None, :] + pixel[:, None]
        (y + place).store(acc.get().to(element), inside)
    return b.module()


class _Taps:
    """The row and column of a filter and the first channel of a step, which a single loop
    enumerates."""

    def __init__(self, b: Builder, filter: Filter) -> None:
        self.b, self.filter = b, filter
        self.row, self.column, self.deep = (b.var(b.constant(I32, 0)) for _ in range(3))

    @property
    def tap(self) -> Any:
        return self.row * self.filter.columns + self.column

    def step(self, by: int, channels: Any) -> None:
        """Advance to the next channels, or else to the next column, or else to the next row."""
        b, deep, column = self.b, self.deep + by, self.column.get()
        over = deep >= channels
        column = b.select(over, column + 1, column)
        down = column >= self.filter.columns
        zero = b.constant(I32, 0)
        self.deep.set(b.select(over, zero, deep))
        self.column.set(b.select(down, zero, column))
        self.row.set(self.row + down.to(I32, signed=False))


def with_increment_table(
    bm: int, bn: int, bk: int, filter: Filter, element: Any = F16, *, last: bool = False,
    precision: Any = "ieee",
) -> Module:  # fmt: skip
    """`convolution(x, w, y, increments, sides, h, width, oh, ow, size, depth, k)` on the grid of
    `implicit_gemm`: y = x * w [depth, k], where element d of the reduction is `increments[d]`
    elements from the first and outside of the image if bits of `sides[d]` are
    (`tileir.testing.workloads.tables.Increments`, for steps of `bk`); an image of x has `size`
    elements. y is [n, k, oh, ow] or, with channels `last`, [n, oh, ow, k]."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    kinds |= {name: _table(I32) for name in ("increments", "sides")}
    numbers = dict.fromkeys(("h", "width", "oh", "ow", "size", "depth", "k"), I32)
    with b.kernel("convolution", **kinds, **numbers) as values:
        x, w, y, increments, sides, h, wide, oh, ow, size, depth, k = values
        image = b.program_id(axis=2)
        pixel = b.arange(bm) + b.program_id(axis=0) * bm
        result = b.arange(bn) + b.program_id(axis=1) * bn
        i = pixel.sdiv(ow) * filter.stride - filter.padding[0]
        j = pixel.srem(ow) * filter.stride - filter.padding[1]
        beyond = outside(b, i, h, filter.rows) | (outside(b, j, wide, filter.columns) << 16)
        beyond = b.where(pixel < oh * ow, beyond | ABSENT, -1)
        each = size.sdiv(h * wide) if last else 1
        first = (x + image * size) + (i * wide + j) * each
        acc = b.var(b.full((bm, bn), 0.0, F32))
        with b.for_(0, depth, bk) as at:
            inner = b.arange(bk) + at
            delta, side = ((t + inner).load() for t in (increments, sides))
            in_bounds = (beyond[:, None] & side[None, :]) == 0
            pixels = (first[:, None] + delta[None, :]).load(in_bounds, 0.0)
            place = inner[:, None] * k + result[None, :]
            taps = (w + place).load((inner < depth)[:, None] & (result < k)[None, :], 0.0)
            acc.set(b.dot(pixels, taps, acc.get(), precision=precision))
        inside = (pixel < oh * ow)[:, None] & (result < k)[None, :]
        (y + _place(image, pixel, result, oh * ow, k, last)).store(acc.get().to(element), inside)
    return b.module()


def outside(b: Builder, first: Any, extent: Any, count: int) -> Any:
    """A bit for each of `count` neighbours from `first` on: whether it is outside 0 to `extent` -
    1."""
    bits = b.full(first.shape, 0, I32)
    for n in range(count):
        at = first + n
        bits = bits | ((at < 0) | (at >= extent)).to(I32, signed=False) << n
    return bits


def _place(image: Any, pixel: Any, channel: Any, pixels: Any, channels: Any, last: bool) -> Any:
    """The offsets of outputs, pixels by channels."""
    if last:
        return (image * pixels + pixel)[:, None] * channels + channel[None, :]
    return ((image * channels + channel) * pixels)[None, :] + pixel[:, None]


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)


def _table(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True, readonly=True)
