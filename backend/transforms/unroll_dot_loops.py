"""Unrolling of short loops of dots within other loops.

A kernel such as a nearest-neighbour search has a loop over tiles of columns, and in it a loop over
the few steps of K. The pipeline of the inner loop would be empty at the end of every tile: threads
would wait for the first copies of each tile, and for its last dot. Where the inner loop is
unrolled, the copies of the next tile are under way while a tile is computed. Operands that all
tiles share are loaded once, before the outer loop.
"""

from __future__ import annotations

from typing import cast

import attrs

from tileir.analysis.induction import trip_count
from tileir.analysis.loops import Loop, is_invariant, loops
from tileir.analysis.uses import uses
from tileir.backend.demand import registers
from tileir.backend.software_pipeline.warpgroup_dots import is_computed
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import And
from tileir.ops.control import Branch, CondBranch
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import copy_op
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passes.licm import licm
from tileir.passes.simplify import simplify
from tileir.types import I1, Tile, shape_of
from tileir.values import Operand, Value

_MOST = 4
"""Iterations of a loop up to which it is unrolled: the dots of that many steps of K."""

_STAGES = 3
"""Stages of the outer loop whose tiles shared memory should hold."""

_WORD = 4
"""Bytes of a register."""


def unroll_dot_loops(function: Function, shared: int, warps: int) -> Function:
    """Unroll each loop of one dot that runs a known, small number of times and is all that computes
    dots in the loop around it. That loop must write no memory, since its loads are to be copied
    ahead, and `shared` bytes must hold the stages of what it loads for dots. Operands that it
    does not change are loaded before it."""
    outer: list[str] = []
    for header in tuple(loops(function).by_header):
        loop = loops(function).by_header[header]
        if (count := _iterations(function, loop)) and _fits(function, loop, count, shared):
            function = _unroll(function, loop, count)
            outer.append(cast(str, loop.parent))
    if not outer:
        return function
    function = cast(Function, licm(cse(simplify(function))).ir)
    for header in outer:
        function = _load_before(function, loops(function).by_header[header], warps)
    return dce(cast(Function, licm(function).ir))


# Unrolling ------------------------------------------------------------------------------------


def _iterations(function: Function, loop: Loop) -> int:
    """The number of iterations of `loop` if it may be unrolled, else 0."""
    if loop.parent is None or loop.inner or loop.preheader is None or len(loop.order) != 2:
        return 0
    header, body = (function.blocks[label] for label in loop.order)
    if not isinstance(header.terminator, CondBranch) or not _is_plain(body.terminator):
        return 0
    around = loops(function).by_header[loop.parent]
    ops = [op for label in around.blocks for op in function.blocks[label].ops]
    dots = [op for op in ops if isinstance(op, Dot)]
    if len(dots) != 1 or dots[0] not in body.ops or len(around.inner) != 1:
        return 0
    if any(op.effects & (Effects.WRITE | Effects.SYNC) for op in ops):
        return 0
    trips = trip_count(function, loop)
    count = trips.count if trips is not None else None
    return count if count is not None and 2 <= count <= _MOST else 0


def _is_plain(jump: Op) -> bool:
    """Whether `jump` is a branch without options of its loop."""
    return isinstance(jump, Branch) and jump.stages is None and jump.unroll is None


def _fits(function: Function, loop: Loop, count: int, shared: int) -> bool:
    """Whether `shared` bytes hold the stages of the matrices that `count` iterations load."""
    loaded = (
        registers(op.results[0].type)
        for op in function.blocks[loop.order[1]].ops
        if isinstance(op, Load) and len(shape_of(op.results[0].type)) == 2
    )
    return _STAGES * count * _WORD * sum(loaded) <= shared


def _unroll(function: Function, loop: Loop, count: int) -> Function:
    """`function` with `count` copies of the body of `loop` instead of the loop."""
    header, body = (function.blocks[label] for label in loop.order)
    before = function.blocks[cast(str, loop.preheader)]
    ops, arguments = list(before.ops[:-1]), before.terminator.successors[0].arguments
    for _ in range(count):
        env = _enter(header, arguments, ops)
        ops += [copy_op(op, env) for op in body.ops[:-1]]
        arguments = body.terminator.remap(env).successors[0].arguments
    env = _enter(header, arguments, ops)
    (leaving,) = (x for x in header.terminator.successors if x.label not in loop.blocks)
    ops.append(Branch(leaving).remap(env))
    blocks = {
        label: attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
        for label, block in function.blocks.items()
        if label not in loop.blocks
    }
    blocks[before.label] = attrs.evolve(before, ops=tuple(ops))
    return function.with_blocks(blocks)


def _enter(header: Block, arguments: tuple[Operand, ...], ops: list[Op]) -> dict[Value, Operand]:
    """The values of `header`, entered with `arguments`. Appends copies of its ops to `ops`."""
    env = dict[Value, Operand](zip(header.parameters, arguments, strict=True))
    ops += [copy_op(op, env) for op in header.ops[:-1]]
    return env


# Loads of all iterations ----------------------------------------------------------------------


def _load_before(function: Function, loop: Loop, warps: int) -> Function:
    """`function` with the operands that `loop` does not change loaded before it, if it runs."""
    header = function.blocks[loop.header]
    before = function.blocks[loop.preheader] if loop.preheader is not None else None
    last = header.terminator
    if (
        before is None
        or not isinstance(last, CondBranch)
        or any(x.effects for x in header.ops[:-1])
    ):
        return function
    first = next((x.label for x in last.successors if x.label in loop.blocks), None)
    if first is None or first != last.successors[0].label:
        return function
    loads = _fixed_operands(function, loop, function.blocks[first], warps)
    if not loads:
        return function
    ops = list(before.ops[:-1])
    env = _enter(header, before.terminator.successors[0].arguments, ops)
    for load in loads:
        ops += _if(last.remap(env).inputs[0], load)
    blocks, moved = dict(function.blocks), set(loads)
    blocks[before.label] = attrs.evolve(before, ops=(*ops, before.terminator))
    rest = tuple([op for op in blocks[first].ops if op not in moved])
    blocks[first] = attrs.evolve(blocks[first], ops=rest)
    return function.with_blocks(blocks)


def _fixed_operands(function: Function, loop: Loop, block: Block, warps: int) -> list[Load]:
    """The loads of `block` whose addresses and masks `loop` does not change, and that are only
    operands A of dots, or B of dots that `warps` compute as warpgroups: these are stored before the
    loop, where others B would stay in registers."""
    readers = uses(function)
    return [
        op
        for op in block.ops
        if isinstance(op, Load)
        and op.results[0] in readers
        and all(is_invariant(function, loop, v) for v in op.operands)
        and all(_may_be_stored(x, op.results[0], warps) for x in readers[op.results[0]])
    ]


def _may_be_stored(op: Op, operand: Value, warps: int) -> bool:
    """Whether `op` is a dot that may read `operand` where it is stored before the loop."""
    return isinstance(op, Dot) and (op.a is operand or (warps > 0 and is_computed(op, warps)))


def _if(runs: Operand, load: Load) -> list[Op]:
    """`load` where `runs`, and the ops that compute its mask."""
    ops: list[Op] = [Splat(runs, Tile(I1, shape_of(load.results[0].type)))]
    if load.mask is not None:
        ops.append(And(ops[-1].results[0], load.mask))
    return [*ops, attrs.evolve(load, mask=ops[-1].results[0])]
