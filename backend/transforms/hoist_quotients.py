"""Quotients and remainders that a loop computes alike in every iteration, before the loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.hints import Hint
from tileir.ops.shape import Splat
from tileir.passes.lookahead import Lookahead
from tileir.refusal import Refusal
from tileir.types import I1, Tile, shape_of, with_element
from tileir.values import Constant, Operand


def hoist_quotients(function: Function) -> Function:
    """`function` with vectors and scalars that innermost loops divide alike in every iteration
    computed before these loops, such as `rows % m` in a function that a loop calls for the
    addresses of a step of K. A division takes tens of instructions.

    A loop that tests its condition first may have no iteration. Divisors are then 1, and hints
    promise nothing. `licm` hoists neither out of such a loop, nor does LLVM if the pipeliner
    computes them ahead, for iterations that may not run.
    """
    for header, loop in loops(function).by_header.items():
        if not loop.inner and loop.preheader is not None:
            moved = list(_invariant_quotients(function, loop))
            if moved:
                function = _hoist(function, loops(function).by_header[header], moved)
    return function


def _invariant_quotients(function: Function, loop: Loop) -> Iterator[Op]:
    """The ops to move, in order: divisions that have the same operands in every iteration, hints
    about what is computed from them, and what these need."""
    invariant = list(_invariant(function, loop))
    if not any(_divides(op) for op in invariant):
        return
    from_quotients = set[Operand]()
    for op in invariant:
        if _divides(op) or any(v in from_quotients for v in op.operands):
            from_quotients.update(op.results)
    required = set[Operand]()
    for op in reversed(invariant):
        hints = isinstance(op, Hint) and op.results[0] in from_quotients
        if hints or _divides(op) or any(v in required for v in op.results):
            required.update((*op.results, *op.operands))
    yield from (op for op in invariant if op.results[0] in required)


def _invariant(function: Function, loop: Loop) -> Iterator[Op]:
    """The ops of blocks that every iteration runs whose operands no iteration changes, without
    effects besides those of divisions and hints."""
    place, tree, inside = defining_blocks(function), dominance(function), set[Operand]()
    for label in loop.order:
        always = label != loop.header and all(tree.dominates(label, x) for x in loop.latches)
        for op in function.blocks[label].ops if always else ():
            if not op.results or op.predicate is not None or not _may_be_moved(op):
                continue
            if all(v in inside or place.get(cast(Any, v)) not in loop.blocks for v in op.inputs):
                inside.update(op.results)
                yield op


def _may_be_moved(op: Op) -> bool:
    if _divides(op) or isinstance(op, Hint):
        return sum(extent > 1 for extent in shape_of(op.results[0].type)) <= 1
    return op.effects is Effects.PURE


def _divides(op: Op) -> bool:
    """Whether `op` divides by what may be zero."""
    return op.divides and op.effects is not Effects.PURE


def _hoist(function: Function, loop: Loop, moved: list[Op]) -> Function:
    """`function` with ops `moved` before `loop`, under the condition that it has an iteration;
    `function` itself if that condition is not known before the loop."""
    ahead = Lookahead.of(function, loop)
    if isinstance(ahead, Refusal):
        return function
    before = function.blocks[cast(str, loop.preheader)]
    ops: list[Op] = []
    _, runs = ahead.compute_iteration(ahead.entering(before), None, ops)
    for op in moved:
        ops.append(op if runs is None else _conditional(op, runs, ops))
    gone = set(moved)
    blocks = {
        label: _without(block, gone) if label in loop.blocks else block
        for label, block in function.blocks.items()
    }
    blocks[before.label] = attrs.evolve(before, ops=(*before.ops[:-1], *ops, before.ops[-1]))
    return function.with_blocks(blocks)


def _conditional(op: Any, runs: Operand, ops: list[Op]) -> Op:
    """`op` where `runs` may be false; `ops` compute what it needs."""
    if isinstance(op, Hint):
        return attrs.evolve(op, predicate=runs)
    if not _divides(op):
        return cast(Op, op)
    kind = op.rhs.type
    if isinstance(kind, Tile):
        ops.append(Splat(runs, with_element(kind, I1)))
        runs = ops[-1].results[0]
    ops.append(Select(runs, op.rhs, Constant(kind, 1)))
    return attrs.evolve(op, rhs=ops[-1].results[0])


def _without(block: Block, gone: set[Op]) -> Block:
    return attrs.evolve(block, ops=tuple(op for op in block.ops if op not in gone))
