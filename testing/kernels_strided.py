"""A matmul with arbitrary strides, which are parameters."""

from __future__ import annotations

from typing import Any

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module


def strided_matmul(bm: int, bn: int, bk: int, operand: Any = F16, result: Any = F16) -> Module:
    """`strided_matmul(x, y, z, m, n, k, ...)`: z [m, n] = x [m, k] y [k, n] on a grid of tiles of
    `bm` x `bn`. The further parameters are the row and column strides of x, y and z, in elements.
    Strides of x and y may be 0 or negative."""
    b = Builder()
    names = ("m", "n", "k", "xm", "xk", "yk", "yn", "zm", "zn")
    kinds = {name: arg(pointer(operand)) for name in "xy"} | {"z": arg(pointer(result))}
    with b.kernel("strided_matmul", **kinds, **dict.fromkeys(names, I32)) as values:
        x, y, z, m, n, k, xm, xk, yk, yn, zm, zn = values
        pid, tiles_n = b.program_id(axis=0), (n + (bn - 1)) // bn
        rows = (b.arange(bm) + pid // tiles_n * bm)[:, None]
        columns = (b.arange(bn) + pid % tiles_n * bn)[None, :]
        acc = b.var(b.full((bm, bn), 0.0, F32))
        with b.for_(0, k, bk) as at:
            depth = b.arange(bk) + at
            low = (rows < m).broadcast_to(bm, bk) & (depth < k)[None, :].broadcast_to(bm, bk)
            high = (columns < n).broadcast_to(bk, bn) & (depth < k)[:, None].broadcast_to(bk, bn)
            left = (x + (rows * xm + depth[None, :] * xk)).load(low, 0.0)
            right = (y + (depth[:, None] * yk + columns * yn)).load(high, 0.0)
            acc.set(b.dot(left, right, acc.get()))
        mask = (rows < m).broadcast_to(bm, bn) & (columns < n).broadcast_to(bm, bn)
        (z + (rows * zm + columns * zn)).store(acc.get().to(result), mask)
    return b.module()
