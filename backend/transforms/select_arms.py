"""Selection between tiles in place of a branch around the few ops that compute one of them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis.cfg import cfg
from tileir.backend.layouts.shape_ops import is_layout_only
from tileir.effects import EXACT, ROUNDED, Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.control import Branch, CondBranch
from tileir.ops.shape import Splat
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import I1, Tile, with_element
from tileir.values import Operand

_MOST = 2
"""The most ops on elements of tiles that are computed whether they are needed or not."""


def select_arms(function: Function) -> Function:
    """`function` in which tiles that a branch chooses are computed and selected, if its arms
    consist of at most two ops of one instruction for each element.

    A branch ends a block: loads after it are issued only when what its arms read was loaded. Here
    they are in flight together.
    """
    changed = True
    while changed:
        changed = False
        predecessors = cfg(function).predecessors
        for label, block in function.blocks.items():
            straight = _select_block(function, block, predecessors)
            if straight is not None:
                function = simplify_cfg(function.with_blocks({**function.blocks, label: straight}))
                changed = True
                break
    return function


def _select_block(
    function: Function, block: Block, predecessors: Mapping[str, tuple[str, ...]]
) -> Block | None:
    """`block` with the ops of the arms that it branches to, and selections of their results; None
    if it branches to no such arms."""
    branch = block.terminator
    if not isinstance(branch, CondBranch) or branch.then.label == branch.otherwise.label:
        return None
    arms: list[tuple[Op, ...]] = []
    ends: list[Successor] = []
    for edge, other in zip(branch.successors, reversed(branch.successors), strict=True):
        arm = function.blocks[edge.label]
        is_arm = len(predecessors[edge.label]) == 1 and not arm.parameters
        if is_arm and isinstance(arm.terminator, Branch) and edge.label != other.label:
            arms.append(arm.ops[:-1])
            ends.append(arm.terminator.successors[0])
        else:
            arms.append(())
            ends.append(edge)
    computed = [op for arm in arms for op in arm]
    if not computed or ends[0].label != ends[1].label or not _are_few(computed):
        return None
    selections, arguments = list[Op](), list[Operand]()
    for then, otherwise in zip(ends[0].arguments, ends[1].arguments, strict=True):
        if then == otherwise:
            arguments.append(then)
            continue
        if not isinstance(then.type, Tile):
            return None
        conditions = Splat(branch.condition, with_element(then.type, I1))
        selections += [conditions, Select(conditions.result, then, otherwise)]
        arguments.append(selections[-1].results[0])
    if not selections:
        return None
    end = Branch(Successor(ends[0].label, tuple(arguments)), location=branch.location)
    return attrs.evolve(block, ops=(*block.ops[:-1], *computed, *selections, end))


def _are_few(ops: list[Op]) -> bool:
    """Whether `ops` may always be executed, and few of them compute elements of tiles."""
    if any(op.effects is not Effects.PURE or op.predicate is not None for op in ops):
        return False
    tiles = [op for op in ops if any(isinstance(v.type, Tile) for v in (*op.inputs, *op.results))]
    counted = [op for op in tiles if not is_layout_only(op)]
    are_short = all(op.elementwise and op.numerics in (EXACT, ROUNDED) for op in counted)
    return are_short and len(counted) <= _MOST
