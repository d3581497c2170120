"""Loads between dots, outside of loops, that are issued before the block waits for the first one's
operands."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.cfg import cfg, reachable
from tileir.analysis.loops import loops
from tileir.backend.shared_memory.requirements import needs
from tileir.backend.software_pipeline.carried_loads import movable_slice
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    BlockBarrier,
    ConvertLayout,
    LocalLoad,
    LocalStore,
    SharedAlloc,
)
from tileir.ops.hopper import AsyncFence, Wgmma, WgmmaWait
from tileir.ops.memory import Load
from tileir.types import AddressSpace, Pointer, Tile

_OF_BLOCK = (
    AsyncCommit, AsyncCopy, AsyncFence, AsyncWait, BlockBarrier, ConvertLayout, LocalLoad,
    LocalStore, SharedAlloc, Wgmma, WgmmaWait,
)  # fmt: skip
"""Ops that change nothing but shared memory and registers, and order nothing else."""

_WAITS = (AsyncWait, BlockBarrier, ConvertLayout, Dot, LocalStore, Wgmma)
"""Ops that wait for what was loaded, or for the other threads."""


def prefetch_between_dots(function: Function) -> Function:
    """`function` in which tiles that a block loads after its first dot has to wait are loaded
    before: what they are combined with is known later, and the latency of memory passes meanwhile.

    A load stays where it is if it is in a loop, if its address or mask is computed with effects or
    through shared memory, or if an op that may run before it may change what it reads.
    """
    blocks, needed = {}, needs(function)
    for label, block in function.blocks.items():
        if not loops(function).depth(label):
            blocks[label] = _prefetch_in_block(function, block, needed)
    changed = {k: b for k, b in blocks.items() if b is not function.blocks[k]}
    return function.with_blocks({**function.blocks, **changed}) if changed else function


def _prefetch_in_block(function: Function, block: Block, staged: Container[Op]) -> Block:
    begin = next((i for i, op in enumerate(block.ops) if isinstance(op, _WAITS)), None)
    if begin is None:
        return block
    later = frozenset(block.ops[begin:])
    moved = set[Op]()
    for op in block.ops[begin:]:
        if isinstance(op, Load) and _may_move(function, block, op):
            needed = movable_slice(function, op, later)
            if needed is not None and not any(x in staged for x in needed):
                moved |= needed
    if not moved:
        return block
    first = [op for op in block.ops[begin:] if op in moved]
    rest = [op for op in block.ops[begin:] if op not in moved]
    return attrs.evolve(block, ops=(*block.ops[:begin], *first, *rest))


def _may_move(function: Function, block: Block, load: Load) -> bool:
    """Whether `load` reads a tile of global memory that nothing before it may change."""
    kind = load.pointer.type
    if load.volatile or not isinstance(kind, Tile) or load.predicate is not None:
        return False
    if cast(Pointer, kind.element).space not in (AddressSpace.GENERIC, AddressSpace.GLOBAL):
        return False
    successors = cfg(function).successors
    for label, other in function.blocks.items():
        if label == block.label:
            ops = other.ops[: other.ops.index(load)]
        elif block.label in reachable(label, successors):
            ops = other.ops
        else:
            continue
        writers = (op for op in ops if not isinstance(op, _OF_BLOCK))
        if any(aliases(function).may_change(op, load) for op in writers):
            return False
    return True
