"""Matmuls as Triton's tutorials and users write them: strides, groups of blocks, epilogues,
batches, split-K, persistent programs."""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def block_of(pid, m, n, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr):
    """The row and the column of a block: G rows of blocks, column by column."""
    down, right = tl.cdiv(m, M), tl.cdiv(n, N)
    group = pid // (G * right)
    height = min(down - group * G, G)
    within = pid % (G * right)
    return group * G + within % height, within // height


@triton.jit
def matmul(
    a, b, c, bias, m, n, k, a_row, a_column, b_row, b_column, c_row, c_column,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    along = tl.arange(0, K)
    left = a + (i[:, None] * a_row + along[None, :] * a_column)
    right = b + (along[:, None] * b_row + j[None, :] * b_column)
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    total = tl.zeros((M, N), kind)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=along[None, :] < k - start * K, other=0.0)
        y = tl.load(right, mask=along[:, None] < k - start * K, other=0.0)
        total = tl.dot(x, y, total, out_dtype=kind)
        left += K * a_column
        right += K * b_row
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    if EPILOGUE == "relu":
        total += tl.load(bias + j, mask=j < n, other=0.0).to(tl.float32)[None, :]
        total = tl.maximum(total, 0.0)
    if EPILOGUE == "residual":
        inside = (i[:, None] < m) & (j[None, :] < n)
        more = tl.load(bias + i[:, None] * c_row + j[None, :], mask=inside, other=0.0)
        total = total * 0.5 + more.to(tl.float32)
    at = c + i[:, None] * c_row + j[None, :] * c_column
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def matmul_of_batches(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    a, b, c = a + batch * m * k, b + batch * k * n, c + batch * m * n
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    along = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        kk = start + along
        x = tl.load(a + i[:, None] * k + kk[None, :], (i[:, None] < m) & (kk[None, :] < k), 0.0)
        y = tl.load(b + kk[:, None] * n + j[None, :], (kk[:, None] < k) & (j[None, :] < n), 0.0)
        total += tl.dot(x, y)
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def split_k(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, S: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    along = tl.program_id(2) * K + tl.arange(0, K)
    left = a + (i % m)[:, None] * k + along[None, :]
    right = b + along[:, None] * n + (j % n)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K * S)):
        keep = along < k - start * K * S
        total = tl.dot(tl.load(left, keep[None, :], 0.0), tl.load(right, keep[:, None], 0.0), total)
        left += K * S
        right += K * S * n
    at = c + i[:, None] * n + j[None, :]
    tl.atomic_add(at, total, mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def persistent(
    a, b, c, m, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    along = tl.arange(0, K)
    for pid in range(tl.program_id(0), tl.cdiv(m, M) * tl.cdiv(n, N), PROGRAMS):
        row, column = block_of(pid, m, n, M, N, G)
        i = row * M + tl.arange(0, M)
        j = column * N + tl.arange(0, N)
        total = tl.zeros((M, N), tl.float32)
        for start in range(tl.cdiv(k, K)):
            kk = start * K + along
            x = tl.load(a + (i % m)[:, None] * k + kk[None, :], kk[None, :] < k, 0.0)
            y = tl.load(b + kk[:, None] * n + (j % n)[None, :], kk[:, None] < k, 0.0)
            total = tl.dot(x, y, total)
        at = c + i[:, None] * n + j[None, :]
        tl.store(at, total.to(c.dtype.element_ty), (i[:, None] < m) & (j[None, :] < n))
