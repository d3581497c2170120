"""Predicate the side effects of a program instance."""

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


def predicate_side_effects(function: Function, condition: Value) -> Function | Refusal:
    """`function` that ends after its dots where `condition` is false; or a Refusal if that would
    skip a dot or execute a side effect."""
    observable = [
        n for n in cfg(function).order if any(map(_is_observable, function.blocks[n].ops))
    ]
    if not observable:
        return Refusal("the kernel writes nothing")
    first = reduce(dominance(function).common, observable)
    if any(isinstance(op, Dot) for op in function.blocks[first].ops):
        function, first = _split_block(function, first)
    multiplies = _blocks_before_dots(function)
    if first in multiplies:
        return Refusal("the kernel writes before its dots are complete")
    tree = dominance(function)
    while tree.parent[first] not in multiplies:
        first = tree.parent[first]
    return _add_guard(function, first, condition)


def _is_observable(op: Op) -> bool:
    """Whether a repeated execution of `op` is observable; that of an assertion is not."""
    effects = op.effects
    outside = effects & Effects.OUTSIDE and not effects & Effects.TRAP
    return bool(effects & Effects.WRITE) or bool(outside)


def _split_block(function: Function, label: str) -> tuple[Function, str]:
    """`function` with block `label` split at its first observable op; the label of the second
    part."""
    block = function.blocks[label]
    index = next(i for i, op in enumerate(block.ops) if _is_observable(op))
    results_label = fresh_label(f"{label}.results", function.blocks)
    blocks: dict[str, Block] = {}
    for name, old in function.blocks.items():
        blocks[name] = old
        if name == label:
            ops = (*block.ops[:index], Branch(Successor(results_label)))
            blocks[name] = attrs.evolve(block, ops=ops)
            blocks[results_label] = Block(results_label, (), block.ops[index:])
    return function.with_blocks(blocks), results_label


def _blocks_before_dots(function: Function) -> set[str]:
    """The blocks with dots, and those from which control may reach them."""
    graph = cfg(function)
    labels = {n for n, b in function.blocks.items() if any(isinstance(op, Dot) for op in b.ops)}
    pending = list(labels)
    while pending:
        for label in graph.predecessors.get(pending.pop(), ()):
            if label not in labels:
                labels.add(label)
                pending.append(label)
    return labels


def _add_guard(function: Function, label: str, condition: Value) -> Function:
    """`function` with a guard before block `label`: the instance ends there if `condition` is
    false."""
    guard = fresh_label("guard", function.blocks)
    end = fresh_label("outside", {*function.blocks, guard})
    passed = tuple(fresh(v) for v in function.blocks[label].parameters)
    choice = CondBranch(condition, Successor(label, passed), Successor(end))
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        if name == label:
            blocks[guard] = Block(guard, passed, (choice,))
        blocks[name] = redirect_edges(block, label, guard)
    blocks[end] = Block(end, (), (Return(),))
    return function.with_blocks(blocks)
