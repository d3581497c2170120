"""Placement of barriers (the paper's section 5.2.4).

An op that goes through shared memory writes it, synchronizes and reads it: that barrier is its own.
The remaining hazards are between ops. Data flow finds them:

- write after read: an op may overwrite shared bytes that a thread has not yet read;
- global memory: within a program instance a thread may load what another stored, or overwrite
  what another has not yet loaded;
- a releasing atomic comes after the earlier accesses of other threads; a fence comes between
  earlier accesses of any thread and later ones.

Where addresses are known, the threads that conflict in global memory are determined byte by byte
(`tileir.backend.shared_memory.thread_conflicts`). No barrier is needed where a thread conflicts
only with itself; where all conflicting threads are of one warp, a warp barrier suffices. Rows with
a stride that is known at run time do not overlap where masks keep columns within it
(`tileir.backend.shared_memory.separate_rows`). Addresses that are not affine may have remainders
that differ (`tileir.backend.shared_memory.residues`). A loop may move on by a step that is known at
run time, and accesses in it may be at such a distance: a branch then skips the barriers that are
only needed if that is shorter than what is accessed (`tileir.backend.shared_memory.runtime_steps`).

A barrier clears all earlier accesses. Loads after a barrier that do not need it move before it.
Pointers derived from different parameters are assumed not to alias within one program instance, as
everywhere in this compiler.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.uses import defining_blocks, definitions
from tileir.backend.shared_memory.hazards import Hazards, HazardState, MemoryUses, uses_of
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.shared_memory.thread_conflicts import SyncScope
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import fresh_label
from tileir.types import Scalar, Tile, element_of
from tileir.values import Value

Placed: TypeAlias = "dict[Op, SyncScope]"
"""The threads that synchronize before an op."""

Condition: TypeAlias = "tuple[list[Op], Value]"
"""Ops, and the scalar that they compute."""

_MOST_STEPS = 8
"""Distances that the condition of a barrier compares."""

_MOST_TRIED = 16384
"""Ops to walk over for barriers to be looked at once more, whether others make them needless."""


def place_barriers(
    function: Function, memory: SharedMemoryPlan, num_warps: int | None = None
) -> Function:
    """Insert a `gpu.barrier` before every op that has a hazard; no barrier is redundant.

    `num_warps` is the number of warps of a block; None if the layouts of its tiles determine it.
    """
    uses = uses_of(function, memory)
    if not uses.accesses and not uses.shared_ranges:
        return function
    hazards = Hazards(function, uses, num_warps or _warps(function))
    placed: Placed = {}
    while more := dict(_missing(function, hazards, placed)):
        for op, scope in more.items():
            placed[op] = max(scope, placed.get(op, SyncScope.NONE))
    blocks: dict[str, Block] = {}
    conditional: dict[Op, Condition] = {}
    if len(placed) * sum(map(len, uses.relevant.values())) <= _MOST_TRIED:
        _remove_redundant(function, hazards, placed)
        if placed and hazards.has_runtime_steps:
            conditional = _conditional(function, hazards, placed)
    for block in function.blocks.values():
        changed = _with(block, placed, uses)
        for part in _split(changed, conditional, function.blocks) if conditional else (changed,):
            blocks[part.label] = part
    return function.with_blocks(blocks) if placed else function


def _conditional(function: Function, hazards: Hazards, placed: Placed) -> dict[Op, Condition]:
    """The conditions of barriers of `placed` that are needed only if a loop moves on by less than
    it accesses in an iteration, or accesses are nearer than they are long: that the step or the
    distance, which is known at run time, is that short."""
    from tileir.backend.shared_memory.runtime_steps import any_shorter

    far = Hazards(function, hazards.uses, hazards.warps, assumed={})
    needed = dict(placed)
    _remove_redundant(function, far, needed)
    steps = far.assumed or {}
    if not 0 < len(steps) <= _MOST_STEPS:
        return {}
    tree, inside, defined = dominance(function), defining_blocks(function), definitions(function)
    parameters = {p.value for p in function.parameters}
    conditions: dict[Op, Condition] = {}
    for label, block in function.blocks.items():
        for index, op in enumerate(block.ops):
            if op in needed or placed.get(op) is not SyncScope.BLOCK:
                continue
            before = {v for other in block.ops[:index] for v in other.results}
            before.update(parameters, block.parameters)
            condition = any_shorter(
                steps,
                lambda v, before=before, label=label: (
                    v in before or tree.strictly_dominates(inside[v], label)
                ),
                defined,
            )
            if condition is not None:
                conditions[op] = condition
    return conditions


def _split(
    block: Block, conditions: Mapping[Op, Condition], labels: Container[str]
) -> Iterator[Block]:
    """`block` with branches around the barriers before the ops of `conditions`."""
    from tileir.ops.control import Branch, CondBranch
    from tileir.ops.gpu import BlockBarrier

    parts, ops = [block], list[Op]()
    for op in block.ops:
        if op in conditions:
            number = len(parts) // 2
            barrier = ops.pop()
            assert isinstance(barrier, BlockBarrier)
            names = [fresh_label(f"{block.label}.{x}{number}", labels) for x in ("sync", "after")]
            sync, after = (Block(name) for name in names)
            needed, result = conditions[op]
            leave = CondBranch(result, Successor(sync.label), Successor(after.label))
            parts[-1] = attrs.evolve(parts[-1], ops=(*ops, *needed, leave))
            parts += [attrs.evolve(sync, ops=(barrier, Branch(Successor(after.label)))), after]
            ops = []
        ops.append(op)
    parts[-1] = attrs.evolve(parts[-1], ops=tuple(ops))
    yield from parts


def _warps(function: Function) -> int | None:
    """Warps of a block, as layouts have it; None where there are no tiles."""
    kinds = (value.type for op in function.ops for value in op.results)
    return next((t.layout.size("warp") for t in kinds if isinstance(t, Tile)), None)


def _with(block: Block, placed: Placed, uses: MemoryUses) -> Block:
    if not any(op in placed for op in block.ops):
        return block
    from tileir.ops.gpu import BlockBarrier  # many kernels need no barrier

    ops: list[Op] = []
    prefetched: set[Op] = set()
    for index, op in enumerate(block.ops):
        if scope := placed.get(op):
            ahead = _loads_ahead(block.ops[index:], placed, uses)
            ops += [x for x in ahead if x not in prefetched]
            prefetched.update(ahead)
            ops.append(BlockBarrier(warp=scope is SyncScope.WARP, location=op.location))
        if op not in prefetched:
            ops.append(op)
    return attrs.evolve(block, ops=tuple(ops))


def _loads_ahead(ops: Sequence[Op], placed: Placed, uses: MemoryUses) -> list[Op]:
    """Return the loads at the start of `ops` from memory that is not written, and the arithmetic on
    their addresses.

    They need not wait for a barrier before the first op, and are in flight while threads wait.
    Loads after other arithmetic are left out, since they would fill registers.
    """
    waiting: dict[Value, Op] = {}
    chosen: dict[Op, None] = {}
    for index, op in enumerate(ops):
        if (index and op in placed) or op.shared is not None:
            break
        reads = op.effects is Effects.READ
        if not reads and (op.effects & ~Effects.TRAP or not _is_cheap(op)):
            break
        waiting.update((result, op) for result in op.results)
        if reads and isinstance(op, Load) and op not in uses.accesses:
            needed = _backward_slice(op, waiting)
            if all(not x.effects & Effects.READ or x in chosen or x is op for x in needed):
                chosen |= dict.fromkeys(needed)
    return [op for op in ops if op in chosen]


def _is_cheap(op: Op) -> bool:
    """Whether an op computes addresses, masks or what they consist of, or moves or extends what was
    loaded."""
    if not (op.elementwise or op.moves_elements or not op.inputs):
        return False
    elements = [element_of(result.type) for result in op.results]
    return op.numerics.exact or not any(isinstance(e, Scalar) and e.is_float for e in elements)


def _backward_slice(op: Op, waiting: Mapping[Value, Op]) -> list[Op]:
    """`op`, and those of `waiting` that lead to it."""
    slice_, pending = {op: None}, [op]
    while pending:
        for operand in pending.pop().operands:
            source = waiting.get(operand) if isinstance(operand, Value) else None
            if source is not None and source not in slice_:
                slice_[source] = None
                pending.append(source)
    return list(slice_)


def _remove_redundant(function: Function, hazards: Hazards, placed: Placed) -> None:
    """Remove the barriers of `placed` that the others make redundant."""
    for op in list(placed):
        scope = placed.pop(op)
        if next(_missing(function, hazards, placed), None) is not None:
            placed[op] = scope


def _missing(
    function: Function, hazards: Hazards, placed: Placed
) -> Iterator[tuple[Op, SyncScope]]:
    """Yield the ops that still have a hazard, with `placed` and the earlier results of this
    function."""
    graph, leaving = cfg(function), _leaving(function, hazards, placed)
    for label in graph.order:
        since = HazardState()
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


def _leaving(function: Function, hazards: Hazards, placed: Placed) -> dict[str, HazardState]:
    """The state at the end of each block, with the barriers of `placed`: the least solution."""
    graph = cfg(function)
    entering = {label: HazardState() for label in graph.order}
    leaving: dict[str, HazardState] = {}
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
