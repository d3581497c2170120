"""Fused softmax written with the builder: `softmax(1024)`. One program instance, one row."""

from __future__ import annotations

from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.ir import Module


def softmax(columns: int) -> Module:
    """Kernel `softmax` over x, y: f32 rows of `n` ≤ `columns` elements, `stride` elements apart.

    Grid: (number of rows,).
    """
    b = Builder()
    x, y = arg(pointer(F32), aligned=16, readonly=True), arg(pointer(F32), aligned=16)
    with b.kernel("softmax", x=x, y=y, stride=I32, n=I32) as (x, y, stride, n):
        column = b.arange(columns)
        place = b.program_id(axis=0) * stride + column
        row = (x + place).load(column < n, float("-inf"))
        weight = (row - row.max()).exp()
        (y + place).store(weight / weight.sum(), column < n)
    return b.module()
