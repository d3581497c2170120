"""The gradient of attention as ordinary programs of pointers, masks, loops and dots.

With weights p = softmax(s), s = scale ln 2 q k^T, and a gradient g of o = p v: the gradient of v is
p^T g, that of p is g v^T, and that of s is p (g v^T - delta), where delta is the sum of each row of
g o (Dao et al. 2022, "FlashAttention", appendix B.2). Weights are recomputed from the log-sum-exp
of each row, in base 2, that `attention` saves.

One kernel accumulates for keys and one for queries, so that each element is accumulated by one
program instance, in one order. `group` heads of queries share a head of keys and values. `lse` and
`delta` are [heads, t rounded up to a multiple of `attention.LSE_PADDING`].
"""

from __future__ import annotations

from math import gcd, log
from typing import Any, NamedTuple

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.testing.attention import padded_rows, serpentine_order


def attention_delta(bm: int, d: int, element: Any = F16, *, fused: bool = False) -> Module:
    """`attention_delta(o, g, delta, t)` on a grid of blocks of `bm` rows by heads: delta, the total
    of each row of o g, [heads, t, d]. `fused` adds the parameter `total` after `delta`, the
    accumulator of `attention_keys`, and sets it to zero."""
    b = Builder()
    kinds = {"o": _buffer(element), "g": _buffer(element), "delta": _buffer(F32)}
    kinds |= {"total": _buffer(F32)} if fused else {}
    with b.kernel("attention_delta", **kinds, t=I32) as (o, g, delta, *extra, t):
        head, rows, place, inside = _rows(b, bm, d, t)
        left, right = ((p + place).load(inside, 0.0).to(F32) for p in (o, g))
        result = b.reduce(left * right, axis=1, combiner="fadd")
        (delta + (head * padded_rows(b, t) + rows)).store(result, rows < t)
        for total in extra:
            (total + place).store(b.full((bm, d), 0.0, F32), inside)
    return b.module()


def attention_scaled(bm: int, d: int, element: Any = F16) -> Module:
    """`attention_scaled(total, dq, t, scale)` on a grid of blocks of `bm` rows by heads: the
    gradient of q from `total`, which `attention_keys` accumulated. Both are [heads, t, d]."""
    b = Builder()
    kinds = {"total": _buffer(F32), "dq": _buffer(element)}
    with b.kernel("attention_scaled", **kinds, t=I32, scale=F32) as (total, dq, t, scale):
        _, _, place, inside = _rows(b, bm, d, t)
        result = (total + place).load(inside, 0.0) * (scale * log(2))
        (dq + place).store(result.to(element), inside)
    return b.module()


def attention_keys(
    bm: int, bn: int, d: int, element: Any = F16, *, causal: bool = False, fused: bool = False
) -> Module:
    """`attention_keys(q, k, v, g, lse, delta, dk, dv, t, group, scale)` on a grid of blocks of `bn`
    keys by heads of keys: the gradients of k and v, by blocks of `bm` queries. `fused` adds the
    parameter `total` after `dv`, f32 and of the shape of q: the contribution of its keys to the
    gradient of q, without the scale factor scale ln 2, is added to it atomically. The order, and so
    the last bits, may differ from run to run."""
    b = Builder()
    names = ("q", "k", "v", "g", "lse", "delta", "dk", "dv", *(("total",) if fused else ()))
    with b.kernel("attention_keys", **_kinds(names, element)) as values:
        q, k, v, g, lse, delta, dk, dv, *extra, t, group, scale = values
        block, head = (
            serpentine_order(b, t, d) if causal else (b.program_id(axis=0), b.program_id(axis=1))
        )
        first = block * bn
        keys, dims, number = b.arange(bn) + first, b.arange(d), b.arange(bm)
        inside = (keys < t)[:, None].broadcast_to(bn, d)
        place = head * (t * d) + (keys[:, None] * d + dims[None, :])
        distance = padded_rows(b, t)
        ours = _Pair((k + place).load(inside, 0.0), (v + place).load(inside, 0.0))
        of_k, of_v = (b.var(b.full((bn, d), 0.0, F32)) for _ in range(2))

        def block_of_queries(at: Any, query_head: Any, masked: bool) -> None:
            rows = number + at
            left = rows < t
            place = query_head * (t * d) + (rows[:, None] * d + dims[None, :])
            mask = left[:, None].broadcast_to(bm, d)
            theirs = _Pair((q + place).load(mask, 0.0), (g + place).load(mask, 0.0))
            columns = ((p + (query_head * distance + rows)).load(left, 0.0) for p in (lse, delta))
            row_lse, less = (c[None, :].broadcast_to(bn, bm) for c in columns)
            scores = b.dot(ours.q, theirs.q.T, b.full((bn, bm), 0.0, F32))
            weights = _weights(b, scores, row_lse, scale)
            if masked:
                here = keys[:, None].broadcast_to(bn, bm)
                seen = here <= rows[None, :].broadcast_to(bn, bm) if causal else here < t
                weights = b.select(seen, weights, b.full((bn, bm), 0.0, F32))
            slopes = b.dot(ours.g, theirs.g.T, b.full((bn, bm), 0.0, F32))
            of_v.set(b.dot(weights.to(element), theirs.g, of_v.get()))
            changes = (weights * (slopes - less)).to(element)
            of_q = [b.dot(changes.T, ours.q, b.full((bm, d), 0.0, F32)) for _ in extra]
            of_k.set(b.dot(changes, theirs.q, of_k.get()))
            for total, part in zip(extra, of_q, strict=True):
                (total + place).atomic("fadd", part, mask, sem="relaxed")

        with b.for_(0, group) as member:
            query_head = head * group + member
            begin = first // bm * bm if bn % bm else first
            near = begin + _diagonal_rows(bm, bn)
            if causal:
                with b.for_(begin, b.smin(t, near), bm) as at:
                    block_of_queries(at, query_head, masked=True)
            elif fused:  # weights of keys out of bounds could be infinite
                near = b.select(first + bn > t, t, 0)
                with b.for_(0, near, bm) as at:
                    block_of_queries(at, query_head, masked=True)
            with b.for_(near if causal or fused else 0, t, bm) as at:
                block_of_queries(at, query_head, masked=False)
        (dk + place).store((of_k.get() * (scale * log(2))).to(element), inside)
        (dv + place).store(of_v.get().to(element), inside)
    return b.module()


def _rows(b: Builder, bm: int, d: int, t: Any) -> tuple[Any, Any, Any, Any]:
    """The head and the rows of this instance, the offsets of their elements, and which rows are in
    bounds."""
    head, rows = b.program_id(axis=1), b.arange(bm) + b.program_id(axis=0) * bm
    place = head * (t * d) + (rows[:, None] * d + b.arange(d)[None, :])
    return head, rows, place, (rows < t)[:, None].broadcast_to(bm, d)


def _diagonal_rows(bm: int, bn: int) -> int:
    """The number of rows, in whole blocks of `bm` queries, in which a query may precede a key of
    one block of `bn` keys."""
    ahead = bm - gcd(bm, bn)  # the most queries of the first block before the first key
    return -(-(ahead + bn) // bm) * bm if bn % bm else bn


def attention_queries(
    bm: int, bn: int, d: int, element: Any = F16, *, causal: bool = False
) -> Module:
    """`attention_queries(q, k, v, g, lse, delta, dq, t, group, scale)` on a grid of blocks
    of `bm` queries by heads: the gradient of q, by blocks of `bn` keys."""
    b = Builder()
    names = ("q", "k", "v", "g", "lse", "delta", "dq")
    with b.kernel("attention_queries", **_kinds(names, element)) as values:
        q, k, v, g, lse, delta, dq, t, group, scale = values
        block, head = (
            serpentine_order(b, t, d) if causal else (b.program_id(axis=0), b.program_id(axis=1))
        )
        first = (b.num_programs(axis=0) - 1 - block if causal else block) * bm
        rows, dims, number = b.arange(bm) + first, b.arange(d), b.arange(bn)
        inside = (rows < t)[:, None].broadcast_to(bm, d)
        place = head * (t * d) + (rows[:, None] * d + dims[None, :])
        ours = _Pair((q + place).load(inside, 0.0), (g + place).load(inside, 0.0))
        columns = (
            (p + (head * padded_rows(b, t) + rows)).load(rows < t, 0.0) for p in (lse, delta)
        )
        total, less = (c[:, None].broadcast_to(bm, bn) for c in columns)
        shared = head.udiv(group) * (t * d)
        result = b.var(b.full((bm, d), 0.0, F32))

        def block_of_keys(at: Any, masked: bool) -> None:
            keys = number + at
            left = keys < t
            place = shared + (keys[:, None] * d + dims[None, :])
            mask = left[:, None].broadcast_to(bn, d)
            theirs = _Pair((k + place).load(mask, 0.0), (v + place).load(mask, 0.0))
            scores = b.dot(ours.q, theirs.q.T, b.full((bm, bn), 0.0, F32))
            weights = _weights(b, scores, total, scale)
            if masked:
                seen = left[None, :].broadcast_to(bm, bn)
                if causal:
                    here = keys[None, :].broadcast_to(bm, bn)
                    seen = seen & (here <= rows[:, None].broadcast_to(bm, bn))
                weights = b.select(seen, weights, b.full((bm, bn), 0.0, F32))
            slopes = b.dot(ours.g, theirs.g.T, b.full((bm, bn), 0.0, F32))
            result.set(b.dot((weights * (slopes - less)).to(element), theirs.q, result.get()))

        full_blocks = (first if causal else t) // bn * bn
        with b.for_(0, full_blocks, bn) as at:
            block_of_keys(at, masked=False)
        with b.for_(full_blocks, b.smin(t, first + bm) if causal else t, bn) as at:
            block_of_keys(at, masked=True)
        (dq + place).store((result.get() * (scale * log(2))).to(element), inside)
    return b.module()


class _Pair(NamedTuple):
    """A block of queries (or keys), and the block of the gradient (or values) that belongs to
    it."""

    q: Any
    g: Any


def _weights(b: Builder, scores: Any, lse: Any, scale: Any) -> Any:
    """2^(scale scores - lse), elementwise."""
    scales = b.full(scores.shape, scale, F32)
    return b.exp2(b.fma(scores, scales, -lse), fast="approx")


def _kinds(names: tuple[str, ...], element: Any) -> dict[str, Any]:
    """The types of buffers by name, and of the numbers that belong to them."""
    row_values = ("lse", "delta", "total")
    buffers = {name: _buffer(F32 if name in row_values else element) for name in names}
    return {**buffers, "t": I32, "group": I32, "scale": F32}


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)
