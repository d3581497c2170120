"""Attention as users of Triton write it: causal and windows, groups of heads, biases, sequences of
several lengths, pages of keys, descriptors, f8 and integers, gradients."""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def forward(
    q, k, v, out, lse, bias, slopes, heads, n, scale, window, cap,
    GROUP: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, BIAS: tl.constexpr, SLOPES: tl.constexpr,
    CAP: tl.constexpr,
):  # fmt: skip
    """(batch, heads, n, D), with GROUP heads of Q for one of K; WIDE is D or a power of two above.
    `scale` is for exp2."""
    row, head = tl.program_id(0), tl.program_id(1)
    q += head.to(tl.int64) * n * D
    out += head.to(tl.int64) * n * D
    k += (head // GROUP).to(tl.int64) * n * D
    v += (head // GROUP).to(tl.int64) * n * D
    i, d = row * M + tl.arange(0, M), tl.arange(0, WIDE)
    queries = tl.load(q + i[:, None] * D + d[None, :], (i < n)[:, None] & (d < D)[None, :], 0.0)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, WIDE), tl.float32)
    begin, end = 0, n
    if CAUSAL:
        end = min(n, (row + 1) * M)
    if WINDOW:
        begin = max(0, (row * M - window) // N * N)
    for start in range(begin, end, N):
        start = tl.multiple_of(start, N)
        j = start + tl.arange(0, N)
        keys = tl.load(k + j[None, :] * D + d[:, None], (j < n)[None, :] & (d < D)[:, None], 0.0)
        s = tl.dot(queries, keys) * scale
        if CAP:
            s = cap * (2 * tl.sigmoid(2 * s / cap) - 1)
        if BIAS:
            at = bias + head.to(tl.int64) * n * n + i[:, None] * n + j[None, :]
            inside = (i < n)[:, None] & (j < n)[None, :]
            s += tl.load(at, inside, 0.0).to(tl.float32) * 1.4426950408889634
        if SLOPES:
            s += tl.load(slopes + head) * (j[None, :] - i[:, None])
        keep = (j < n)[None, :]
        if CAUSAL:
            keep = keep & (i[:, None] >= j[None, :])
        if WINDOW:
            keep = keep & (i[:, None] - j[None, :] <= window)
        s = tl.where(keep, s, -1.0e30)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        values = tl.load(v + j[:, None] * D + d[None, :], (j < n)[:, None] & (d < D)[None, :], 0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        top = higher
    acc = acc / total[:, None]
    inside = (i < n)[:, None] & (d < D)[None, :]
    tl.store(out + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), inside)
    tl.store(lse + head * n + i, top + tl.log2(total), i < n)


@triton.jit
def blocks_of_keys(
    acc, total, top, queries, k, v, i, begin, end, scale,
    N: tl.constexpr, D: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, D)
    for start in range(begin, end, N):
        start = tl.multiple_of(start, N)
        j = start + tl.arange(0, N)
        keys = tl.load(k + j[None, :] * D + d[:, None])
        s = tl.dot(queries, keys)
        if MASKED:
            s = s * scale + tl.where(i[:, None] >= j[None, :], 0, -1.0e6)
            higher = tl.maximum(top, tl.max(s, 1))
            s -= higher[:, None]
        else:
            higher = tl.maximum(top, tl.max(s, 1) * scale)
            s = s * scale - higher[:, None]
        p = tl.exp2(s)
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        values = tl.load(v + j[:, None] * D + d[None, :])
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        top = higher
    return acc, total, top


@triton.jit
def forward_in_stages(
    q, k, v, out, lse, n, scale,
    GROUP: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Causal: the blocks without a mask in one loop, those on the diagonal in another."""
    row, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    q, out = q + head * n * D, out + head * n * D
    k, v = k + head // GROUP * n * D, v + head // GROUP * n * D
    queries = tl.load(q + i[:, None] * D + d[None, :])
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.full((M,), 1.0, tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    acc, total, top = blocks_of_keys(
        acc, total, top, queries, k, v, i, 0, row * M, scale, N, D, False
    )
    acc, total, top = blocks_of_keys(
        acc, total, top, queries, k, v, i, row * M, (row + 1) * M, scale, N, D, True
    )
    acc = acc / total[:, None]
    tl.store(out + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty))
    tl.store(lse + head * n + i, top + tl.log2(total))


@triton.jit
def forward_of_block_pointers(
    q, k, v, out, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    row, head = tl.program_id(0), tl.program_id(1).to(tl.int64) * n * D
    left = tl.make_block_ptr(q + head, (n, D), (D, 1), (row * M, 0), (M, D), (1, 0))
    keys = tl.make_block_ptr(k + head, (D, n), (1, D), (0, 0), (D, N), (0, 1))
    values = tl.make_block_ptr(v + head, (n, D), (D, 1), (0, 0), (N, D), (1, 0))
    queries = (tl.load(left) * scale).to(q.dtype.element_ty)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for _ in range(0, n, N):
        s = tl.dot(queries, tl.load(keys))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(values), acc * rescale[:, None])
        top = higher
        keys = tl.advance(keys, (0, N))
        values = tl.advance(values, (N, 0))
    at = tl.make_block_ptr(out + head, (n, D), (D, 1), (row * M, 0), (M, D), (1, 0))
    tl.store(at, (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def forward_of_descriptors(
    q, k, v, out, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    CAUSAL: tl.constexpr, F8: tl.constexpr,
):  # fmt: skip
    """The host has made the descriptors of (rows, D); where F8, V is (D, rows)."""
    row, first = tl.program_id(0), tl.program_id(1) * n
    queries = q.load([first + row * M, 0])
    i = row * M + tl.arange(0, M)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    end = (row + 1) * M if CAUSAL else n
    for start in range(0, end, N):
        s = tl.dot(queries, k.load([first + start, 0]).T) * scale
        if CAUSAL:
            s = tl.where(i[:, None] >= (start + tl.arange(0, N))[None, :], s, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        if F8:
            values = v.load([tl.program_id(1) * D, start]).T
        else:
            values = v.load([first + start, 0])
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        top = higher
    out.store([first + row * M, 0], (acc / total[:, None]).to(out.dtype))


@triton.jit
def forward_of_f8(q, k, v, out, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """V is transposed in memory: (heads, D, n)."""
    row, head = tl.program_id(0), tl.program_id(1).to(tl.int64) * n * D
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    queries = tl.load(q + head + i[:, None] * D + d[None, :])
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        j = start + tl.arange(0, N)
        s = tl.dot(queries, tl.load(k + head + j[None, :] * D + d[:, None])) * scale
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        values = tl.load(v + head + d[None, :] * n + j[:, None])
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        top = higher
    at = out + head + i[:, None] * D + d[None, :]
    tl.store(at, (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def forward_of_int8(
    q,
    k,
    v,
    out,
    q_scale,
    k_scale,
    n,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """Q and K are integers with a scale for M queries and N keys, V is of 16 bits."""
    row, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    base, blocks = head * n * D, tl.cdiv(n, N)
    queries = tl.load(q + base + i[:, None] * D + d[None, :], (i < n)[:, None], 0)
    scale = tl.load(q_scale + head * tl.cdiv(n, M) + row)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.full((M,), 1.0, tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    keys = k + base + tl.arange(0, N)[None, :] * D + d[:, None]
    values = v + base + tl.arange(0, N)[:, None] * D + d[None, :]
    of_k = k_scale + head * blocks
    for start in range(0, n, N):
        inside = tl.arange(0, N) < n - start
        x = tl.load(keys, inside[None, :], 0)
        s = tl.dot(queries, x).to(tl.float32) * (scale * tl.load(of_k))
        s = tl.where(inside[None, :], s, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        acc = acc * rescale[:, None]
        y = tl.load(values, inside[:, None], 0.0)
        acc += tl.dot(p.to(tl.float16), y, out_dtype=tl.float32)
        top = higher
        keys += N * D
        values += N * D
        of_k += 1
    at = out + base + i[:, None] * D + d[None, :]
    tl.store(at, (acc / total[:, None]).to(out.dtype.element_ty), (i < n)[:, None])


@triton.jit
def forward_of_lengths(
    q, k, v, out, begins, heads, scale,
    GROUP: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Sequences of several lengths, one after the other: (tokens, heads, D). Causal."""
    row, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(begins + sequence)
    n = tl.load(begins + sequence + 1) - begin
    if row * M >= n:
        return
    i, d = row * M + tl.arange(0, M), tl.arange(0, D)
    stride, narrow = heads * D, heads // GROUP * D
    q += begin.to(tl.int64) * stride + head * D
    out += begin.to(tl.int64) * stride + head * D
    k += begin.to(tl.int64) * narrow + head // GROUP * D
    v += begin.to(tl.int64) * narrow + head // GROUP * D
    queries = tl.load(q + i[:, None] * stride + d[None, :], (i < n)[:, None], 0.0)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, min(n, (row + 1) * M), N):
        j = start + tl.arange(0, N)
        keys = tl.load(k + j[None, :] * narrow + d[:, None], (j < n)[None, :], 0.0)
        s = tl.dot(queries, keys) * scale
        s = tl.where((j < n)[None, :] & (i[:, None] >= j[None, :]), s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, rescale = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        values = tl.load(v + j[:, None] * narrow + d[None, :], (j < n)[:, None], 0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * rescale[:, None])
        top = higher
    at = out + i[:, None] * stride + d[None, :]
    tl.store(at, (acc / total[:, None]).to(out.dtype.element_ty), (i < n)[:, None])


@triton.jit
def decode_pages(
    q, k, v, partial, levels, tables, lengths, scale, heads, most,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, N: tl.constexpr,
    PAGE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One query of each sequence: (batch, heads, D). K and V are (pages, PAGE, heads of K, D), and
    a sequence has a table of `most` pages. ROWS are GROUP heads or more."""
    sequence, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    narrow = heads // GROUP
    r, d = tl.arange(0, ROWS), tl.arange(0, D)
    at = (sequence * heads + head * GROUP + r)[:, None] * D + d[None, :]
    queries = tl.load(q + at, (r < GROUP)[:, None], 0.0)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, SPLITS), N) * N
    begin, end = split * share, min(length, (split + 1) * share)
    top, total = tl.full((ROWS,), -float("inf"), tl.float32), tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for start in range(begin, end, N):
        j = start + tl.arange(0, N)
        page = tl.load(tables + sequence * most + j // PAGE, j < end, 0).to(tl.int64)
        of_key = ((page * PAGE + j % PAGE) * narrow + head) * D
        keys = tl.load(k + of_key[None, :] + d[:, None], (j < end)[None, :], 0.0)
        s = tl.dot(queries, keys.to(queries.dtype)) * scale
        s = tl.where((j < end)[None, :], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, rescale = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        values = tl.load(v + of_key[:, None] + d[None, :], (j < end)[:, None], 0.0)
        acc = tl.dot(p.to(queries.dtype), values.to(queries.dtype), acc * rescale[:, None])
        top = higher
    at = ((sequence * heads + head * GROUP + r) * SPLITS + split)[:, None] * D + d[None, :]
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(partial + at, acc, (r < GROUP)[:, None])
    at = (sequence * heads + head * GROUP + r) * SPLITS + split
    tl.store(levels + at, top + tl.log2(total), r < GROUP)


@triton.jit
def decode_one_head(
    q, k, v, out, tables, lengths, scale, heads, most,
    GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Without dots: a program for a head of Q and a sequence, a page in each step."""
    head, sequence = tl.program_id(0), tl.program_id(1)
    d, j = tl.arange(0, D), tl.arange(0, PAGE)
    queries = tl.load(q + (sequence * heads + head) * D + d).to(tl.float32) * scale
    length = tl.load(lengths + sequence)
    top, total = -float("inf"), 0.0
    acc = tl.zeros((D,), tl.float32)
    for number in range(tl.cdiv(length, PAGE)):
        page = tl.load(tables + sequence * most + number).to(tl.int64)
        at = ((page * PAGE + j) * (heads // GROUP) + head // GROUP)[:, None] * D + d[None, :]
        inside = (number * PAGE + j) < length
        s = tl.sum(tl.load(k + at, inside[:, None], 0.0).to(tl.float32) * queries[None, :], 1)
        s = tl.where(inside, s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 0))
        p, rescale = tl.exp2(s - higher), tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 0)
        values = tl.load(v + at, inside[:, None], 0.0).to(tl.float32)
        acc = acc * rescale + tl.sum(p[:, None] * values, 0)
        top = higher
    at = out + (sequence * heads + head) * D + d
    tl.store(at, (acc / total).to(out.dtype.element_ty))


@triton.jit
def combine_splits(partial, levels, out, D: tl.constexpr, SPLITS: tl.constexpr):
    row, s, d = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, D)
    each = tl.load(levels + row * SPLITS + s)
    weights = tl.exp2(each - tl.max(each, 0))
    parts = tl.load(partial + (row * SPLITS + s)[:, None] * D + d[None, :])
    result = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + row * D + d, result.to(out.dtype.element_ty))


@triton.jit
def decode_latent(
    q, rotated, kv, out, lengths, scale, heads, most,
    ROWS: tl.constexpr, C: tl.constexpr, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """One query of each sequence; keys are C latent and R rotated columns, values the latent."""
    sequence, first = tl.program_id(0), tl.program_id(1) * ROWS
    r, c, e = first + tl.arange(0, ROWS), tl.arange(0, C), tl.arange(0, R)
    queries = tl.load(q + (sequence * heads + r)[:, None] * C + c[None, :])
    more = tl.load(rotated + (sequence * heads + r)[:, None] * R + e[None, :])
    length = tl.load(lengths + sequence)
    top, total = tl.full((ROWS,), -float("inf"), tl.float32), tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, C), tl.float32)
    for start in range(0, length, N):
        j = start + tl.arange(0, N)
        at = kv + (sequence * most + j).to(tl.int64) * (C + R)
        latent = tl.load(at[:, None] + c[None, :], (j < length)[:, None], 0.0)
        turned = tl.load(at[None, :] + C + e[:, None], (j < length)[None, :], 0.0)
        s = tl.dot(queries, latent.T)
        s = (tl.dot(more, turned) + s) * scale
        s = tl.where((j < length)[None, :], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, rescale = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(latent.dtype), latent, acc * rescale[:, None])
        top = higher
    at = out + (sequence * heads + r)[:, None] * C + c[None, :]
    tl.store(at, (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def dot_rows(out, d_out, delta, n, D: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr):
    i, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, WIDE)
    inside = (i < n)[:, None] & (d < D)[None, :]
    at = i[:, None] * D + d[None, :]
    x, y = tl.load(out + at, inside, 0.0), tl.load(d_out + at, inside, 0.0)
    tl.store(delta + i, tl.sum(x.to(tl.float32) * y.to(tl.float32), 1), i < n)


@triton.jit
def gradients_of_keys(
    q, k, v, d_out, lse, delta, dk, dv, n, scale, last_scale, window,
    GROUP: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """Of N keys of a head of K: the sum over GROUP heads of Q."""
    column, head = tl.program_id(0), tl.program_id(1)
    j, d = column * N + tl.arange(0, N), tl.arange(0, WIDE)
    inside = (j < n)[:, None] & (d < D)[None, :]
    at = head.to(tl.int64) * n * D + j[:, None] * D + d[None, :]
    keys, values = tl.load(k + at, inside, 0.0), tl.load(v + at, inside, 0.0)
    total_k, total_v = tl.zeros((N, WIDE), tl.float32), tl.zeros((N, WIDE), tl.float32)
    for h in range(GROUP):
        own = head * GROUP + h
        base = own.to(tl.int64) * n * D
        begin, end = 0, n
        if CAUSAL:
            begin = column * N // M * M
        if WINDOW:
            end = min(n, (column + 1) * N + window)
        for start in range(begin, end, M):
            i = start + tl.arange(0, M)
            rows = (i < n)[:, None] & (d < D)[None, :]
            x = tl.load(q + base + i[:, None] * D + d[None, :], rows, 0.0)
            y = tl.load(d_out + base + i[:, None] * D + d[None, :], rows, 0.0)
            level = tl.load(lse + own * n + i, i < n, 0.0)
            p = tl.exp2(tl.dot(keys, x.T) * scale - level[None, :])
            keep = (i < n)[None, :]
            if CAUSAL:
                keep = keep & (i[None, :] >= j[:, None])
            if WINDOW:
                keep = keep & (i[None, :] - j[:, None] <= window)
            p = tl.where(keep, p, 0.0)
            total_v = tl.dot(p.to(y.dtype), y, total_v)
            less = tl.load(delta + own * n + i, i < n, 0.0)
            ds = p * (tl.dot(values, y.T) - less[None, :])
            total_k = tl.dot(ds.to(x.dtype), x, total_k)
    tl.store(dv + at, total_v.to(dv.dtype.element_ty), inside)
    tl.store(dk + at, (total_k * last_scale).to(dk.dtype.element_ty), inside)


@triton.jit
def gradients_of_queries(
    q, k, v, d_out, lse, delta, dq, n, scale, last_scale, window,
    GROUP: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    i, d = row * M + tl.arange(0, M), tl.arange(0, WIDE)
    inside = (i < n)[:, None] & (d < D)[None, :]
    at = head.to(tl.int64) * n * D + i[:, None] * D + d[None, :]
    x, y = tl.load(q + at, inside, 0.0), tl.load(d_out + at, inside, 0.0)
    level = tl.load(lse + head * n + i, i < n, 0.0)
    less = tl.load(delta + head * n + i, i < n, 0.0)
    total = tl.zeros((M, WIDE), tl.float32)
    base = (head // GROUP).to(tl.int64) * n * D
    begin, end = 0, n
    if CAUSAL:
        end = min(n, (row + 1) * M)
    if WINDOW:
        begin = max(0, (row * M - window) // N * N)
    for start in range(begin, end, N):
        j = start + tl.arange(0, N)
        columns = (j < n)[None, :] & (d < D)[:, None]
        keys = tl.load(k + base + j[None, :] * D + d[:, None], columns, 0.0)
        values = tl.load(v + base + j[None, :] * D + d[:, None], columns, 0.0)
        p = tl.exp2(tl.dot(x, keys) * scale - level[:, None])
        keep = (j < n)[None, :]
        if CAUSAL:
            keep = keep & (i[:, None] >= j[None, :])
        if WINDOW:
            keep = keep & (i[:, None] - j[None, :] <= window)
        ds = tl.where(keep, p, 0.0) * (tl.dot(y, values) - less[:, None])
        total = tl.dot(ds.to(keys.dtype), keys.T, total)
    tl.store(dq + at, (total * last_scale).to(dq.dtype.element_ty), inside)


@triton.jit
def gradients_in_one(
    q, k, v, d_out, lse, delta, dq, dk, dv, n, scale, last_scale,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Causal; those of queries are added by atomics in f32."""
    column, base = tl.program_id(0), tl.program_id(1).to(tl.int64) * n
    j, d = column * N + tl.arange(0, N), tl.arange(0, D)
    at = (base + j)[:, None] * D + d[None, :]
    keys, values = tl.load(k + at), tl.load(v + at)
    total_k, total_v = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
    for start in range(column * N, n, M):
        i = start + tl.arange(0, M)
        of_row = (base + i)[:, None] * D + d[None, :]
        x, y = tl.load(q + of_row), tl.load(d_out + of_row)
        p = tl.exp2(tl.dot(x, keys.T) * scale - tl.load(lse + base + i)[:, None])
        p = tl.where(i[:, None] >= j[None, :], p, 0.0)
        total_v = tl.dot(p.to(y.dtype).T, y, total_v)
        ds = p * (tl.dot(y, values.T) - tl.load(delta + base + i)[:, None]) * last_scale
        ds = ds.to(x.dtype)
        total_k = tl.dot(ds.T, x, total_k)
        tl.atomic_add(dq + of_row, tl.dot(ds, keys), sem="relaxed")
    tl.store(dv + at, total_v.to(dv.dtype.element_ty))
    tl.store(dk + at, total_k.to(dk.dtype.element_ty))
