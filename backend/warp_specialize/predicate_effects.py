"""What is seen of a program instance, under a condition."""

from __future__ import annotations

from functools import reduce

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch, CondBranch, Return
from tileir.ops.dot import Dot
from tileir.passes.cfg_edit import fresh, fresh_label, redirect_edges
from tileir.refusal import Refusal
from tileir.values import Value


def predicate_side_effects(function: Function, held: Value) -> Function | Refusal:
    """`function`, which ends behind its products where `held` is false: what it writes and what
    else is seen of it comes later, else why not."""
    seen = [n for n in cfg(function).order if any(map(_seen, function.blocks[n].ops))]
    if not seen:
        return Refusal("it writes nothing")
    first = reduce(dominance(function).common, seen)
    if any(isinstance(op, Dot) for op in function.blocks[first].ops):
        function, first = _cut(function, first)
    multiplies = _multiplying(function)
    if first in multiplies:
        return Refusal("it writes before its products are done")
    tree = dominance(function)
    while tree.parent[first] not in multiplies:
        first = tree.parent[first]
    return _led(function, first, held)


def _seen(op: Op) -> bool:
    """Whether it shows that `op` is executed once more; a check of what holds anyway does not."""
    effects = op.effects
    outside = effects & Effects.OUTSIDE and not effects & Effects.TRAP
    return bool(effects & Effects.WRITE) or bool(outside)


def _cut(function: Function, label: str) -> tuple[Function, str]:
    """`function` with a block in two, the second from the first op on that shows; its label."""
    block = function.blocks[label]
    index = next(i for i, op in enumerate(block.ops) if _seen(op))
    rest = fresh_label(f"{label}.results", function.blocks)
    blocks: dict[str, Block] = {}
    for name, old in function.blocks.items():
        blocks[name] = old
        if name == label:
            ops = (*block.ops[:index], Branch(Successor(rest)))
            blocks[name] = attrs.evolve(block, ops=ops)
            blocks[rest] = Block(rest, (), block.ops[index:])
    return function.with_blocks(blocks), rest


def _multiplying(function: Function) -> set[str]:
    """The blocks that multiply, and those from which control may go on to them."""
    graph = cfg(function)
    found = {n for n, b in function.blocks.items() if any(isinstance(op, Dot) for op in b.ops)}
    left = list(found)
    while left:
        for label in graph.predecessors.get(left.pop(), ()):
            if label not in found:
                found.add(label)
                left.append(label)
    return found


def _led(function: Function, label: str, held: Value) -> Function:
    """`function` which comes to block `label` where `held` is true, and ends else."""
    guard = fresh_label("guard", function.blocks)
    end = fresh_label("outside", {*function.blocks, guard})
    passed = tuple(fresh(v) for v in function.blocks[label].parameters)
    choice = CondBranch(held, Successor(label, passed), Successor(end))
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        if name == label:
            blocks[guard] = Block(guard, passed, (choice,))
        blocks[name] = redirect_edges(block, label, guard)
    blocks[end] = Block(end, (), (Return(),))
    return function.with_blocks(blocks)
