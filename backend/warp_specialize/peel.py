"""Peel the first iteration of the main loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import Loop, loops
from tileir.analysis.ranges import ranges_of
from tileir.analysis.uses import defining_blocks, uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import ICmp
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import MBarrierArrive, Wgmma, WgmmaWait
from tileir.passes.cfg_edit import copy_op, fresh_label, map_edges
from tileir.passmanager.registry import PassResult, pass_
from tileir.types import I1, Tile
from tileir.values import Operand, Value, constant, is_zero

_MAX_OPS = 48
"""The most ops of a loop whose first iteration is peeled."""

Env = dict[Value, Operand]


@pass_("peel-first-iteration")
def peel_first_iteration(function: Function) -> PassResult:
    """Peel the first iteration of a loop of matmuls.

    An accumulator that starts at zero is then the result of a `wgmma` without accumulation, and its
    registers need no initialization. Scalars that only ops after the loop use, such as the address
    of the result, are computed while the first matmul is in flight. The loop must provably run at
    least once.

    before:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i32 %n, i32 %m, f32*<64, 8> %p, i32* %q) {
        entry:
          %some, _ = icmp (i1, i1) %n, 1 {predicate = sge}
          assume %some
          %place = udiv i32 %m, 3
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %acc = phi f32<64, 8> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          gpu.mbarrier_wait %full, 0, %i
          %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %acc
          %y = gpu.wgmma_wait f32<64, 8> %x
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %acc
          store %q, %place
          ret
        }
    after:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i32 %n, i32 %m, f32*<64, 8> %p, i32* %q) {
        entry:
          %some, _ = icmp (i1, i1) %n, 1 {predicate = sge}
          assume %some
          br body.first
        body.first:
          gpu.mbarrier_wait %full, 0, 0
          %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, 0.0
          %y = gpu.wgmma_wait f32<64, 8> %x
          %j = add i32 0, 1
          %place = udiv i32 %m, 3
          br loop
        loop:
          %i = phi i32 [%j, body.first], [%j.1, body]
          %acc = phi f32<64, 8> [%y, body.first], [%y.1, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          gpu.mbarrier_wait %full, 0, %i
          %x.1 = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %acc
          %y.1 = gpu.wgmma_wait f32<64, 8> %x.1
          %j.1 = add i32 %i, 1
          br loop
        done:
          store %p, %acc
          store %q, %place
          ret
        }
    """  # noqa: E501
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        loop = loops(function).by_header[header]
        if _elides_initialization(function, loop) and _runs_at_least_once(function, loop):
            function, count = _peel(function, loop), count + 1
    return PassResult(function, (), {"iterations peeled": count} if count else {})


def _elides_initialization(function: Function, loop: Loop) -> bool:
    """Whether peeling elides the initialization of an accumulator: a `wgmma` of the loop adds to a
    parameter that starts at zero, and no other op of the loop reads it. The loop has its only exit
    in the header, and few ops."""
    header = function.blocks[loop.header]
    ops = [op for label in loop.order for op in function.blocks[label].ops]
    if loop.preheader is None or loop.latch in (None, loop.header) or len(ops) > _MAX_OPS:
        return False
    if len(loop.exits) != 1 or loop.exits[0][0] != loop.header:
        return False
    if not isinstance(function.blocks[loop.preheader].terminator, Branch):
        return False
    initial = _initial_values(function, loop)
    readers, inside = uses(function), set(ops)
    for op in ops:
        if isinstance(op, Wgmma) and isinstance(op.c, Value) and op.c in header.parameters:
            mine = [r for r in readers[op.c] if r in inside and r is not op]
            if is_zero(initial[op.c]) and not any(map(_computes, mine)):
                return True
    return False


def _computes(op: Op) -> bool:
    """Whether an op is not just a terminator that passes its operands on."""
    return not op.successors


def _initial_values(function: Function, loop: Loop) -> Mapping[Value, Operand]:
    """The value of each parameter of the header in the first iteration."""
    assert loop.preheader is not None
    (edge,) = function.blocks[loop.preheader].terminator.successors
    return dict(zip(function.blocks[loop.header].parameters, edge.arguments, strict=True))


def _runs_at_least_once(function: Function, loop: Loop) -> bool:
    """Whether the condition of a loop is provably true in the first iteration."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import resolve

    header = function.blocks[loop.header]
    test = header.terminator
    if not isinstance(test, CondBranch) or len(header.ops) != 2:
        return False
    compare: Any = header.ops[0]
    if not isinstance(compare, ICmp) or test.condition is not compare.results[0]:
        return False
    if test.then.label not in loop.blocks or isinstance(compare.lhs.type, Tile):
        return False
    assert loop.preheader is not None
    env = dict(_initial_values(function, loop))
    left, right = resolve(env, compare.lhs), resolve(env, compare.rhs)
    bounds = ranges_of(function, left, right)
    (_, first), (last, _) = (bounds.at(v, loop.preheader) for v in (left, right))
    return compare.predicate_.value == "slt" and first < last


def _peel(function: Function, loop: Loop) -> Function:
    """`function` with the first iteration of `loop` peeled."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import insert_blocks

    assert loop.preheader is not None
    header, before = function.blocks[loop.header], function.blocks[loop.preheader]
    names: dict[str, str] = {}
    for label in loop.order[1:]:
        names[label] = fresh_label(f"{label}.first", {*function.blocks, *names.values()})
    holds, fails = header.ops[0].results
    env: Env = {
        **_initial_values(function, loop),
        holds: constant(I1, True),
        fails: constant(I1, False),
    }
    after = function.blocks[loop.exits[0][1]]
    moved = (*_sinkable_ops(function, loop, before), *_hoistable_ops(function, loop, after))
    peeled: dict[str, Block] = {}
    for label in loop.order[1:]:
        ends = moved if label == loop.latch else ()
        peeled[names[label]] = _copy_block(function, loop, label, names, env, ends)
    (into,) = (e.label for e in header.successors if e.label in loop.blocks)
    stays = tuple(op for op in before.ops[:-1] if op not in moved)
    blocks = dict(function.blocks)
    blocks[before.label] = attrs.evolve(before, ops=(*stays, Branch(Successor(names[into]))))
    unmoved = tuple(op for op in after.ops if op not in moved)
    blocks[after.label] = attrs.evolve(after, ops=unmoved)
    return function.with_blocks(insert_blocks(blocks, before.label, peeled))


def _copy_block(
    function: Function, loop: Loop, label: str, names: Mapping[str, str], env: Env,
    moved: Iterable[Op],
) -> Block:  # fmt: skip
    """The copy of a block for the first iteration, with the ops `moved` at its end."""
    block = function.blocks[label]
    parameters = tuple(Value(v.type, v.name) for v in block.parameters)
    env.update(zip(block.parameters, parameters, strict=True))
    issued = sum(isinstance(op, Wgmma) for n in loop.order for op in function.blocks[n].ops)
    ops = [copy_op(op, env) for op in block.ops[:-1] if not _can_omit(op, env, issued)]
    last = map_edges(
        block.terminator.remap(env), lambda e: Successor(names.get(e.label, e.label), e.arguments)
    )
    return Block(names[label], parameters, (*ops, *moved, last))


def _can_omit(op: Op, env: Env, issued: int) -> bool:
    """Whether the first iteration, which issues `issued` matmuls, can omit `op`: an arrival whose
    condition is false, or a wait that leaves that many in flight, whose result is its operand."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import resolve

    if isinstance(op, WgmmaWait) and op.pending >= issued:
        env[op.results[0]] = resolve(env, op.value)
        return True
    if not isinstance(op, MBarrierArrive) or op.condition is None:
        return False
    return resolve(env, op.condition) == constant(I1, False)


def _hoistable_ops(function: Function, loop: Loop, after: Block) -> tuple[Op, ...]:
    """The scalar ops of the block after a loop that do not depend on the loop."""
    if cfg(function).predecessors[after.label] != (loop.header,):
        return ()
    places, ops = defining_blocks(function), dict[Op, None]()
    for op in after.ops[:-1]:
        if _is_scalar(op) and op.effects is Effects.PURE:
            operands = (v for v in op.operands if isinstance(v, Value))
            defined = {v for each in ops for v in each.results}
            if all(v in defined or _is_before(places.get(v), loop, after) for v in operands):
                ops[op] = None
    return tuple(ops)


def _is_before(label: str | None, loop: Loop, after: Block) -> bool:
    """Whether a value that is read in `after`, the block after a loop, is defined before the loop:
    in block `label`, or as a parameter of the function for None."""
    return label not in loop.blocks and label != after.label


def _is_scalar(op: Op) -> bool:
    """Whether an op has only scalar results, and no predicate."""
    scalar = op.results and not any(isinstance(v.type, Tile) for v in op.results)
    return bool(scalar) and op.predicate is None


def _sinkable_ops(function: Function, loop: Loop, before: Block) -> tuple[Op, ...]:
    """The scalar ops of the block before a loop whose results only ops after the loop need. An op
    that may trap then traps later."""
    readers = uses(function)
    inside = {op for label in loop.order for op in function.blocks[label].ops} | set(before.ops)
    ops: dict[Op, None] = {}
    for op in reversed(before.ops[:-1]):
        used = {r for v in op.results for r in readers.get(v, ())}
        quiet = _is_scalar(op) and op.effects in (Effects.PURE, Effects.TRAP)
        if quiet and not (used & inside) - ops.keys():
            ops[op] = None
    return tuple(reversed(ops))
