"""The plan of the stores of a block's dot operands to shared memory, so that they fit."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import attrs

from tileir.analysis.loops import loops
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import AsyncCopy
from tileir.values import Operand, Value

_K = TypeVar("_K", bound=Hashable)

Stored = tuple[Operand, SharedTile]
"""An operand, and how it is stored."""

Buffers: TypeAlias = Mapping[Stored, Value]
"""The buffers of stored operands."""

Plan: TypeAlias = Mapping[Op, Sequence[Stored] | None]
"""What is stored before each dot of a block; None for a dot that reads no shared memory."""


@attrs.frozen(eq=False)
class StoredOperand:
    """An operand in shared memory: the stored value, its placement, and whether it is the transpose
    of the operand."""

    value: Operand
    place: SharedTile
    transposed: bool

    @property
    def key(self) -> Stored:
        return self.value, self.place


def blocks_with_dots(function: Function) -> Iterator[str]:
    """Blocks with dots, less those of loops whose iterations copy ahead. Copies to fixed stages are
    those before a loop."""
    around = loops(function)
    copying = {
        around.innermost.get(label)
        for label, block in function.blocks.items()
        for op in block.ops
        if isinstance(op, AsyncCopy) and isinstance(op.stage, Value)
    } - {None}
    for label, block in function.blocks.items():
        if around.innermost.get(label) not in copying and any(
            isinstance(x, Dot) for x in block.ops
        ):
            yield label


def plan_block(block: Block, needed: Mapping[Dot, Sequence[StoredOperand]], shared: int) -> Plan:
    """Plan stores, as `plan_stores`, for the dots of `block` whose operands in shared memory are
    `needed`."""
    own = {v: i for i, op in enumerate(block.ops) for v in op.results}
    places = [own[dot.results[0]] for dot in needed]
    dots = [[x.key for x in each] for each in needed.values()]
    keys = {key for each in dots for key in each}
    available = {key: bisect(places, own.get(cast(Value, key[0]), -1)) for key in keys}
    sizes = {key: key[1].bytes for key in keys}
    return dict(zip(needed, plan_stores(dots, sizes, available, shared), strict=True))


def plan_stores(
    dots: Sequence[Sequence[_K]], sizes: Mapping[_K, int], available: Mapping[_K, int], shared: int
) -> list[tuple[_K, ...] | None]:
    """Plan the stores before each of `dots`, given by the operands that it reads in shared memory.

    The result has the operands stored before a dot, or None for a dot that is left out because
    `shared` bytes do not suffice. A buffer is live from its store to the last dot that reads it.
    Operands are stored before the first dot that reads them. They are stored with those of an
    earlier dot if they are `available` there and all fit in half of the memory: they then share its
    barrier, and leave memory to other blocks.
    """
    positions = list(range(len(dots)))
    while (spans := _spans(dots, positions)) and (
        at := _first_overflow(spans, sizes, shared)
    ) is not None:
        positions.remove(at)
    stores = {at: [k for k in dict.fromkeys(dots[at]) if spans[k][0] == at] for at in positions}
    for at in positions:
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


def _spans(dots: Sequence[Sequence[_K]], positions: Sequence[int]) -> dict[_K, tuple[int, int]]:
    """The first and the last dot that read an operand."""
    spans: dict[_K, tuple[int, int]] = {}
    for at in positions:
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
