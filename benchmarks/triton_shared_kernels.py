"""Kernels for stock Triton that several benchmarks launch. They need only Triton."""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr
):
    pid, down, right = tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N)
    group = pid // (G * right)
    height = min(down - group * G, G)
    i = (group * G + (pid % (G * right)) % height) * M + tl.arange(0, M)
    j = ((pid % (G * right)) // height) * N + tl.arange(0, N)
    along = tl.arange(0, K)
    left, other = a + (i % m)[:, None] * k + along[None], b + along[:, None] * n + (j % n)[None]
    acc = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=along[None] < k - start * K, other=0.0)
        y = tl.load(other, mask=along[:, None] < k - start * K, other=0.0)
        acc = tl.dot(x, y, acc)
        left += K
        other += K * n
    inside = (i[:, None] < m) & (j[None] < n)
    tl.store(c + i[:, None] * n + j[None], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention_kernel(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1) * n * D
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    queries = tl.load(q + head + i[:, None] * D + d[None])
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, (row + 1) * M, N):
        j = start + tl.arange(0, N)
        s = tl.dot(queries, tl.load(k + head + j[None] * D + d[:, None])) * scale
        s = tl.where(i[:, None] >= j[None], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, rescale = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        values = tl.load(v + head + j[:, None] * D + d[None])
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        total, top = total * rescale + tl.sum(p, 1), higher
    tl.store(out + head + i[:, None] * D + d[None], (acc / total[:, None]).to(out.dtype.element_ty))
