"""Alignment of ops that make tiles and move their elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from tileir.analysis.alignment_facts import (
    Alignment,
    multiples_of,
    power_of_two,
    uniform,
)
from tileir.analysis.alignment_rules import Rule
from tileir.ir import Function
from tileir.types import Type, shape_of
from tileir.values import Constant


def _make_range(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (length,) = shape_of(op.to)
    return (Alignment((power_of_two(op.start),), (length,), (1,)),)


def _splat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (uniform(op.result.type, facts[0].multiple[0]),)


def _broadcast(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Stretched dimensions become constant; there every element was a group of its own."""
    (value,) = facts
    old, new = shape_of(op.value.type), shape_of(op.to)
    equal = tuple(n if m == 1 else k for m, n, k in zip(old, new, value.constancy, strict=True))
    return (Alignment(value.multiple, value.contiguity, equal, value.step),)


def _place(value: Alignment, shape: tuple[int, ...], sources: Sequence[int | None]) -> Alignment:
    """A tile of `shape` whose dimensions are those of `value` named by `sources`; None is a new
    dimension of extent 1."""
    every = value.every
    return Alignment(
        tuple(every if s is None else value.multiple[s] for s in sources),
        tuple(1 if s is None else value.contiguity[s] for s in sources),
        tuple(1 if s is None else value.constancy[s] for s in sources),
        value.step,
    )


def _expand_dims(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    shape = shape_of(op.result.type)
    sources = [d - (d > op.axis) if d != op.axis else None for d in range(len(shape))]
    return (_place(facts[0], shape, sources),)


def _trans(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (_place(facts[0], shape_of(op.result.type), op.order),)


def _reshape(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Row-major: extents other than 1 that stay keep their facts; otherwise groups of the last
    dimension survive as far as both last extents are made of them."""
    (value,), old, new = facts, shape_of(op.value.type), shape_of(op.to)
    kept = [d for d, n in enumerate(old) if n > 1]
    if [old[d] for d in kept] == [n for n in new if n > 1]:
        rest = iter(kept)
        return (_place(value, new, [next(rest) if n > 1 else None for n in new]),)
    if value.constancy == old:
        return (uniform(op.to, value.every),)
    run, equal = (gcd(g[-1], old[-1], new[-1]) for g in (value.contiguity, value.constancy))
    ones = (1,) * (len(new) - 1)
    first = value.multiple_at(len(old) - 1, run)
    multiple = (*(value.every for _ in ones), first)
    return (Alignment(multiple, (*ones, run), (*ones, equal), value.step),)


def _unsplat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    return (uniform(op.result.type, facts[0].every),)


def _join(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    low, high = facts
    both = low.meet(high, tuple(map(gcd, low.contiguity, high.contiguity)))
    if not shape_of(op.low.type):
        return (Alignment((both.every,), (1,), (1,), both.step),)
    return (_place(both, shape_of(op.result.type), [*range(len(both.multiple)), None]),)


def _split(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    (value,) = facts
    rank = len(value.multiple) - 1
    if rank == 0:
        return (uniform(op.results[0].type, value.every),) * 2
    half = _place(value, shape_of(op.results[0].type), range(rank))
    return (half, half)


def _cat(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Groups must not straddle the seam."""
    low, high = facts
    seam = [shape_of(op.low.type)[d] if d == op.axis else 0 for d in range(len(low.multiple))]
    runs = [gcd(*three) for three in zip(low.contiguity, high.contiguity, seam, strict=True)]
    both = low.meet(high, runs)
    equal = tuple(map(gcd, both.constancy, seam))
    return (Alignment(both.multiple, both.contiguity, equal, both.step),)


def _gather(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    source, index = facts
    equal = tuple(
        k if d == op.axis else gcd(k, source.constancy[d]) for d, k in enumerate(index.constancy)
    )
    multiples = multiples_of(op.result.type, (), source.every)
    return (Alignment(multiples.multiple, multiples.contiguity, equal, source.step),)


def _extract_slice(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Groups survive where the slice starts at one; strides other than 1 take them apart."""
    value, offsets = facts[0], facts[1:]
    old, strides = shape_of(op.value.type), op.strides or (1,) * len(offsets)
    starts = [
        v.bits if isinstance(v, Constant) else f.every
        for v, f in zip(op.offsets, offsets, strict=True)
    ]

    def groups(sizes: Sequence[int]) -> tuple[int, ...]:
        dims = zip(sizes, starts, strides, strict=True)
        return tuple(gcd(size, start) if stride == 1 else 1 for size, start, stride in dims)

    runs, new = groups(value.contiguity), shape_of(op.to)
    multiple = tuple(value.multiple_at(d, run) for d, run in enumerate(runs))
    whole = [k >= n for k, n in zip(value.constancy, old, strict=True)]
    equal = tuple(new[d] if whole[d] else k for d, k in enumerate(groups(value.constancy)))
    run, same = (tuple(map(min, sizes, new)) for sizes in (runs, equal))
    return (Alignment(multiple, run, same, value.step),)


def _insert_slice(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    ones = (1,) * len(facts[0].multiple)
    multiple = (min(facts[0].every, facts[1].every),) * len(ones)
    return (Alignment(multiple, ones, ones, facts[0].step),)


_KEEPING = ("add", "and", "or", "xor", "smin", "smax", "umin", "umax", "mul")
"""Combiners of multiples of a power of two that give one."""


def _reduce(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    """Equal lines reduce to equal elements, where the same lanes of each take part."""
    if op.predicate is not None and shape_of(op.predicate.type):
        multiple = [fact.every if _keeps(op) else 1 for fact in facts]
        return [_unequal(v.type, n) for v, n in zip(op.results, multiple, strict=True)]
    return [
        _of_reduction(
            v.type, [f.constancy for f in facts], fact.every if _keeps(op) else 1, op.axis
        )
        for v, fact in zip(op.results, facts, strict=True)
    ]


def _keeps(op: Any) -> bool:
    return getattr(op.combiner, "value", None) in _KEEPING


def _of_reduction(
    type: Type, groups: Sequence[tuple[int, ...]], multiple: int, axis: int
) -> Alignment:
    if not shape_of(type):
        return uniform(type, multiple)
    equal = [gcd(*sizes) for sizes in zip(*groups, strict=True)]
    del equal[axis]
    runs = (1,) * len(equal)
    return Alignment((multiple,) * len(equal), runs, tuple(equal))


def _unequal(type: Type, multiple: int) -> Alignment:
    """Elements of which nothing is known but that they are multiples."""
    if not shape_of(type):
        return uniform(type, multiple)
    ones = (1,) * len(shape_of(type))
    return Alignment((multiple,) * len(ones), ones, ones)


def _scan(op: Any, facts: Sequence[Alignment], function: Function) -> Sequence[Alignment]:
    alignments: list[Alignment] = []
    for value, fact in zip(op.results, facts, strict=True):
        equal = [gcd(*sizes) for sizes in zip(*(f.constancy for f in facts), strict=True)]
        equal[op.axis] = 1
        if op.predicate is not None and shape_of(op.predicate.type):
            equal = [1] * len(equal)
        even = multiples_of(value.type, (), fact.every if _keeps(op) else 1)
        alignments.append(Alignment(even.multiple, even.contiguity, tuple(equal)))
    return alignments


SHAPE_RULES: dict[str, Rule] = {
    "make_range": _make_range, "splat": _splat, "broadcast": _broadcast,
    "expand_dims": _expand_dims, "trans": _trans, "reshape": _reshape, "unsplat": _unsplat,
    "join": _join, "split": _split, "cat": _cat, "gather": _gather,
    "extract_slice": _extract_slice, "insert_slice": _insert_slice,
    "reduce": _reduce, "scan": _scan,
}  # fmt: skip
