"""Vectors and scalars that the dots of a pipelined loop need besides their operands, such as the
decay of a chunk's rows: they are loaded as many iterations ahead as the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from tileir.analysis.loops import Loop
from tileir.analysis.uses import uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.shared_tile import SharedTile
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
    """The vectors, which are copied to shared memory, and the scalars, which registers carry."""

    vectors: tuple[StagedLoad, ...]
    scalars: tuple[Load, ...]


def additional_loads(
    function: Function, loop: Loop, ahead: Lookahead, blocks: Iterable[str],
    obstacle: Callable[[Load, bool], Refusal | None],
) -> AheadLoads:  # fmt: skip
    """The vectors and scalars to load ahead of those that `blocks` of `loop` load. A vector is
    copied if a thread can copy 4 bytes or more of it at a time, and masked-out elements are zero.
    The value reaches a dot through ops on registers, or is combined with the result of one.
    `obstacle` tells what may change a load; its second argument is whether the value reaches a dot.
    The ops that the loads depend on become part of `ahead`."""
    dots = dots_of(function, loop)
    from_dots = _computed_from(function, loop, (r for dot in dots for r in dot.results))
    vectors: list[StagedLoad] = []
    scalars: list[Load] = []
    widths = AccessWidths(function)
    for op in _plain_loads(function, blocks):
        tile = op.results[0].type
        staged = _stage_vector(op, widths) if isinstance(tile, Tile) else None
        if isinstance(tile, Tile) and staged is None:
            continue
        needed = _computed_from(function, loop, op.results)
        if needed.isdisjoint(from_dots):
            continue
        reaches = any(v in needed for dot in dots for v in dot.operands)
        if obstacle(op, reaches) is not None or ahead.add(op, reads=True) is not None:
            continue
        if staged is None:
            scalars.append(op)
        else:
            vectors.append(staged)
    return AheadLoads(tuple(vectors), tuple(scalars))


def _plain_loads(function: Function, blocks: Iterable[str]) -> Iterator[Load]:
    for label in blocks:
        for op in function.blocks[label].ops:
            if isinstance(op, Load) and not op.volatile and op.predicate is None:
                yield op


def _stage_vector(op: Load, widths: AccessWidths) -> StagedLoad | None:
    """A stage with the elements of a vector in one row."""
    tile = op.results[0].type
    assert isinstance(tile, Tile)
    if len(tile.shape) != 1 or not op.fills_with_zeros:
        return None
    if widths.width(op, 0) * tile.element.bytes < LEAST_BYTES:
        return None
    place = SharedTile(tile.element, (1, *tile.shape), 1, 0)
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
