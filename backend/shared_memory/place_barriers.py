"""Barriers between ops (the paper's section 5.2.4).

An op that goes through shared memory writes it, waits, and reads it: the barrier between is its
own. What remains are hazards between ops, found by data flow:

- write after read: an op may overwrite shared bytes that a thread has not yet read;
- through global memory: what one thread stored another may load, and what one has not yet loaded
  another may overwrite, in one program instance;
- an atomic that releases comes after what other threads did, and a fence between what threads did
  before and what any does behind.

Which threads an access of global memory brings together is decided byte by byte where addresses
are known (`tileir.backend.shared_memory.thread_conflicts`): nobody waits where a thread meets but
itself, and where all who meet are of one warp the warp waits.

A barrier clears everything before it. Pointers that come from different parameters are taken to
reach memory that does not overlap within one program instance, as everywhere in this compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.backend.shared_memory.hazards import BarrierState, Hazards, uses_of
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.shared_memory.thread_conflicts import SyncScope
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.gpu import Barrier
from tileir.types import Tile

Placed: TypeAlias = "dict[Op, SyncScope]"
"""Who waits before an op."""

_MOST_TRIED = 16384
"""Ops to walk over for barriers to be looked at once more, whether others make them needless."""


def place_barriers(
    function: Function, memory: SharedMemoryPlan, num_warps: int | None = None
) -> Function:
    """`function` with a `gpu.barrier` before every op that has a hazard; without any one of them
    it has a hazard. `num_warps`: of a block, None where the layouts of its tiles say it."""
    uses = uses_of(function, memory)
    if not uses.accesses and not uses.rooms:
        return function
    hazards = Hazards(function, uses, num_warps or _warps(function))
    placed: Placed = {}
    while more := dict(_missing(function, hazards, placed)):
        for op, scope in more.items():
            placed[op] = max(scope, placed.get(op, SyncScope.NONE))
    if len(placed) * sum(map(len, uses.relevant.values())) <= _MOST_TRIED:
        _thin(function, hazards, placed)
    blocks = {label: _with(block, placed) for label, block in function.blocks.items()}
    return function.with_blocks(blocks) if placed else function


def _warps(function: Function) -> int | None:
    """Warps of a block, as layouts have it; None where there are no tiles."""
    kinds = (value.type for op in function.ops for value in op.results)
    return next((t.layout.size("warp") for t in kinds if isinstance(t, Tile)), None)


def _with(block: Block, placed: Placed) -> Block:
    if not any(op in placed for op in block.ops):
        return block
    ops: list[Op] = []
    for op in block.ops:
        if scope := placed.get(op):
            ops.append(Barrier(warp=scope is SyncScope.WARP, location=op.location))
        ops.append(op)
    return attrs.evolve(block, ops=tuple(ops))


def _thin(function: Function, hazards: Hazards, placed: Placed) -> None:
    """Take out of `placed` what the rest makes needless."""
    for op in list(placed):
        scope = placed.pop(op)
        if next(_missing(function, hazards, placed), None) is not None:
            placed[op] = scope


def _missing(
    function: Function, hazards: Hazards, placed: Placed
) -> Iterator[tuple[Op, SyncScope]]:
    """Ops that have a hazard in spite of `placed` and of those that come before them here."""
    graph, leaving = cfg(function), _leaving(function, hazards, placed)
    for label in graph.order:
        since = BarrierState()
        for other in graph.predecessors[label]:
            since.join(hazards.enter(leaving[other], other, label))
        for op in hazards.uses.relevant[label]:
            since.wait(placed.get(op, SyncScope.NONE))
            scope = hazards.before(op, since)
            if scope > placed.get(op, SyncScope.NONE):
                yield op, scope
                since.wait(scope)
            hazards.do(op, since)
        leaving[label] = since


def _leaving(function: Function, hazards: Hazards, placed: Placed) -> dict[str, BarrierState]:
    """What has happened when a block ends, with the barriers of `placed`: the least solution."""
    graph = cfg(function)
    entering = {label: BarrierState() for label in graph.order}
    leaving: dict[str, BarrierState] = {}
    waiting = set(graph.order)
    while waiting:
        for label in graph.order:
            if label not in waiting:
                continue
            waiting.discard(label)
            since = leaving[label] = entering[label].copy()
            for op in hazards.uses.relevant[label]:
                since.wait(placed.get(op, SyncScope.NONE))
                hazards.do(op, since)
            for successor in graph.successors[label]:
                if entering[successor].join(hazards.enter(since, label, successor)):
                    waiting.add(successor)
    return leaving
