"""Merging of two branches that execute the same ops on different operands into one block, which
selects the operands."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import Select
from tileir.ops.control import Branch, CondBranch
from tileir.passes.cfg_edit import copy_op
from tileir.passes.dce import dce
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import AddressSpace, Pointer, Scalar, Tile, Type
from tileir.values import Operand, Value

_DEPTH = 8
"""The most ops in a row that are recomputed, from a selected scalar to a tile."""


def merge_branches(function: Function) -> Function:
    """`function` in which the two blocks after a conditional branch are merged if they have the
    same ops in the same order and then branch to the same block.

    Where their ops read different values, these are selected. A tile is recomputed from selected
    scalars: a load through one of two pointers becomes a load through the selected pointer. This
    load can be in flight while the block before the branch computes, and its result takes no
    registers up to the end of a block.
    """
    merged = True
    while merged:
        merged = False
        graph = cfg(function)
        for label in graph.order:
            block = _merge(function, function.blocks[label], graph.predecessors)
            if block is not None:
                blocks = {**function.blocks, label: block}
                function = simplify_cfg(dce(function.with_blocks(blocks)))
                merged = True
                break
    return function


def _merge(
    function: Function, block: Block, predecessors: Mapping[str, tuple[str, ...]]
) -> Block | None:
    """`block` with the ops of both blocks that it branches to; None where they differ."""
    branch = block.terminator
    if not isinstance(branch, CondBranch) or branch.then.label == branch.otherwise.label:
        return None
    sides = [function.blocks[edge.label] for edge in branch.successors]
    ends = [side.terminator for side in sides]
    if any(len(predecessors[side.label]) > 1 or side.parameters for side in sides):
        return None
    if len({len(side.ops) for side in sides}) > 1 or len(sides[0].ops) < 2:
        return None
    if not all(isinstance(end, Branch) for end in ends) or len({_jump(e) for e in ends}) > 1:
        return None
    inside = {value for side in sides for op in side.ops for value in op.results}
    merger = _BranchMerger(branch.condition, definitions(function), inside)
    if not all(map(merger.merge, sides[0].ops[:-1], sides[1].ops[:-1])):
        return None
    then, otherwise = (end.successors[0] for end in ends)
    pairs = zip(then.arguments, otherwise.arguments, strict=True)
    arguments = [merger.either(a, b) for a, b in pairs]
    passed = [x for x in arguments if x is not None]
    if len(passed) < len(arguments):
        return None
    end = ends[0].evolve(target=Successor(then.label, tuple(passed)))
    return attrs.evolve(block, ops=(*block.ops[:-1], *merger.ops, end))


def _jump(end: Op) -> tuple[object, ...]:
    """A key that is equal for jumps to the same block with the same options."""
    return (end.successors[0].label, *end.key()[3:])


def _may_be_selected(type: Type) -> bool:
    """Whether values of `type` are addresses that ops compute, not buffers."""
    return isinstance(type, Pointer) and type.space != AddressSpace.SHARED


class _BranchMerger:
    """Builds the ops that replace those of two blocks, only one of which would run."""

    def __init__(
        self, condition: Operand, defined: Mapping[Value, Op], inside: AbstractSet[Operand]
    ) -> None:
        self.condition, self.defined, self.inside = condition, defined, inside
        self.ops: list[Op] = []
        self._either: dict[tuple[Operand, Operand], Operand] = {}
        """The value that replaces one of the first block and one of the second."""

    def merge(self, first: Op, second: Op) -> bool:
        """Append the op that replaces both; return False if there is none."""
        copied = self._common(first, second, 0)
        if copied is None:
            return False
        self.ops.append(copied)
        self._either.update(
            zip(zip(first.results, second.results, strict=True), copied.results, strict=True)
        )
        return True

    def either(self, a: Operand, b: Operand, depth: int = 0) -> Operand | None:
        """The value that is `a` if the first block would run, else `b`; None if there is none."""
        if a == b:
            return a
        earlier = self._either.get((a, b))
        if earlier is not None or a.type is not b.type or not self.inside.isdisjoint((a, b)):
            return earlier
        op = None
        if isinstance(a.type, Tile):
            op = self._recompute(a, b, depth)
        elif isinstance(a.type, Scalar) or _may_be_selected(a.type):
            op = Select(self.condition, a, b)
        if op is None:
            return None
        self.ops.append(op)
        self._either[a, b] = op.results[0]
        return op.results[0]

    def _recompute(self, a: Operand, b: Operand, depth: int) -> Op | None:
        """The op that computes either tile from selected scalars."""
        first, second = (self.defined.get(x) if type(x) is Value else None for x in (a, b))
        if first is None or second is None or depth == _DEPTH:
            return None
        if first.effects is not Effects.PURE or len(first.results) != 1:
            return None
        return self._common(first, second, depth + 1)

    def _common(self, first: Op, second: Op, depth: int) -> Op | None:
        """A copy of `first` whose operands are selected from those of both ops, if the ops differ
        in nothing else; else None."""
        pairs = list(zip(first.operands, second.operands, strict=False))
        if type(first) is not type(second) or len(second.operands) != len(pairs):
            return None
        to_first: dict[Value, Operand] = {}
        to_second: dict[Value, Operand] = {}
        for a, b in pairs:
            common = self.either(a, b, depth)
            if common is None:
                return None
            if type(a) is Value:
                to_first[a] = common
            if type(b) is Value:
                to_second[b] = common
        copied = first.remap(to_first)
        if copied.key() != second.remap(to_second).key():
            return None
        return copy_op(copied, {})
