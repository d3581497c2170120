"""Kernels that tests and benchmarks share: ordinary programs of pointers, masks, loops and dots."""

from __future__ import annotations

from typing import Any

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.testing.attention import attention

__all__ = ["GROUP", "attention", "convolution", "matmul"]

GROUP = 8
"""Rows of tiles in a group that shares the operands in the L2 cache."""


def matmul(
    bm: int, bn: int, bk: int, operand: Any = F16, total: Any = F32, result: Any = F16, *,
    precision: Any = "ieee", transposed: bool = False, max_imprecise: int = 0, flat: bool = False,
) -> Module:  # fmt: skip
    """The kernel `matmul(x, y, z, m, n, k)`: z [m, n] = x [m, k] y, all row-major. y is [k, n] or,
    with `transposed`, [n, k]. An instance computes a tile of `bm` x `bn` in steps of `bk`.
    `operand`, `total` and `result` are the element types of x and y, of the accumulator and of z.
    Tiles are numbered in groups of `GROUP` rows. With `flat`, the grid has rows and columns of
    tiles instead, which needs no division."""
    b = Builder()
    zero = 0 if total.is_integer else 0.0
    kinds = {"x": _buffer(operand), "y": _buffer(operand), "z": _buffer(result)}
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, y, z, m, n, k):
        if flat:
            i, j = b.program_id(axis=0), b.program_id(axis=1)
        else:
            i, j = _tile(b, (m + (bm - 1)) // bm, (n + (bn - 1)) // bn)
        rows, columns = (b.arange(bm) + i * bm)[:, None], (b.arange(bn) + j * bn)[None, :]
        depth = b.arange(bk)
        from_y = columns * k + depth[:, None] if transposed else depth[:, None] * n + columns
        left, right = b.var(x + (rows * k + depth[None, :])), b.var(y + from_y)
        acc = b.var(b.full((bm, bn), zero, total))
        with b.for_(0, k, bk) as at:
            inside = depth < k - at
            low = (rows < m).broadcast_to(bm, bk) & inside[None, :].broadcast_to(bm, bk)
            high = (columns < n).broadcast_to(bk, bn) & inside[:, None].broadcast_to(bk, bn)
            tiles = left.get().load(low, zero), right.get().load(high, zero)
            more = b.dot(*tiles, acc.get(), precision=precision, max_imprecise=max_imprecise)
            acc.set(more)
            left.set(left.get() + bk)
            right.set(right.get() + (bk if transposed else n * bk))
        mask = (rows < m).broadcast_to(bm, bn) & (columns < n).broadcast_to(bm, bn)
        output = acc.get()
        (z + (rows * n + columns)).store(output if result is total else output.to(result), mask)
    return b.module()


def _tile(b: Builder, tiles_m: Any, tiles_n: Any) -> tuple[Any, Any]:
    """The row and the column of this instance's tile."""
    pid = b.program_id(axis=0)
    first = pid // (tiles_n * GROUP) * GROUP
    size = b.smax(b.smin(tiles_m - first, GROUP), 1)
    within = pid % (tiles_n * GROUP)
    return first + within % size, within // size


def convolution(
    height: int, width: int, bn: int, bk: int, element: Any = F16, *, filters: int = 3
) -> Module:
    """`convolution(x, w, y, h, width, c, k)` on a grid of tiles, blocks of k and images: y [n, h,
    width, k] = x [n, h, width, c] * w [filters, filters, c, k], with zeros around; tiles of
    `height` x `width` pixels by `bn` channels, in steps of `bk` channels."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xwy"}
    with b.kernel("convolution", **kinds, h=I32, width=I32, c=I32, k=I32) as values:
        x, w, y, high, wide, c, k = values
        tiles_per_row = (wide + (width - 1)) // width
        pid, image = b.program_id(axis=0), b.program_id(axis=2)
        rows = b.arange(height) + pid // tiles_per_row * height
        columns = b.arange(width) + pid % tiles_per_row * width
        outputs = b.arange(bn) + b.program_id(axis=1) * bn
        channels = b.arange(bk)
        acc = b.var(b.full((height * width, bn), 0.0, F32))
        block = (height, width, bk)
        with b.for_(0, filters) as r, b.for_(0, filters) as s, b.for_(0, c, bk) as at:
            i = (rows + r - filters // 2)[:, None, None].broadcast_to(*block)
            j = (columns + s - filters // 2)[None, :, None].broadcast_to(*block)
            deep = (channels + at)[None, None, :].broadcast_to(*block)
            inside = (i >= 0) & (i < high) & (j >= 0) & (j < wide) & (deep < c)
            pixels = (x + (((image * high + i) * wide + j) * c + deep)).load(inside, 0.0)
            left = ((channels + at) < c)[:, None].broadcast_to(bk, bn)
            w_mask = left & (outputs < k)[None, :].broadcast_to(bk, bn)
            place = ((r * filters + s) * c + (channels + at))[:, None] * k + outputs[None, :]
            taps = (w + place).load(w_mask, 0.0)
            acc.set(b.dot(pixels.reshape(height * width, bk), taps, acc.get()))
        shape = (height, width, bn)
        i, j = (t.broadcast_to(*shape) for t in (rows[:, None, None], columns[None, :, None]))
        o = outputs[None, None, :].broadcast_to(*shape)
        inside = (i < high) & (j < wide) & (o < k)
        result = acc.get().to(element).reshape(*shape)
        (y + (((image * high + i) * wide + j) * k + o)).store(result, inside)
    return b.module()


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)
