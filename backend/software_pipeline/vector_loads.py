"""Vectors and scalars that the dots of a pipelined loop need besides their operands, such as the
decay of a chunk's rows, and what the program loads for its next iteration: they are loaded as many
iterations ahead as the operands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import attrs

from tileir.analysis.loops import Loop
from tileir.analysis.uses import uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
from tileir.backend.software_pipeline.carried_loads import values_of_next
from tileir.backend.software_pipeline.expand import StagedLoad, dots_of, passed_on
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.passes.lookahead import Lookahead
from tileir.refusal import Refusal
from tileir.types import Tile
from tileir.values import Value

LEAST_BYTES = 4
"""Bytes of the smallest asynchronous copy (PTX ISA, cp.async)."""


@attrs.frozen
class AheadLoads:
    """The tiles, which are copied to shared memory, and the scalars, which registers carry."""

    tiles: tuple[StagedLoad, ...]
    scalars: tuple[Load, ...]


def additional_loads(
    function: Function, loop: Loop, ahead: Lookahead, blocks: Iterable[str],
    obstacle: Callable[[Load, bool], Refusal | None], carried: Collection[Load] = (),
) -> AheadLoads:  # fmt: skip
    """The vectors and scalars to load ahead of those that `blocks` of `loop` load, and of those
    that are `carried` to the next iteration, tiles of two dimensions too. A tile is copied if a
    thread can copy 4 bytes or more of it at a time, and masked-out elements are zero. The value
    reaches a dot through ops on registers, or is combined with the result of one. `obstacle` tells
    what may change a load; its second argument is whether the value reaches a dot. The ops that the
    loads depend on become part of `ahead`."""
    dots = dots_of(function, loop)
    from_dots = _computed_from(function, loop, (r for dot in dots for r in dot.results))
    tiles: list[StagedLoad] = []
    scalars: list[Load] = []
    widths = AccessWidths(function)
    for op in _plain_loads(function, blocks):
        tile = op.results[0].type
        ranks = (1, 2) if op in carried else (1,)
        staged = _stage(op, ranks, widths) if isinstance(tile, Tile) else None
        if isinstance(tile, Tile) and staged is None:
            continue
        values = values_of_next(function, loop, op) if op in carried else op.results
        needed = _computed_from(function, loop, values)
        if needed.isdisjoint(from_dots):
            continue
        reaches = any(v in needed for dot in dots for v in dot.operands)
        if obstacle(op, reaches) is not None or ahead.add(op, reads=True) is not None:
            continue
        if staged is None:
            scalars.append(op)
        else:
            tiles.append(staged)
    return AheadLoads(tuple(tiles), tuple(scalars))


def _plain_loads(function: Function, blocks: Iterable[str]) -> Iterator[Load]:
    for label in blocks:
        for op in function.blocks[label].ops:
            if isinstance(op, Load) and not op.volatile and op.predicate is None:
                yield op


def _stage(op: Load, ranks: tuple[int, ...], widths: AccessWidths) -> StagedLoad | None:
    """A stage of a tile of one of these `ranks`; that of a vector has its elements in one row."""
    tile = op.results[0].type
    assert isinstance(tile, Tile)
    if len(tile.shape) not in ranks or not op.fills_with_zeros:
        return None
    fast = widths.nearest(op.pointer)
    if widths.width(op, fast) * tile.element.bytes < LEAST_BYTES:
        return None
    if len(tile.shape) == 1:
        place = SharedTile(tile.element, (1, *tile.shape), 1, 0)
    else:
        place = SharedTile(
            tile.element, tile.shape, fast, full_swizzle(tile.element, tile.shape, fast)
        )
    return StagedLoad(op, place, (), through_registers=True)


def _computed_from(function: Function, loop: Loop, values: Iterable[Value]) -> set[Value]:
    """`values`, and what ops on registers compute from them in the same iteration."""
    inside: set[Op] = {op for label in loop.blocks for op in function.blocks[label].ops}
    waiting = list(values)
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        for op in uses(function).get(value, ()):
            if op in inside:
                following = passed_on(function, op, value)
                following += () if op.effects & ~Effects.TRAP else op.results
                more = [v for v in following if v not in seen]
                seen.update(more)
                waiting += more
    return seen
