"""Hoist loads of vectors, such as scales, above the wait for a matmul."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tileir.effects import Effects
from tileir.ir import Block
from tileir.op import Op
from tileir.ops.hopper import MBarrierArrive, MBarrierWait, Wgmma, WgmmaWait
from tileir.ops.memory import Load
from tileir.types import shape_of
from tileir.values import Value

_RING_OPS = (MBarrierArrive, MBarrierWait, WgmmaWait)
"""Ops that leave global memory as it is."""

_LONGEST = 128
"""Elements of a vector of which a thread has 32 at most while a matmul is in flight."""


def hoist_vector_loads(block: Block) -> Block:
    """`block` with the loads of vectors and scalars that follow its only matmul before the wait for
    it, such as the scales of the result: they are then loaded while the matmul is in flight. A load
    stays where it is if it follows an op that may write memory, or if its address is computed from
    the matmul."""
    if sum(isinstance(op, Wgmma) for op in block.ops) != 1:
        return block
    start = next(i for i, op in enumerate(block.ops) if isinstance(op, Wgmma)) + 1
    after = block.ops[start:]
    moved = set(_movable(after))
    if not any(isinstance(op, Load) for op in moved):
        return block
    hoisted = [op for op in after if op in moved]
    others = [op for op in after if op not in moved]
    ops = (*block.ops[:start], *hoisted, *others)
    same = all(new is old for new, old in zip(ops, block.ops, strict=True))
    return block if same else attrs.evolve(block, ops=ops)


def _movable(ops: Sequence[Op]) -> Iterator[Op]:
    """The loads of `ops` that may be the first of them, and the ops that compute their operands."""
    pure: dict[Value, Op] = {}
    fixed: set[Value] = set()
    """Results of ops that stay."""
    for op in ops:
        if fixed.isdisjoint(op.operands) and isinstance(op, Load) and _is_short(op):  # type: ignore[arg-type]
            yield op
            waiting = [*op.operands]
            while waiting:
                needed = pure.pop(waiting.pop(), None)  # type: ignore[arg-type]
                if needed is not None:
                    yield needed
                    waiting += needed.operands
        elif fixed.isdisjoint(op.operands) and not op.effects:  # type: ignore[arg-type]
            pure.update(dict.fromkeys(op.results, op))
        else:
            fixed.update(op.results)
            if op.effects & ~Effects.READ and not isinstance(op, _RING_OPS):
                return


def _is_short(op: Load) -> bool:
    if op.volatile or op.predicate is not None:
        return False
    shape = shape_of(op.results[0].type)
    return len(shape) < 2 and all(extent <= _LONGEST for extent in shape)
