"""Independent dots of warpgroups that are started together, after barriers are inserted."""

from __future__ import annotations

from collections.abc import Container

import attrs

from tileir.backend.shared_memory.requirements import needs
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.hopper import Wgmma, WgmmaWait
from tileir.values import Value


def start_dots_together(function: Function) -> Function:
    """`function` in which a `wgmma` starts before the wait for an earlier one of its block whose
    result it does not need. The matrix unit then computes one while the other's first results
    arrive.

    A wait moves down over computations that do not read its result to the last such `wgmma`, but
    over no other op: the operands in shared memory stay in place until the wait.
    """
    needed = needs(function)
    blocks = {
        label: _reorder(block, needed)
        for label, block in function.blocks.items()
        if sum(isinstance(op, Wgmma) for op in block.ops) > 1
    }
    changed = {k: b for k, b in blocks.items() if b is not function.blocks[k]}
    return function.with_blocks({**function.blocks, **changed}) if changed else function


def _reorder(block: Block, needed: Container[Op]) -> Block:
    ops = list(block.ops)
    for wait in [op for op in ops if isinstance(op, WgmmaWait) and not op.pending]:
        start = ops.index(wait)
        last = _last_independent(ops, start, needed)
        if last is not None:
            ops.insert(last, ops.pop(start))
    return block if ops == list(block.ops) else attrs.evolve(block, ops=tuple(ops))


def _last_independent(ops: list[Op], start: int, needed: Container[Op]) -> int | None:
    """The position of the last `wgmma` after the wait at `start` to which that may move; None if
    there is none."""
    last, waits = None, {ops[start].results[0]}
    for index in range(start + 1, len(ops)):
        op = ops[index]
        if waits.intersection(x for x in op.operands if isinstance(x, Value)):
            return last
        if isinstance(op, Wgmma):
            last = index
        elif isinstance(op, WgmmaWait):
            waits.add(op.results[0])
        elif op.effects is not Effects.PURE or op in needed:
            return last
    return last
