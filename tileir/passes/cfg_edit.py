"""Edges, labels and copies: helpers of passes that change the control-flow graph."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

import attrs

from tileir.field import FieldKind
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.values import Operand, Value


def map_edges(terminator: Op, change: Callable[[Successor], Successor]) -> Op:
    """`terminator` with `change` applied to its edges; itself where they stay the same."""
    changes: dict[str, Successor] = {}
    for field in terminator.fields(FieldKind.SUCCESSOR):
        old = getattr(terminator, field.name)
        new = change(old)
        if new is not old:
            changes[field.name] = new
    return terminator.evolve(**changes) if changes else terminator


def without_arguments(terminator: Op, keeping: Mapping[str, tuple[bool, ...]]) -> Op:
    """`terminator` without the arguments for parameters that go: `keeping` tells by label which
    parameters stay; labels that it lacks lose none."""
    return map_edges(terminator, lambda edge: _drop_arguments(edge, keeping.get(edge.label)))


def _drop_arguments(edge: Successor, keep: tuple[bool, ...] | None) -> Successor:
    if keep is None or all(keep):
        return edge
    return Successor(edge.label, tuple(a for a, k in zip(edge.arguments, keep, strict=True) if k))


def fresh_label(required: str, used: Container[str]) -> str:
    """`required`, or the first of `required.1`, `required.2`, ... that is not in `used`."""
    label, count = required, 0
    while label in used:
        count += 1
        label = f"{required}.{count}"
    return label


def reserve_label(required: str, used: set[str]) -> str:
    """A fresh label, `required` if possible, which is entered into `used`."""
    label = fresh_label(required, used)
    used.add(label)
    return label


def fresh(value: Value) -> Value:
    """A new value of the same type and name."""
    return Value(value.type, value.name)


def copy_op(op: Op, env: dict[Value, Operand]) -> Op:
    """A copy of `op` that reads through `env` and defines new values, entered into `env`."""
    results = tuple(fresh(v) for v in op.results)
    copied = op.remap(env)
    if results:
        copied = copied.with_fields(results=results)
    env.update(zip(op.results, copied.results, strict=True))
    return copied


def copied_block(label: str, ops: Iterable[Op], live_out: Iterable[Value], after: str) -> Block:
    """A block with copies of `ops` that branches to block `after` with the copies of `live_out`."""
    env: dict[Value, Operand] = {}
    copies = [copy_op(op, env) for op in ops]
    return Block(label, (), (*copies, Branch(Successor(after, tuple([env[v] for v in live_out])))))


def with_arguments(edge: Successor, more: Iterable[Operand]) -> Successor:
    """`edge` passing `more` after what it passes."""
    return Successor(edge.label, (*edge.arguments, *more))


def append_arguments(terminator: Op, labels: Container[str], more: Iterable[Operand]) -> Op:
    """`terminator` passing `more` to the blocks `labels` after what it passes."""
    arguments = tuple(more)
    return map_edges(terminator, lambda e: with_arguments(e, arguments) if e.label in labels else e)


def add_preheader(function: Function, header: str, inside: Container[str]) -> tuple[Function, str]:
    """`function` with a preheader, and its label: a new block that the edges from blocks not
    `inside` the loop to its `header` pass through."""
    label = fresh_label(f"{header}.preheader", function.blocks)
    parameters = tuple(fresh(v) for v in function.blocks[header].parameters)
    result = Block(label, parameters, (Branch(Successor(header, parameters)),))
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        if name == header:
            blocks[label] = result
        blocks[name] = block if name in inside else redirect_edges(block, header, label)
    return function.with_blocks(blocks), label


def redirect_edges(block: Block, old: str, new: str) -> Block:
    """`block` with its edges to `old` leading to `new`."""
    last = map_edges(block.ops[-1], lambda e: Successor(new, e.arguments) if e.label == old else e)
    same = last is block.ops[-1]
    return block if same else attrs.evolve(block, ops=(*block.ops[:-1], last))
