"""Accumulators of a loop that a branch in the loop reads, stores and resets, for example at the end
of each tile of a persistent matmul."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.control import CondBranch
from tileir.ops.dot import Dot
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import fresh, map_edges, with_arguments
from tileir.passes.dce import dce
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.values import Value


def reset_in_branches(function: Function, loop: Loop) -> Function:
    """`function` where accumulators of dots in `loop` that a select resets, under the condition of
    a branch just before or after, are reset in the branch; the other branch is then empty."""
    if not any(_chooses(function, op) for label in loop.order for op in function.blocks[label].ops):
        return function
    function = simplify_cfg(function)  # an empty branch leads straight to the join
    for label in loops(function).by_header[loop.header].order:
        for result in [op.result for op in function.blocks[label].ops if _chooses(function, op)]:
            select = cast(Select, definitions(function)[result])
            branch = _branch_next_to(function, label, select)
            if branch is not None:
                function = _reset_in(function, select, branch)
    return function


def _chooses(function: Function, op: Op) -> bool:
    """Whether `op` selects between the result of a dot and another value, under one scalar
    condition."""
    if not isinstance(op, Select):
        return False
    origin = definitions(function)
    condition, *arms = (origin.get(cast(Value, v)) for v in op.inputs)
    return isinstance(condition, Splat) and any(isinstance(arm, Dot) for arm in arms)


@attrs.frozen
class _Branch:
    """A branch at the end of block `above` that joins in block `join`: blocks that `entry`
    dominates run if the condition is `holds`, and then `last`."""

    above: str
    entry: str
    last: str
    join: str
    holds: bool


def _branch_next_to(function: Function, label: str, select: Select) -> _Branch | None:
    """The branch on the condition of `select`, of block `label`, just before or after it, if all
    ops that read the result of `select` follow the branch."""
    tree, lanes = dominance(function), definitions(function)[cast(Value, select.condition)]
    for above in (label, tree.parent.get(label, label)):
        branch = function.blocks[above].terminator
        if isinstance(branch, CondBranch) and branch.condition is lanes.inputs[0]:
            result = _joining(function, above, branch)
            if result is not None and label in (above, result.join):
                return result if _follow(function, select, result) else None
    return None


def _follow(function: Function, select: Select, branch: _Branch) -> bool:
    """Whether all ops that read the result of `select` follow `branch`."""
    tree, readers = dominance(function), uses(function).get(select.results[0], ())
    before = [x for x in function.blocks if tree.dominates(branch.entry, x)]
    passed = [function.blocks[x].terminator for x in (branch.above, branch.last)]
    ops = (op for x in (branch.above, *before) for op in function.blocks[x].ops)
    return not any(op in readers and op not in passed for op in ops)


def _joining(function: Function, above: str, branch: CondBranch) -> _Branch | None:
    """The branch at the end of block `above`, one of whose ways leads straight to its join."""
    graph, tree = cfg(function), dominance(function)
    for holds, entry, join in (
        (True, branch.then.label, branch.otherwise.label),
        (False, branch.otherwise.label, branch.then.label),
    ):
        last = [x for x in graph.predecessors[join] if x != above]
        alone = graph.predecessors[entry] == (above,) and entry != join
        if alone and len(last) == 1 and tree.dominates(entry, last[0]):
            return _Branch(above, entry, last[0], join, holds)
    return None


def _reset_in(function: Function, select: Select, branch: _Branch) -> Function:
    """`function` with a parameter of the join in place of `select`."""
    result = select.results[0]
    parameter = fresh(result)
    _, then, otherwise = select.inputs
    arms = (then, otherwise) if branch.holds else (otherwise, then)
    passed = {branch.last: arms[0], branch.above: arms[1]}
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        own = passed.get(label, parameter)
        ops = [op.remap({result: own}) for op in block.ops if op is not select]
        if label in passed:
            ops[-1] = map_edges(
                ops[-1],
                lambda e, own=own: with_arguments(e, [own]) if e.label == branch.join else e,
            )
        parameters = block.parameters
        if label == branch.join:
            parameters = (*parameters, parameter)
        blocks[label] = attrs.evolve(block, parameters=parameters, ops=tuple(ops))
    return dce(function.with_blocks(blocks))


def conditional_readers(
    function: Function, loop: Loop, accumulator: Value, total: Value
) -> Mapping[str, str] | None:
    """The blocks of `loop` that read `total`, which the loop passes on as its parameter
    `accumulator` or replaces; each with the block through which all ways to it lead from where
    every iteration passes. None where an iteration may read `total` otherwise, or after such a
    block."""
    latch, place = cast(str, loop.latch), defining_blocks(function)
    header, tree = function.blocks[loop.header], dominance(function)
    index = header.parameters.index(accumulator)
    blocks, edges = dict[str, str](), list[str]()
    waiting, seen = [total], {total}
    while waiting:
        value = waiting.pop()
        for label in loop.order:
            for op in function.blocks[label].ops[:-1]:
                if value in op.operands:
                    entry = _entry(function, label, latch)
                    if value is not total or entry is None:
                        return None
                    blocks[label] = entry
            for edge in function.blocks[label].successors:
                numbers = [n for n, v in enumerate(edge.arguments) if v is value]
                if numbers and value is total:
                    edges.append(label)
                if edge.label == loop.header and numbers not in ([], [index]):
                    return None
                if edge.label in loop.blocks and edge.label != loop.header:
                    more = [function.blocks[edge.label].parameters[n] for n in numbers]
                    waiting += [v for v in more if v not in seen]
                    seen.update(more)
    last = function.blocks[latch].successors
    if not all(e.arguments[index] in seen for e in last if e.label == loop.header):
        return None
    after = set[str]()
    for entry in blocks.values():
        if not tree.strictly_dominates(place[total], entry):
            return None
        after |= _blocks_after(function, loop, entry)
    return None if after & {*edges} else blocks


def _entry(function: Function, label: str, latch: str) -> str | None:
    """The first block on every way to `label` that not every iteration passes."""
    tree, entry = dominance(function), None
    while not tree.dominates(label, latch):
        entry, label = label, tree.parent[label]
    return entry


def _blocks_after(function: Function, loop: Loop, label: str) -> set[str]:
    """The blocks that an iteration may pass after it enters `label`, that one included."""
    reached, waiting = {label}, [label]
    while waiting:
        for following in cfg(function).successors[waiting.pop()]:
            if following in loop.blocks and following not in {loop.header, *reached}:
                reached.add(following)
                waiting.append(following)
    return reached
