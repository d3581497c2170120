"""When the operands of a block's dots are stored to shared memory, so that they fit."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar, cast

from tileir.backend.codegen.emit.shared_tile import SharedTile
from tileir.ir import Block
from tileir.op import Op
from tileir.values import Operand, Value

_K = TypeVar("_K", bound=Hashable)

Stored = tuple[Operand, SharedTile]
"""An operand, and how it is stored."""


def plan_block(
    block: Block, needed: Mapping[Op, Sequence[Stored]], shared: int
) -> dict[Op, tuple[Stored, ...] | None]:
    """`plan_stores` for the dots of `block` that read in shared memory what `needed` says."""
    own = {v: i for i, op in enumerate(block.ops) for v in op.results}
    places = [own[dot.results[0]] for dot in needed]
    keys = {key for each in needed.values() for key in each}
    available = {key: bisect(places, own.get(cast(Value, key[0]), -1)) for key in keys}
    sizes = {key: key[1].bytes for key in keys}
    stores = plan_stores(list(needed.values()), sizes, available, shared)
    return dict(zip(needed, stores, strict=True))


def plan_stores(
    dots: Sequence[Sequence[_K]], sizes: Mapping[_K, int], available: Mapping[_K, int], shared: int
) -> list[tuple[_K, ...] | None]:
    """For each of `dots`, given by the operands that it reads in shared memory: those that are
    stored before it, or None where it is left out because `shared` bytes do not suffice.

    A buffer is needed from its store to the last dot that reads it. Operands are stored before the
    first dot that reads them, and already with those of an earlier dot where they are `available`
    from there on and fit in half as much: they share its barrier, and leave bytes to other blocks.
    """
    kept = list(range(len(dots)))
    while (spans := _spans(dots, kept)) and (
        at := _first_overflow(spans, sizes, shared)
    ) is not None:
        kept.remove(at)
    stores = {at: [k for k in dict.fromkeys(dots[at]) if spans[k][0] == at] for at in kept}
    for at in kept:
        if not stores[at]:
            continue
        for key, (first, last) in list(spans.items()):
            if first <= at or available[key] > at:
                continue
            if _first_overflow({**spans, key: (at, last)}, sizes, shared // 2) is None:
                spans[key] = at, last
                stores[first].remove(key)
                stores[at].append(key)
    return [tuple(stores[at]) if at in stores else None for at in range(len(dots))]


def _spans(dots: Sequence[Sequence[_K]], kept: Sequence[int]) -> dict[_K, tuple[int, int]]:
    """The first and the last dot that read an operand."""
    spans: dict[_K, tuple[int, int]] = {}
    for at in kept:
        for key in dots[at]:
            spans[key] = spans.get(key, (at, at))[0], at
    return spans


def _first_overflow(
    spans: Mapping[_K, tuple[int, int]], sizes: Mapping[_K, int], shared: int
) -> int | None:
    """The first dot at which more than `shared` bytes are needed."""
    for at in sorted({last for _, last in spans.values()} | {first for first, _ in spans.values()}):
        live = sum(sizes[k] for k, (first, last) in spans.items() if first <= at <= last)
        if live > shared:
            return at
    return None
