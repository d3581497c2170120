"""Operands that neither a pipelined loop nor the loops around it change are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from tileir.analysis.loops import Loop, is_invariant, loops
from tileir.analysis.shared_buffers import READS
from tileir.analysis.uses import uses
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, Wgmma
from tileir.values import Operand


def store_once(function: Function, most: int) -> Function:
    """The function with each operand that is stored to shared memory before a loop stored before
    the outermost loop that does not change it, up to `most` bytes in all.

    It takes no registers in that loop, and is not stored in every iteration. The barrier before the
    dots is in the loop that reads the operand, and serves these stores, too.
    """
    blocks, size = dict(function.blocks), 0
    moved: dict[str, list[Op]] = {}
    for label, alloc, store in _operands(function):
        loop, bytes_ = outermost_loop(function, label, store.value), SharedTile.of(alloc).bytes
        if loop is None or size + bytes_ > most:
            continue
        size += bytes_
        moved.setdefault(cast(str, loop.preheader), []).extend((alloc, store))
        kept = (op for op in blocks[label].ops if op is not alloc and op is not store)
        blocks[label] = attrs.evolve(blocks[label], ops=tuple(kept))
    fence = [AsyncFence()] if any(isinstance(op, Wgmma) for op in function.ops) else []
    for label, ops in moved.items():
        block = blocks[label]
        blocks[label] = attrs.evolve(block, ops=(*block.ops[:-1], *ops, *fence, block.terminator))
    return function.with_blocks(blocks) if moved else function


def outermost_loop(function: Function, label: str, operand: Operand) -> Loop | None:
    """The outermost loop around block `label` that does not change `operand` and that one block
    leads to; None where there is none."""
    around, result = loops(function), None
    loop = around.around(label)
    while loop is not None and is_invariant(function, loop, operand):
        result = result if loop.preheader is None else loop
        loop = None if loop.parent is None else around.by_header[loop.parent]
    return result


def _operands(function: Function) -> Iterator[tuple[str, SharedAlloc, LocalStore]]:
    """The buffers that a block of a loop allocates and fills as a whole, and that nothing else
    writes: the block, the allocation and the store."""
    users = uses(function)
    for label in loops(function).innermost:
        ops = function.blocks[label].ops
        for alloc in ops:
            if isinstance(alloc, SharedAlloc) and alloc.shape[0] == 1:
                writes = [op for op in users.get(alloc.results[0], ()) if op.mnemonic not in READS]
                (store, *others) = writes or [alloc]
                if isinstance(store, LocalStore) and not others and store in ops:
                    yield label, alloc, store
