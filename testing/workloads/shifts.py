"""Convolutions of 1 x 1 over channels that are each shifted by their own distance (Wu et al. 2018;
Tillet et al. 2019, section 6.2.2 and Listing 8)."""

from __future__ import annotations

from typing import Any

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.testing.workloads.convolution import outside
from tileir.testing.workloads.tables import ABSENT


def shift_convolution(bm: int, bn: int, bk: int, element: Any = F16) -> Module:
    """`shift(x, w, y, deltas, sides, h, width, c, k)` on a grid of blocks of pixels, blocks of k
    and images: y [n, k, h, width] = Σ w [c, k] x [n, c, h + dy[c], width + dx[c]], zeros around;
    with dy and dx in -1 to 1. `deltas[c]` is (c h + dy[c]) width + dx[c], bits of `sides[c]` are
    the sides at which a pixel has no such neighbour (`tileir.testing.workloads.tables.shifts`, for
    steps of `bk`)."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    kinds |= {name: arg(pointer(I32), aligned=16, noalias=True) for name in ("deltas", "sides")}
    numbers = dict.fromkeys(("h", "width", "c", "k"), I32)
    with b.kernel("shift", **kinds, **numbers) as (x, w, y, deltas, sides, h, wide, c, k):
        image, area = b.program_id(axis=2), h * wide
        pixel = b.arange(bm) + b.program_id(axis=0) * bm
        result = b.arange(bn) + b.program_id(axis=1) * bn
        beyond = outside(b, pixel.sdiv(wide) - 1, h, 3)
        beyond = beyond | (outside(b, pixel.srem(wide) - 1, wide, 3) << 16)
        beyond = b.where(pixel < area, beyond | ABSENT, -1)
        first = (x + image * (c * area)) + pixel
        acc = b.var(b.full((bm, bn), 0.0, F32))
        with b.for_(0, c, bk) as at:
            channel = b.arange(bk) + at
            delta, side = ((t + channel).load() for t in (deltas, sides))
            in_bounds = (beyond[:, None] & side[None, :]) == 0
            pixels = (first[:, None] + delta[None, :]).load(in_bounds, 0.0)
            place = channel[:, None] * k + result[None, :]
            inside = (channel < c)[:, None] & (result < k)[None, :]
            acc.set(b.dot(pixels, (w + place).load(inside, 0.0), acc.get()))
        place = ((image * k + result) * area)[None, :] + pixel[:, None]
        inside = (pixel < area)[:, None] & (result < k)[None, :]
        (y + place).store(acc.get().to(element), inside)
    return b.module()


def uniform_shift_convolution(
    height: int, width: int, bn: int, bk: int, element: Any = F16
) -> Module:
    """`shift(x, w, y, rows, columns, h, width, c, k)` on a grid of tiles, blocks of k and images:
    as `shift_convolution`, but with channels last: y [n, h, width, k] and x [n, h, width, c].
    Groups of `bk` channels share a shift: `rows[g]` and `columns[g]` are those of group g."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    kinds |= {name: arg(pointer(I32), aligned=4, noalias=True) for name in ("rows", "columns")}
    numbers = dict.fromkeys(("h", "width", "c", "k"), I32)
    with b.kernel("shift", **kinds, **numbers) as (x, w, y, rows, columns, h, wide, c, k):
        tiles_per_row = (wide + (width - 1)) // width
        pid, image = b.program_id(axis=0), b.program_id(axis=2)
        i = (b.arange(height) + pid // tiles_per_row * height)[:, None, None]
        j = (b.arange(width) + pid % tiles_per_row * width)[None, :, None]
        outputs = b.arange(bn) + b.program_id(axis=1) * bn
        acc = b.var(b.full((height * width, bn), 0.0, F32))
        with b.for_(0, c, bk) as at:
            down, right = ((t + at // bk).load() for t in (rows, columns))
            channel = b.arange(bk) + at
            deep, u, v = channel[None, None, :], i + down, j + right
            inside = (u >= 0) & (u < h) & (v >= 0) & (v < wide) & (deep < c)
            pixels = (x + (((image * h + u) * wide + v) * c + deep)).load(inside, 0.0)
            w_mask = (channel < c)[:, None] & (outputs < k)[None, :]
            weights = (w + (channel[:, None] * k + outputs[None, :])).load(w_mask, 0.0)
            acc.set(b.dot(pixels.reshape(height * width, bk), weights, acc.get()))
        o = outputs[None, None, :]
        result = acc.get().to(element).reshape(height, width, bn)
        place = ((image * h + i) * wide + j) * k + o
        (y + place).store(result, (i < h) & (j < wide) & (o < k))
    return b.module()


def shift(width: int, element: Any = F16) -> Module:
    """`shift(x, y, rows, columns, h, wide, c)` on a grid of blocks of `width` pixels, channels and
    images: y [n, c, h, wide] = x [n, c, h + rows[c], wide + columns[c]], zeros around. An unfused
    convolution runs this kernel first."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xy"}
    kinds |= {name: arg(pointer(I32), aligned=4, noalias=True) for name in ("rows", "columns")}
    with b.kernel("shift", **kinds, h=I32, wide=I32, c=I32) as (x, y, rows, columns, h, wide, c):
        pixel, channel = b.arange(width) + b.program_id(axis=0) * width, b.program_id(axis=1)
        down, right = ((t + channel).load() for t in (rows, columns))
        i, j = pixel.sdiv(wide) + down, pixel.srem(wide) + right
        inside = (pixel < h * wide) & (i >= 0) & (i < h) & (j >= 0) & (j < wide)
        plane = (b.program_id(axis=2) * c + channel) * (h * wide)
        value = (x + (plane + i * wide + j)).load(inside, 0.0)
        (y + (plane + pixel)).store(value, pixel < h * wide)
    return b.module()


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)
