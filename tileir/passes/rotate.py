"""Loop rotation: move the test from before the body to after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import Dominance, dominance
from tileir.analysis.loops import loops
from tileir.analysis.uses import uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch, CondBranch
from tileir.passes.cfg_edit import copy_op, fresh, fresh_label, map_edges, with_arguments
from tileir.passmanager.registry import pass_
from tileir.types import Tile
from tileir.values import Operand, Value

_MOST = 8
"""Ops of a test up to which it is copied."""


@pass_("rotate")
def rotate(function: Function) -> Function:
    """Rotate loops: test the condition at the end of every iteration, and once before the first.

    - A critical edge to or from the header is split.
    - A header that computes a few scalars without effects and ends in the exit test is cloned into
      each of its predecessors and removed.

    Values that the header defines become parameters of the body and of the exit block. A loop is
    not rotated if its branches have loop options, if its latch ends in a conditional branch, or if
    a value of the header is used where both paths join. A function with unreachable blocks is not
    changed.

    before:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          br test
        test:
          %i = phi i32 [0, entry], [%j, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, exit
        body:
          %j = add i32 %i, 3
          br test
        exit:
          store %p, %i
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          %more, _ = icmp (i1, i1) 0, %n {predicate = slt}
          cond_br %more, body, exit
        body:
          %i = phi i32 [0, entry], [%j, body]
          %j = add i32 %i, 3
          %more.1, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more.1, body, exit
        exit:
          %i.1 = phi i32 [0, entry], [%j, body]
          store %p, %i.1
          ret
        }
    """
    headers = [label for label in loops(function).by_header if _tests(function, label)]
    if not headers or len(cfg(function).order) < len(function.blocks):
        return function
    split = _split(function, frozenset(headers))
    tests = _loops_to_rotate(split, headers)
    return _rotate(split, tests) if tests else function


def _tests(function: Function, header: str) -> bool:
    """Whether `header` decides by a few scalars without effects if its loop goes on."""
    *ops, last = function.blocks[header].ops
    loop = loops(function).by_header[header]
    ways = {edge.label for edge in last.successors}
    return (
        isinstance(last, CondBranch)
        and len(ways - loop.blocks) == len(ways & loop.blocks) == 1
        and header not in ways
        and len(ops) <= _MOST
        and all(op.effects is Effects.PURE and _scalar(op) for op in ops)
        and all(isinstance(function.blocks[latch].terminator, Branch) for latch in loop.latches)
        and all(_plain(function.blocks[x].terminator) for x in (header, *loop.latches))
        and all(_plain(function.blocks[x].terminator) for x in cfg(function).predecessors[header])
    )


def _plain(jump: Op) -> bool:
    """Whether `jump` is a branch without attributes."""
    return isinstance(jump, (Branch, CondBranch)) and jump.stages is None and jump.unroll is None


def _scalar(op: Op) -> bool:
    return not any(isinstance(v.type, Tile) for v in (*op.operands, *op.results))


def _split(function: Function, tests: frozenset[str]) -> Function:
    """Split critical edges, so that only jumps lead to `tests` and to their successors."""
    before, labels = cfg(function).predecessors, set(function.blocks)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        many, result = len(block.successors) > 1, list[Block]()
        for edge in block.successors if many else ():
            if edge.label in tests or (label in tests and len(before[edge.label]) > 1):
                result.append(
                    Block(fresh_label(f"{label}.{edge.label}", labels), (), (Branch(edge),))
                )
                labels.add(result[-1].label)
        blocks[label] = _led_through(block, result)
        blocks.update((b.label, b) for b in result)
    return function.with_blocks(blocks)


def _led_through(block: Block, blocks: Sequence[Block]) -> Block:
    """`block` with its edges redirected to those of `blocks`, which split them."""
    if not blocks:
        return block
    ways = {b.ops[0].successors[0].label: Successor(b.label, ()) for b in blocks}
    last = map_edges(block.terminator, lambda edge: ways.get(edge.label, edge))
    return attrs.evolve(block, ops=(*block.ops[:-1], last))


@attrs.frozen(eq=False)
class _Test:
    """A `header` to be copied. `entered` maps each successor to the values of the header that are
    read in the blocks it dominates, each with the block parameter that replaces it. `read` maps the
    label of a reading block to the replacements of values there."""

    header: Block
    entered: Mapping[str, dict[Value, Value]]
    read: Mapping[str, dict[Value, Operand]]


def _loops_to_rotate(function: Function, headers: Iterable[str]) -> dict[str, _Test]:
    """The `headers` whose values are used in blocks that one of their successors dominates."""
    readers, tree = _readers(function), dominance(function)
    result = ((label, _test(function.blocks[label], tree, readers)) for label in headers)
    return {label: test for label, test in result if test is not None}


def _test(header: Block, tree: Dominance, readers: Mapping[Value, tuple[str, ...]]) -> _Test | None:
    entered: dict[str, dict[Value, Value]] = {edge.label: {} for edge in header.successors}
    read: dict[str, dict[Value, Operand]] = {}
    for value in (*header.parameters, *(v for op in header.ops for v in op.results)):
        for label in readers.get(value, ()):
            if label == header.label:
                continue
            target = next((target for target in entered if tree.dominates(target, label)), None)
            if target is None:
                return None
            read.setdefault(label, {})[value] = entered[target].setdefault(value, fresh(value))
    return _Test(header, entered, read)


def _readers(function: Function) -> dict[Value, tuple[str, ...]]:
    """The labels of the blocks that read each value."""
    defining = {op: label for label, block in function.blocks.items() for op in block.ops}
    return {
        value: tuple(dict.fromkeys(defining[op] for op in readers))
        for value, readers in uses(function).items()
    }


def _rotate(function: Function, tests: Mapping[str, _Test]) -> Function:
    """Replace jumps to `tests` by copies of them."""
    added = {entry: values for test in tests.values() for entry, values in test.entered.items()}
    read: dict[str, dict[Value, Operand]] = {}
    for test in tests.values():
        for label, env in test.read.items():
            read.setdefault(label, {}).update(env)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        if label in tests:
            continue
        ops = [op.remap(read.get(label, {})) for op in block.ops]
        target = ops[-1].successors[0] if len(ops[-1].successors) == 1 else None
        if target is not None and target.label in tests:
            ops[-1:] = _copy_test(tests[target.label], ops[-1], read.get(target.label, {}))
        parameters = (*block.parameters, *added.get(label, {}).values())
        blocks[label] = attrs.evolve(block, parameters=parameters, ops=ops)
    return function.with_blocks(blocks)


def _copy_test(test: _Test, jump: Op, read: Mapping[Value, Operand]) -> Iterator[Op]:
    """Copies of the ops of `test` to replace `jump`, whose loop attributes the new branch has;
    `read` are replacements of values that the test reads."""
    arguments = jump.successors[0].arguments
    env = {**read, **dict(zip(test.header.parameters, arguments, strict=True))}
    for op in test.header.ops[:-1]:
        yield copy_op(op, env)

    def passing(edge: Successor) -> Successor:
        return with_arguments(edge, (env[value] for value in test.entered[edge.label]))

    branch = map_edges(test.header.terminator.remap(env), passing)
    promised = cast(Branch, jump).independent_loads
    yield branch.evolve(independent_loads=True) if promised else branch
