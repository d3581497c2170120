"""Forward attention as an ordinary program of pointers and masks, with one loop and two dots."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from tileir.builder import F16, F32, I32, Builder, Expr, arg, pointer
from tileir.ir import Module

SLACK = 8.0
"""The accumulators of a row are rescaled only where a score exceeds the row's bound by more than
this, as a logarithm in base 2."""

LSE_PADDING = 128
"""Rows of a head in the log-sum-exp buffer are rounded up to a multiple of this, the largest block
of rows that a tensor map copies."""

_CACHED = 3 << 22
"""Elements of K, and as many of V, that fit in the L2 cache next to other traffic: 48 MiB of 16
bits."""

_PARTIALS = 8
"""The softmax denominator of a row is accumulated in this many partial totals, of every 8th column
each. They are combined after the loop, so that no iteration reduces across threads."""

_BLOCKS_PER_HEAD = 8
"""Heads that are not causal run concurrently, one for every 8 blocks of rows of a head."""

_NEVER = -1e30
"""The score of a masked element."""

_ENDS = 1.5
"""Prologue and epilogue of a block of rows, in the time of one block of keys."""

_PER_MIB = 0.004
"""Relative cost of a MiB of K and V of concurrent heads, for causal attention of 512 keys."""


def attention(
    bm: int, bn: int, d: int, element: Any = F16, result: Any = None, *, causal: bool = False,
    save_lse: bool = False, grouped: bool = False, v_transposed: bool = False,
    arranged: bool = False, slack: float = SLACK, biased: bool = False,
) -> Module:  # fmt: skip
    """`attention(q, k, v, o, t, scale)` on a grid of blocks of rows by heads: o = softmax(scale ln
    2 q k^T) v for [heads, t, d], by online softmax in base 2 (Milakov and Gimelshein 2018). ||
    Blocks of keys that every row attends to have no mask. Instances of `causal` attention are
    ordered by `serpentine_order`, in groups of heads whose K and V fit in the cache. `save_lse`
    adds the parameter `lse`, [heads, t rounded up to `LSE_PADDING`]: the log-sum-exp of each row in
    base 2. `grouped` adds `group`, the number of heads of queries that share a head of keys and
    values. `arranged` adds `together`, the number of heads that run concurrently, causal or not
    (`heads_together`). `biased` adds `bias`, [heads, t, t], which is added to the scores of its
    rows and keys before they are scaled, and t is a multiple of 8. `v_transposed`: v is [heads, d,
    t], as a dot of 8-bit operands needs it. Elements of q, k and v are of type `element`, those of
    o of type `result` or the same."""
    b = Builder()
    kinds = {**{name: _buffer(element) for name in "qkv"}, "o": _buffer(result or element)}
    more: dict[str, Any] = {"lse": _buffer(F32)} if save_lse else {}
    more |= ({"group": I32} if grouped else {}) | ({"together": I32} if arranged else {})
    more |= {"bias": _buffer(element)} if biased else {}
    kinds |= {"t": arg(I32, multiple_of=8) if biased else I32, "scale": F32}
    with b.kernel("attention", **kinds, **more) as (q, k, v, o, t, scale, *rest):
        block, number = b.program_id(axis=0), b.program_id(axis=1)
        if causal or arranged:
            together = rest[int(save_lse) + int(grouped)] if arranged else None
            block, number = serpentine_order(b, t, d, together)
        if causal:
            block = b.num_programs(axis=0) - 1 - block
        first = block * bm
        rows, keys, dims = (b.arange(bm) + first)[:, None], b.arange(bn), b.arange(d)
        inside = (rows < t).broadcast_to(bm, d)
        place = number * (t * d) + (rows * d + dims[None, :])
        queries = (q + place).load(inside, 0.0)
        head = (number // rest[int(save_lse)] if grouped else number) * (t * d)
        most, lanes = b.var(b.full((bm,), _NEVER, F32)), gcd(bn, _PARTIALS)
        norms = b.var(b.full((bm, lanes), 0.0, F32))
        acc = b.var(b.full((bm, d), 0.0, F32))
        end = b.smin(t, first + bm) if causal else t
        unmasked_end = b.smin(t, first + 1) if causal else t
        bits: dict[str, Any] = {"max_imprecise": max(bn, d)} if element.bits == 8 else {}
        with b.for_(0, end, bn) as at:
            left, here = (keys < t - at), keys + at
            at_k = k + (head + (here[None, :] * d + dims[:, None]))
            block = at_k.load(left[None, :].broadcast_to(d, bn), 0.0)
            scores = b.var(b.dot(queries, block, b.full((bm, bn), 0.0, F32), **bits))
            if biased:
                pointers = rest[-1] + (number * t * t + (rows * t + here[None, :]))
                scores.set(scores.get() + _within(pointers, rows < t, left[None, :]).to(F32))
            with b.if_(at + bn > unmasked_end):
                ends = b.smin(rows + 1, b.full((bm, 1), t, I32)) if causal else None
                scores.set(_mask_scores(b, scores.get(), left[None, :], here[None, :], ends))
            level, shrink = _level(b, most.get(), scores.get(), scale, slack)
            below = (-level)[:, None].broadcast_to(bm, bn)
            relative = b.fma(scores.get(), b.full((bm, bn), scale, F32), below)
            weights = b.exp2(relative, fast="approx")
            partial = b.reduce(weights.reshape(bm, bn // lanes, lanes), axis=1, combiner="fadd")
            norms.set(b.fma(norms.get(), shrink[:, None].broadcast_to(bm, lanes), partial))
            scaled = acc.get() * shrink[:, None].broadcast_to(bm, d)
            by_key = here[:, None] * d + dims[None, :]
            place_v = dims[None, :] * t + here[:, None] if v_transposed else by_key
            values = (v + (head + place_v)).load(left[:, None].broadcast_to(bn, d), 0.0)
            acc.set(b.dot(weights.to(element, saturate=element.bits == 8), values, scaled, **bits))
            most.set(level)
        norm = b.reduce(norms.get(), axis=1, combiner="fadd")
        if save_lse:
            total, row = most.get() + b.log2(norm, fast="approx"), b.arange(bm) + first
            (rest[0] + (number * padded_rows(b, t) + row)).store(total, row < t)
        outcome = acc.get() * (1.0 / norm)[:, None].broadcast_to(bm, d)
        (o + place).store(outcome.to(result or element), inside)
    return b.module()


def padded_rows(b: Builder, t: Any) -> Any:
    """The distance of two heads in a buffer with a number for each of `t` rows."""
    return b.cdiv(t, LSE_PADDING) * LSE_PADDING


def _mask_scores(b: Builder, scores: Expr, is_key: Expr, keys: Expr, ends: Expr | None) -> Expr:
    """Mask the scores: those of positions that are not keys, and, if `ends` is not None, those at
    or beyond the end of each row."""
    shape = scores.shape
    mask = is_key.broadcast_to(*shape)
    if ends is not None:
        mask = keys.broadcast_to(*shape) < ends.broadcast_to(*shape)
    return b.select(mask, scores, b.full(shape, _NEVER, F32))


def _within(pointers: Expr, rows: Expr, columns: Expr) -> Expr:
    """The elements at `pointers` where both `rows` and `columns` are true, 0 elsewhere."""
    shape = pointers.shape
    return pointers.load(rows.broadcast_to(*shape) & columns.broadcast_to(*shape), 0.0)


def _level(b: Builder, most: Any, scores: Any, scale: Any, slack: float) -> tuple[Any, Any]:
    """The new bound of each row, and the number by which its accumulators are multiplied when the
    bound changes to it. The bound stays `most` unless a score exceeds it by more than `slack`."""
    highest = b.reduce(scores, axis=1, combiner="fmaxnum") * scale
    if not slack:
        level = b.fmaxnum(highest, most)
        return level, b.exp2(most - level, fast="approx")
    higher = highest > most + slack
    level = b.select(higher, highest, most)
    shrink = b.exp2(most - level, fast="approx")
    return level, b.select(higher, shrink, b.full(most.shape, 1.0, F32))


def serpentine_order(b: Builder, t: Any, d: int, together: Any = None) -> tuple[Any, Any]:
    """The block and the head of this instance.

    Heads are processed in groups of `together` heads, or of as many as fit in the cache. Within a
    group, instances are ordered by block: the first blocks of all heads, then the second ones, and
    so on. Every other group is processed from the last blocks to the first. K and V of a group stay
    in the cache, and persistent blocks, which take instances at a stride, get equal work.
    """
    blocks, heads = b.num_programs(axis=0), b.num_programs(axis=1)
    number = b.program_id(axis=1) * blocks + b.program_id(axis=0)
    many = b.smax(_CACHED // (b.smax(t, 1) * d) if together is None else together, 1)
    group = number // b.smax(many * blocks, 1)
    first = group * many
    here, place = b.smax(b.smin(many, heads - first), 1), number - first * blocks
    place = b.smax(b.select(group % 2 != 0, here * blocks - 1 - place, place), 0)
    return place // here, first + place % here


@lru_cache(maxsize=1024)
def heads_together(
    t: int, d: int, rows: int, heads: int, processors: int = 132, size: int = 2, *,
    causal: bool = True,
) -> int:  # fmt: skip
    """The number of heads of attention that should run concurrently, in blocks of `rows` rows on
    `processors` multiprocessors.

    K and V of few heads, with elements of `size` bytes, stay in the cache. For causal attention the
    number also decides how evenly instances are distributed over persistent blocks, which is
    computed for each candidate. Without a mask all instances have the same work, and reading K and
    V of a few heads distributes the accesses over more parts of the cache.
    """
    blocks = -(-t // rows)
    bytes_per_head = max(1, 2 * t * d * size)
    if not causal:
        return max(
            1, min(heads, _CACHED * 4 * 2 // 3 // bytes_per_head, blocks // _BLOCKS_PER_HEAD)
        )
    most = max(1, min(heads, _CACHED * 4 // bytes_per_head))
    return min(
        range(1, most + 1),
        key=lambda many: (
            _imbalance(blocks, heads, many, processors)
            + _PER_MIB * many * bytes_per_head / 2**20 * (512 / max(t, 1)),
            many,
        ),
    )


def _imbalance(blocks: int, heads: int, many: int, processors: int) -> float:
    """The largest work of one of `processors` multiprocessors, relative to the mean."""
    number = np.arange(blocks * heads)
    group, place = np.divmod(number, many * blocks)
    here = np.minimum(many, heads - group * many)
    place = np.where(group % 2 == 1, here * blocks - 1 - place, place)
    work = blocks - place // here + _ENDS
    lap, at = np.divmod(number, processors)
    total = np.bincount(np.where(lap % 2 == 1, processors - 1 - at, at), work, processors)
    return float(total.max() / total.mean())


def _buffer(element: Any) -> Any:
    return arg(pointer(element), aligned=16, noalias=True)
