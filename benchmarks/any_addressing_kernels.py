"""Kernels whose operands no tensor map describes, in Triton: run by Triton, or read by tileir."""
# ruff: noqa: ANN001, ANN201

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, sam, sak, sbk, sbn,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, TF32: tl.constexpr,
):  # fmt: skip
    pid, down, right = tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N)
    group = pid // (G * right)
    height = min(down - group * G, G)
    i = (group * G + (pid % (G * right)) % height) * M + tl.arange(0, M)
    j = ((pid % (G * right)) // height) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    left = a + ((i % m)[:, None] * sam + depth[None, :] * sak)
    other = b + (depth[:, None] * sbk + (j % n)[None, :] * sbn)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=depth[None, :] < k - start * K, other=0.0)
        y = tl.load(other, mask=depth[:, None] < k - start * K, other=0.0)
        acc = tl.dot(
            x, y, acc, input_precision="tf32" if TF32 else "ieee", max_num_imprecise_acc=1 << 30
        )
        left += K * sak
        other += K * sbk
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c + i[:, None] * n + j[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def experts_kernel(
    a, b, c, order, expert_of, weights, n, k, tokens,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TOP: tl.constexpr,
):  # fmt: skip
    """Row r of a block of `order` is token order[r] // TOP times the matrix of the block's expert,
    weighted."""
    right = tl.cdiv(n, N)
    block, column = tl.program_id(0) // right, tl.program_id(0) % right
    slots = tl.load(order + block * M + tl.arange(0, M))
    mask = slots < tokens
    expert = tl.load(expert_of + block).to(tl.int64)
    j, depth = (column * N + tl.arange(0, N)) % n, tl.arange(0, K)
    left = a + (slots[:, None] // TOP * k + depth[None, :])
    other = b + expert * n * k + (depth[:, None] + j[None, :] * k)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=mask[:, None] & (depth[None, :] < k - start * K), other=0.0)
        y = tl.load(other, mask=depth[:, None] < k - start * K, other=0.0)
        acc = tl.dot(x, y, acc)
        left += K
        other += K
    acc *= tl.load(weights + slots, mask=mask, other=0.0)[:, None]
    to = column * N + tl.arange(0, N)
    inside = mask[:, None] & (to[None, :] < n)
    tl.store(c + slots[:, None] * n + to[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def paged_kernel(
    q, kc, vc, table, lengths, out, pages, scale,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """M queries of a sequence share the keys of a head; those are in pages, which a table names."""
    seq, head = tl.program_id(0), tl.program_id(1)
    i, d, lane = tl.arange(0, M), tl.arange(0, D), tl.arange(0, N)
    base = (seq * H + head) * M * D
    queries = tl.load(q + base + i[:, None] * D + d[None, :])
    length = tl.load(lengths + seq)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, length, N):
        j = start + lane
        page = tl.load(table + seq * pages + j // PAGE, mask=j < length, other=0)
        at = ((page * PAGE + j % PAGE) * H + head) * D
        keys = tl.load(kc + at[None, :] + d[:, None], mask=(j < length)[None, :], other=0.0)
        values = tl.load(vc + at[:, None] + d[None, :], mask=(j < length)[:, None], other=0.0)
        s = tl.dot(queries, keys) * scale
        s = tl.where((j < length)[None, :], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, less = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        acc = tl.dot(p.to(values.dtype), values, acc * less[:, None])
        total, top = total * less + tl.sum(p, 1), higher
    acc = acc / total[:, None]
    tl.store(out + base + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty))


@triton.jit
def attention_kernel(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1) * n * D
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    queries = tl.load(q + head + i[:, None] * D + d[None, :])
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        j = start + tl.arange(0, N)
        s = tl.dot(queries, tl.load(k + head + j[None, :] * D + d[:, None])) * scale
        higher = tl.maximum(top, tl.max(s, 1))
        p, less = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        values = tl.load(v + head + j[:, None] * D + d[None, :])
        acc = tl.dot(p.to(values.dtype), values, acc * less[:, None])
        total, top = total * less + tl.sum(p, 1), higher
    acc = acc / total[:, None]
    tl.store(out + head + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty))
