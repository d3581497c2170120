"""Attention forward as an ordinary program of pointers, masks, one loop and two dots."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module

SLACK = 8.0
"""How far scores may pass what they are taken relative to, as a logarithm in base 2: sums are
rescaled only beyond it."""

KEPT = 128
"""What is kept for each row has room for a multiple of so many rows, as blocks of tensors need."""

_CACHED = 3 << 22
"""Elements of keys, and as many of values, that the L2 cache holds beside what else passes it: 48
MiB of 16 bits."""

_TOGETHER = 8
"""Weights of a row are added up in so many sums, of every so many-th column, until the end: threads
that hold columns of a product have no part in each other's then."""

_BLOCKS_BESIDE = 8
"""Of so many blocks of rows of a head that is not causal another one comes beside it."""

_NEVER = -1e30
"""A score that has no weight."""

_ENDS = 1.5
"""What a block of rows takes before and after its blocks of keys, in terms of one of them."""

_PER_MIB = 0.004
"""What keys and values of heads that come together add to the time of causal attention, a MiB of
them, where there are 512."""


def attention(
    bm: int, bn: int, d: int, factor: Any = F16, result: Any = None, *, causal: bool = False,
    keep: bool = False, grouped: bool = False, turned: bool = False, arranged: bool = False,
    slack: float = SLACK,
) -> Module:  # fmt: skip
    """`attention(q, k, v, o, t, scale)` on a grid of blocks of rows by heads: o = softmax(scale
    ln 2 q k^T) v for [heads, t, d], by online softmax in base 2 (Milakov and Gimelshein 2018).
    Blocks of keys that every row sees have no masks of scores; `causal`, heads whose keys and
    values fit in the cache come together, with most keys first and last in turns. `keep` adds the
    parameter `sums`, [heads, t rounded up to `KEPT`]: what each row's weights add up to, as a
    logarithm in base 2. `grouped` adds `group`: so many heads of queries share one of keys and
    values. `arranged` adds `together`: instances of so many heads come together, causal or not
    (`heads_together`). `turned`: v is [heads, d, t], as products of 8-bit
    factors need it. o is of type `result`, or that of the factors."""
    b = Builder()
    kinds = {name: _buffer(factor) for name in "qkv"} | {"o": _buffer(result or factor)}
    more: dict[str, Any] = {"sums": _buffer(F32)} if keep else {}
    more |= {name: I32 for name, there in (("group", grouped), ("together", arranged)) if there}
    with b.kernel("attention", **kinds, t=I32, scale=F32, **more) as (q, k, v, o, t, scale, *rest):
        block, number = b.program_id(axis=0), b.program_id(axis=1)
        if causal or arranged:
            block, number = in_turns(b, t, d, rest[-1] if arranged else None)
        if causal:
            block = b.num_programs(axis=0) - 1 - block
        first = block * bm
        rows, keys, dims = (b.arange(bm) + first)[:, None], b.arange(bn), b.arange(d)
        inside = (rows < t).broadcast_to(bm, d)
        place = number * (t * d) + (rows * d + dims[None, :])
        queries = (q + place).load(inside, 0.0)
        head = (number // rest[int(keep)] if grouped else number) * (t * d)
        most = b.var(b.full((bm,), _NEVER, F32))
        lanes = gcd(bn, _TOGETHER)
        sums = b.var(b.full((bm, lanes), 0.0, F32))
        found = b.var(b.full((bm, d), 0.0, F32))
        end = b.smin(t, first + bm) if causal else t
        whole = b.smin(t, first + 1) if causal else t
        bits: dict[str, Any] = {"max_imprecise": max(bn, d)} if factor.bits == 8 else {}
        with b.for_(0, end, bn) as at:
            left, here = (keys < t - at), keys + at
            at_k = k + (head + (here[None, :] * d + dims[:, None]))
            block = at_k.load(left[None, :].broadcast_to(d, bn), 0.0)
            scores = b.var(b.dot(queries, block, b.full((bm, bn), 0.0, F32), **bits))
            with b.if_(at + bn > whole):
                seen = left[None, :].broadcast_to(bm, bn)
                if causal:
                    behind = b.smin(rows + 1, b.full((bm, 1), t, I32)).broadcast_to(bm, bn)
                    seen = here[None, :].broadcast_to(bm, bn) < behind
                scores.set(b.select(seen, scores.get(), b.full((bm, bn), _NEVER, F32)))
            level, shrink = _level(b, most.get(), scores.get(), scale, slack)
            below = (-level)[:, None].broadcast_to(bm, bn)
            relative = b.fma(scores.get(), b.full((bm, bn), scale, F32), below)
            weights = b.exp2(relative, fast="approx")
            apart = b.reduce(weights.reshape(bm, bn // lanes, lanes), axis=1, combiner="fadd")
            sums.set(b.fma(sums.get(), shrink[:, None].broadcast_to(bm, lanes), apart))
            kept = found.get() * shrink[:, None].broadcast_to(bm, d)
            by_key = here[:, None] * d + dims[None, :]
            place_v = dims[None, :] * t + here[:, None] if turned else by_key
            values = (v + (head + place_v)).load(left[:, None].broadcast_to(bn, d), 0.0)
            found.set(b.dot(weights.to(factor, saturate=factor.bits == 8), values, kept, **bits))
            most.set(level)
        whole = b.reduce(sums.get(), axis=1, combiner="fadd")
        if keep:
            total = most.get() + b.log2(whole, fast="approx")
            row = b.arange(bm) + first
            (rest[0] + (number * kept_rows(b, t) + row)).store(total, row < t)
        outcome = found.get() * (1.0 / whole)[:, None].broadcast_to(bm, d)
        (o + place).store(outcome.to(result or factor), inside)
    return b.module()


def kept_rows(b: Builder, t: Any) -> Any:
    """How far apart two heads are in what is kept for each of `t` rows."""
    return b.cdiv(t, KEPT) * KEPT


def _level(b: Builder, most: Any, scores: Any, scale: Any, slack: float) -> tuple[Any, Any]:
    """What the scores of each row are taken relative to from here on: what it was, `most`, unless
    one is higher by more than `slack`; and what sums so far are multiplied by for that."""
    highest = b.reduce(scores, axis=1, combiner="fmaxnum") * scale
    if not slack:
        level = b.fmaxnum(highest, most)
        return level, b.exp2(most - level, fast="approx")
    higher = highest > most + slack
    level = b.select(higher, highest, most)
    shrink = b.exp2(most - level, fast="approx")
    return level, b.select(higher, shrink, b.full(most.shape, 1.0, F32))


def in_turns(b: Builder, t: Any, d: int, together: Any = None) -> tuple[Any, Any]:
    """Block and head of this instance: the first blocks of some heads, `together` or as many as the
    cache holds, their second ones, and so on, then those of other heads from the last blocks to the
    first, and so in turns. What these many heads share stays in the cache meanwhile; that what
    takes long and what does not change places lets each of the blocks that work for many instances
    have as much to do."""
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
    """How many heads of attention should come together, in blocks of `rows` rows on so many
    `processors`: few of them have their keys and values, of `size` bytes, passed on within the
    cache, and how evenly causal instances fall to blocks that take them to and fro is for each
    number another matter, which is counted out. Others have all as much to do; where many of them
    belong to one head, keys and values of a few are read from more parts of the cache at a time."""
    blocks = -(-t // rows)
    kept = max(1, 2 * t * d * size)
    if not causal:
        return max(1, min(heads, _CACHED * 4 * 2 // 3 // kept, blocks // _BLOCKS_BESIDE))
    most = max(1, min(heads, _CACHED * 4 // kept))
    return min(
        range(1, most + 1),
        key=lambda many: (
            _imbalance(blocks, heads, many, processors)
            + _PER_MIB * many * kept / 2**20 * (512 / max(t, 1)),
            many,
        ),
    )


def _imbalance(blocks: int, heads: int, many: int, processors: int) -> float:
    """The most that any of `processors` has to do, in terms of the mean."""
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
