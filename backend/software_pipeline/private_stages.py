"""Removal of barriers of pipelined loops in which every thread reads only what it has copied
itself."""

from __future__ import annotations

from typing import cast

import attrs

from tileir.analysis.loops import loops
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.gpu import AsyncCopy, AsyncWait, BlockBarrier, LocalLoad
from tileir.types import Tile
from tileir.values import Operand


def remove_needless_barriers(function: Function) -> Function:
    """`function`, whose tiles have layouts, without the barriers in loops directly after waits for
    copies, and before copies, if each thread reads only elements that it has copied itself: it
    waits for its own copies, and copies to a stage after it has read it."""
    copied, read = dict[Operand, set[Layout]](), dict[Operand, set[Layout]]()
    parts = False
    for op in function.ops:
        if isinstance(op, AsyncCopy):
            copied.setdefault(op.buffer, set()).add(_layout(op.pointer))
        elif isinstance(op, LocalLoad):
            parts |= any(op.offsets)
            read.setdefault(op.buffer, set()).add(_layout(op.results[0]))
        elif any(operand in copied for operand in op.operands):
            return function  # the buffer has other accesses
    layouts = [copied[buffer] | read.get(buffer, set()) for buffer in copied]
    if parts or read.keys() - copied.keys() or not all(map(_is_private, layouts)):
        return function
    around = loops(function)
    return function.with_blocks(
        {
            label: _without_barriers(block) if around.depth(label) else block
            for label, block in function.blocks.items()
        }
    )


def _layout(operand: Operand) -> Layout:
    return cast(Layout, cast(Tile, operand.type).layout)


def _is_private(layouts: set[Layout]) -> bool:
    """Whether `layouts` has a single layout without replication."""
    (layout, *others) = layouts
    if others or layout.digits("lane") or layout.digits("warp"):
        return False
    return all(any(vector) for vector in (*layout.lane, *layout.warp))


def _without_barriers(block: Block) -> Block:
    ops: list[Op] = []
    following: Op | None = None
    for op in reversed(block.ops):
        if isinstance(op, AsyncWait) and ops and isinstance(ops[-1], BlockBarrier):
            ops.pop()
        if not (isinstance(op, BlockBarrier) and isinstance(following, AsyncCopy)):
            ops.append(op)
        if op.effects is not Effects.PURE:
            following = op
    return attrs.evolve(block, ops=tuple(reversed(ops)))
