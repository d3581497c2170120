"""Unrolling of loops by two."""

from __future__ import annotations

from tileir.analysis.loops import Loop
from tileir.analysis.uses import defining_blocks
from tileir.ir import Block, Function
from tileir.op import Successor
from tileir.passes.cfg_edit import copy_op, fresh, fresh_label, map_edges, redirect_edges
from tileir.values import Operand, Value


def unroll_by_two(function: Function, loop: Loop) -> tuple[Function, dict[str, str]] | None:
    """Unroll `loop` by two: its back edge enters a copy of its blocks, whose back edge enters the
    original. Returns the function and the label of each block's copy; None if values of the loop
    are used outside it except as arguments of its exit edges."""
    if _is_used_outside(function, loop):
        return None
    labels: dict[str, str] = {}
    for label in loop.order:
        labels[label] = fresh_label(f"{label}.again", {*function.blocks, *labels.values()})
    copies = _copies(function, loop, labels)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if label in loop.latches:
            blocks[label] = redirect_edges(block, loop.header, labels[loop.header])
        if label in labels:
            blocks[labels[label]] = copies[label]
    return function.with_blocks(blocks), labels


def _is_used_outside(function: Function, loop: Loop) -> bool:
    block_of = defining_blocks(function)
    inside = {v for v, block in block_of.items() if block in loop.blocks}
    return any(
        value in inside
        for label, block in function.blocks.items()
        if label not in loop.blocks
        for op in block.ops
        for value in op.operands
        if isinstance(value, Value)
    )


def _copies(function: Function, loop: Loop, labels: dict[str, str]) -> dict[str, Block]:
    """The copies of the blocks, with fresh values, by the labels of the originals. The back edge
    of the copy leads to the original header."""
    within = {old: new for old, new in labels.items() if old != loop.header}
    env: dict[Value, Operand] = {}
    heads: dict[str, tuple[Value, ...]] = {}
    for label in loop.order:
        heads[label] = tuple([fresh(v) for v in function.blocks[label].parameters])
        env.update(zip(function.blocks[label].parameters, heads[label], strict=True))
    copies: dict[str, Block] = {}
    for label in loop.order:
        ops = [copy_op(op, env) for op in function.blocks[label].ops]
        ops[-1] = map_edges(ops[-1], lambda edge: _retarget(edge, within))
        copies[label] = Block(labels[label], heads[label], ops)
    return copies


def _retarget(edge: Successor, labels: dict[str, str]) -> Successor:
    """`edge` to the copy of its target, if there is one."""
    return Successor(labels[edge.label], edge.arguments) if edge.label in labels else edge
