"""Matmuls and softmax of block-sparse matrices.

A sparse matrix is its blocks, [count, size, size], in row-major order of blocks, and tables of i32
that `tileir.testing.workloads.tables.Blocks` makes. `sdd` computes the blocks of a matmul of dense
matrices, `dsd` and `dds` multiply a sparse matrix and a dense one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module


def sdd(size: int, bk: int, element: Any = F16) -> Module:
    """`sdd(x, y, z, rows, columns, m, n, k)` on a grid of the blocks: block i of z is rows
    `rows[i]` of blocks of x [m, k] times columns `columns[i]` of y [k, n]."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xyz"} | _tables("rows", "columns")
    with b.kernel("sdd", **kinds, m=I32, n=I32, k=I32) as (x, y, z, rows, columns, m, n, k):
        block, lane, depth = b.program_id(axis=0), b.arange(size), b.arange(bk)
        i = ((rows + block).load() * size + lane)[:, None]
        j = ((columns + block).load() * size + lane)[None, :]
        acc = b.var(b.full((size, size), 0.0, F32))
        with b.for_(0, k, bk) as at:
            inner = depth + at
            low = (i < m).broadcast_to(size, bk) & (inner < k)[None, :].broadcast_to(size, bk)
            high = (inner < k)[:, None].broadcast_to(bk, size) & (j < n).broadcast_to(bk, size)
            left = (x + (i * k + inner[None, :])).load(low, 0.0)
            right = (y + (inner[:, None] * n + j)).load(high, 0.0)
            acc.set(b.dot(left, right, acc.get()))
        place = (block * size + lane)[:, None] * size + lane[None, :]
        (z + place).store(acc.get().to(element))
    return b.module()


def sdd_rows(size: int, bk: int, group: int, element: Any = F16) -> Module:
    """The kernel `sdd(x, y, z, rows, firsts, lasts, columns, m, n, k)`.

    An instance computes blocks `firsts[i]` to `lasts[i]`, at most `group`, of row `rows[i]`, which
    share the rows of x. `columns` has the column of each block.
    """
    b = Builder()
    kinds = {name: _buffer(element) for name in "xyz"}
    kinds |= _tables("rows", "firsts", "lasts", "columns")
    with b.kernel("sdd", **kinds, m=I32, n=I32, k=I32) as values:
        x, y, z, rows, firsts, lasts, columns, m, n, k = values
        block_row, lane, depth = b.program_id(axis=0), b.arange(size), b.arange(bk)
        first, last = (firsts + block_row).load(), (lasts + block_row).load()
        blocks = [b.smin(first + i, last) for i in range(group)]
        i = ((rows + block_row).load() * size + lane)[:, None]
        columns_of_blocks = [((columns + block).load() * size + lane)[None, :] for block in blocks]
        accumulators = [b.var(b.full((size, size), 0.0, F32)) for _ in blocks]
        with b.for_(0, k, bk) as at:
            inner = depth + at
            low = (i < m).broadcast_to(size, bk) & (inner < k)[None, :].broadcast_to(size, bk)
            left = (x + (i * k + inner[None, :])).load(low, 0.0)
            for result, j in zip(accumulators, columns_of_blocks, strict=True):
                high = (inner < k)[:, None].broadcast_to(bk, size) & (j < n).broadcast_to(bk, size)
                right = (y + (inner[:, None] * n + j)).load(high, 0.0)
                result.set(b.dot(left, right, result.get()))
        for at, (block, result) in enumerate(zip(blocks, accumulators, strict=True)):
            place = (block * size + lane)[:, None] * size + lane[None, :]
            own = (first + at <= last).broadcast_to(size, size)
            (z + place).store(result.get().to(element), own)
    return b.module()


def dsd(size: int, bn: int, bk: int, element: Any = F16) -> Module:
    """The kernel `dsd(x, y, z, order, starts, columns, n)` on a grid of blocks of columns by rows
    of blocks: z = x y with y [.., n].

    Blocks `starts[i]` to `starts[i + 1]` - 1 of x are row i, and `columns` has the column of each.
    Rows are processed in the order `order`. A block is multiplied in steps of `bk`.
    """
    b = Builder()
    kinds = {name: _buffer(element) for name in "xyz"} | _tables("order", "starts", "columns")
    with b.kernel("dsd", **kinds, n=I32) as (x, y, z, order, starts, columns, n):
        row, lane, depth = (order + b.program_id(axis=1)).load(), b.arange(size), b.arange(bk)
        j = (b.arange(bn) + b.program_id(axis=0) * bn)[None, :]
        inside = (j < n).broadcast_to(bk, bn)

        def matmul(block: Any, step: Any, acc: Any) -> Any:
            left = (x + ((block * size + lane)[:, None] * size + (step + depth)[None, :])).load()
            first = (columns + block).load() * size + step
            right = (y + ((first + depth)[:, None] * n + j)).load(inside, 0.0)
            return b.dot(left, right, acc)

        acc = _over_blocks(b, starts, row, (size, bn), (size, bk), matmul)
        i = (row * size + lane)[:, None]
        (z + (i * n + j)).store(acc.to(element), (j < n).broadcast_to(size, bn))
    return b.module()


def dds(bm: int, size: int, bk: int, element: Any = F16) -> Module:
    """`dds(x, y, z, order, starts, blocks, rows, m, k, n)` on a grid of blocks of rows by columns
    of blocks: z [m, n] = x [m, k] y; `starts[j]` to `starts[j + 1]` - 1 are the entries of column j
    of y; `blocks` contains the block of each entry, `rows` its row. Columns are processed in the
    order `order`."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xyz"}
    kinds |= _tables("order", "starts", "blocks", "rows")
    with b.kernel("dds", **kinds, m=I32, k=I32, n=I32) as values:
        x, y, z, order, starts, blocks, rows, m, k, n = values
        column, lane, depth = (order + b.program_id(axis=1)).load(), b.arange(size), b.arange(bk)
        i = (b.arange(bm) + b.program_id(axis=0) * bm)[:, None]
        inside = (i < m).broadcast_to(bm, bk)

        def matmul(entry: Any, step: Any, acc: Any) -> Any:
            first = (rows + entry).load() * size + step
            left = (x + (i * k + (first + depth)[None, :])).load(inside, 0.0)
            block = (blocks + entry).load() * size + step
            right = (y + ((block + depth)[:, None] * size + lane[None, :])).load()
            return b.dot(left, right, acc)

        acc = _over_blocks(b, starts, column, (bm, size), (size, bk), matmul)
        j = (column * size + lane)[None, :]
        (z + (i * n + j)).store(acc.to(element), (i < m).broadcast_to(bm, size))
    return b.module()


def _over_blocks(
    b: Builder, starts: Any, index: Any, shape: tuple[int, int], steps: tuple[int, int],
    matmul: Callable[[Any, Any, Any], Any],
) -> Any:  # fmt: skip
    """The accumulator, of `shape`, of `matmul(entry, step, accumulator)` over the entries of row or
    column `index`, each in steps of K; one loop for both."""
    size, bk = steps
    each = size // bk
    result = b.var(b.full(shape, 0.0, F32))
    first, last = (starts + index).load(), (starts + (index + 1)).load()
    with b.for_(0, (last - first) * each) as at:
        result.set(matmul(first + at // each, at % each * bk, result.get()))
    return result.get()


def softmax(size: int, most: int, rows: int, element: Any = F16) -> Module:
    """`softmax(x, y, starts, scale)` on a grid of parts of blocks, `rows` rows each, by rows of at
    most `most` blocks: y = softmax of scale x along the rows of the whole matrix, without the
    elements that are in no block."""
    b = Builder()
    kinds = {name: _buffer(element) for name in "xy"} | _tables("starts")
    with b.kernel("softmax", **kinds, scale=F32) as (x, y, starts, scale):
        row, part = b.program_id(axis=1), b.program_id(axis=0)
        first, last = (starts + row).load(), (starts + (row + 1)).load()
        block, lane = b.arange(most)[None, :, None], b.arange(size)[None, None, :]
        inner = (b.arange(rows) + part * rows)[:, None, None]
        place = ((block + first) * size + inner) * size + lane
        inside = (block < last - first).broadcast_to(rows, most, size)
        value = (x + place).load(inside, 0.0).to(F32) * (scale * 1.4426950408889634)
        value = b.where(inside, value, -1e30).reshape(rows, most * size)
        weight = (value - value.reduce(1, "fmaxnum")[:, None]).exp2(fast="approx")
        result = weight * (1.0 / weight.sum(axis=1))[:, None]
        (y + place).store(result.reshape(rows, most, size).to(element), inside)
    return b.module()


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)


def _tables(*names: str) -> dict[str, Any]:
    return {name: arg(pointer(I32), aligned=4, noalias=True, readonly=True) for name in names}
