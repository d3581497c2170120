"""The kernels of `benchmarks/interpreter.py` in Triton, with the same tiles, grids and
arguments."""

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def softmax_kernel(x, y, stride, n, WIDTH: tl.constexpr):  # noqa: ANN001, ANN201
    """One row per program."""
    column = tl.arange(0, WIDTH)
    place = tl.program_id(0) * stride + column
    row = tl.load(x + place, mask=column < n, other=float("-inf"))
    weight = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + place, weight / tl.sum(weight, axis=0), mask=column < n)


@triton.jit
def matmul_kernel(  # noqa: ANN201
    x, y, z, m, n, k,  # noqa: ANN001
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of the result per program, programs in groups that share columns."""
    tiles_n, tiles_m = tl.cdiv(n, COLUMNS), tl.cdiv(m, ROWS)
    number = tl.program_id(0)
    first = number // (tiles_n * GROUP) * GROUP
    height = min(tiles_m - first, GROUP)
    i = (first + number % height) * ROWS + tl.arange(0, ROWS)
    j = number % (tiles_n * GROUP) // height * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, k, DEPTH):
        along = start + step
        left_in = (i[:, None] < m) & (along[None, :] < k)
        left = tl.load(x + i[:, None] * k + along[None, :], mask=left_in, other=0.0)
        right_in = (along[:, None] < k) & (j[None, :] < n)
        right = tl.load(y + along[:, None] * n + j[None, :], mask=right_in, other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(z + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))
