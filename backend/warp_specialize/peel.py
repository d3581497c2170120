"""The first round of a loop of products before the loop."""

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
from tileir.ops.compare import ICmp
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import MBarrierArrive, Wgmma, WgmmaWait
from tileir.passes.cfg_edit import copy_op, fresh_label, map_edges
from tileir.passmanager.registry import PassResult, pass_
from tileir.types import I1, Tile
from tileir.values import Operand, Value, constant, is_zero

_LONGEST = 48
"""Ops of a round that is written twice, at most."""

Env = dict[Value, Operand]


@pass_("peel-first-iteration")
def peel_first_iteration(function: Function) -> PassResult:
    """Write the first round of a loop of products before the loop.

    Sums that begin at zero then are those of a product that adds to nothing, and need no registers
    set to zero. Scalars that only what comes behind the loop needs, such as the place of the
    result, are computed while that product runs. The loop is known to run at least once.

    before:
        stage "warp_specialized"

        define private void @math(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i32 %n, i32 %m, f32*<64, 8> %p, i32* %q) {
        entry:
          %some, _ = icmp (i1, i1) %n, 1 {predicate = sge}
          assume %some
          %place = udiv i32 %m, 3
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %sum = phi f32<64, 8> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          gpu.mbarrier_wait %full, 0, %i
          %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
          %y = gpu.wgmma_wait f32<64, 8> %x
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %sum
          store %q, %place
          ret
        }
    after:
        stage "warp_specialized"

        define private void @math(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i32 %n, i32 %m, f32*<64, 8> %p, i32* %q) {
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
          %sum = phi f32<64, 8> [%y, body.first], [%y.1, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          gpu.mbarrier_wait %full, 0, %i
          %x.1 = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
          %y.1 = gpu.wgmma_wait f32<64, 8> %x.1
          %j.1 = add i32 %i, 1
          br loop
        done:
          store %p, %sum
          store %q, %place
          ret
        }
    """  # noqa: E501
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        loop = loops(function).by_header[header]
        if _gains(function, loop) and _runs(function, loop):
            function, count = _peeled(function, loop), count + 1
    return PassResult(function, (), {"rounds peeled": count} if count else {})


def _gains(function: Function, loop: Loop) -> bool:
    """Whether a product of the loop adds to sums that begin at zero, and nothing else of the loop
    reads these; and whether the loop has the form of a test and few ops behind it."""
    header = function.blocks[loop.header]
    ops = [op for label in loop.order for op in function.blocks[label].ops]
    if loop.preheader is None or loop.latch in (None, loop.header) or len(ops) > _LONGEST:
        return False
    if len(loop.exits) != 1 or loop.exits[0][0] != loop.header:
        return False
    if not isinstance(function.blocks[loop.preheader].terminator, Branch):
        return False
    given = _given(function, loop)
    readers, inside = uses(function), set(ops)
    for op in ops:
        if isinstance(op, Wgmma) and isinstance(op.c, Value) and op.c in header.parameters:
            mine = [r for r in readers[op.c] if r in inside and r is not op]
            if is_zero(given[op.c]) and not any(map(_computes, mine)):
                return True
    return False


def _computes(op: Op) -> bool:
    """Whether an op does more than pass on what it reads."""
    return not op.successors


def _given(function: Function, loop: Loop) -> Mapping[Value, Operand]:
    """What the parameters of a loop are in its first round."""
    assert loop.preheader is not None
    (edge,) = function.blocks[loop.preheader].terminator.successors
    return dict(zip(function.blocks[loop.header].parameters, edge.arguments, strict=True))


def _runs(function: Function, loop: Loop) -> bool:
    """Whether the test of a loop certainly holds before the first round."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import read

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
    env = dict(_given(function, loop))
    left, right = read(env, compare.lhs), read(env, compare.rhs)
    known = ranges_of(function, left, right)
    (_, first), (last, _) = (known.at(v, loop.preheader) for v in (left, right))
    return compare.predicate_.value == "slt" and first < last


def _peeled(function: Function, loop: Loop) -> Function:
    """`function` with the first round of `loop` before it."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import inserted

    assert loop.preheader is not None
    header, before = function.blocks[loop.header], function.blocks[loop.preheader]
    names: dict[str, str] = {}
    for label in loop.order[1:]:
        names[label] = fresh_label(f"{label}.first", {*function.blocks, *names.values()})
    holds, fails = header.ops[0].results
    env: Env = {**_given(function, loop), holds: constant(I1, True), fails: constant(I1, False)}
    after = function.blocks[loop.exits[0][1]]
    late = (*_only_behind(function, loop, before), *_known_ahead(function, loop, after))
    made: dict[str, Block] = {}
    for label in loop.order[1:]:
        ends = late if label == loop.latch else ()
        made[names[label]] = _copied(function, loop, label, names, env, ends)
    (into,) = (e.label for e in header.successors if e.label in loop.blocks)
    early = tuple(op for op in before.ops[:-1] if op not in late)
    blocks = dict(function.blocks)
    blocks[before.label] = attrs.evolve(before, ops=(*early, Branch(Successor(names[into]))))
    kept = tuple(op for op in after.ops if op not in late)
    blocks[after.label] = attrs.evolve(after, ops=kept)
    return function.with_blocks(inserted(blocks, before.label, made))


def _copied(
    function: Function, loop: Loop, label: str, names: Mapping[str, str], env: Env,
    late: Iterable[Op],
) -> Block:  # fmt: skip
    """A block of the first round; it ends with `late`."""
    block = function.blocks[label]
    parameters = tuple(Value(v.type, v.name) for v in block.parameters)
    env.update(zip(block.parameters, parameters, strict=True))
    begun = sum(isinstance(op, Wgmma) for n in loop.order for op in function.blocks[n].ops)
    ops = [copy_op(op, env) for op in block.ops[:-1] if not _left_out(op, env, begun)]
    last = map_edges(
        block.terminator.remap(env), lambda e: Successor(names.get(e.label, e.label), e.arguments)
    )
    return Block(names[label], parameters, (*ops, *late, last))


def _left_out(op: Op, env: Env, begun: int) -> bool:
    """Whether the first round, in which `begun` products begin, does without `op`: an arrival that
    nobody makes, or a wait behind which as many may be under way; its result is what it is for."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import read

    if isinstance(op, WgmmaWait) and op.pending >= begun:
        env[op.results[0]] = read(env, op.value)
        return True
    if not isinstance(op, MBarrierArrive) or op.condition is None:
        return False
    return read(env, op.condition) == constant(I1, False)


def _known_ahead(function: Function, loop: Loop, after: Block) -> tuple[Op, ...]:
    """Ops on scalars of the block behind a loop that need nothing of the loop."""
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import read

    if cfg(function).predecessors[after.label] != (loop.header,):
        return ()
    places, found = defining_blocks(function), dict[Op, None]()
    for op in after.ops[:-1]:
        if _is_scalar(op) and op.effects is Effects.PURE:
            read = (v for v in op.operands if isinstance(v, Value))
            made = {v for each in found for v in each.results}
            if all(v in made or _is_before(places.get(v), loop, after) for v in read):
                found[op] = None
    return tuple(found)


def _is_before(label: str | None, loop: Loop, after: Block) -> bool:
    """Whether what is defined in block `label`, None for a parameter of the function, and read in
    the block behind a loop is defined before it."""
    return label not in loop.blocks and label != after.label


def _is_scalar(op: Op) -> bool:
    """Whether an op gives scalars alone."""
    scalar = op.results and not any(isinstance(v.type, Tile) for v in op.results)
    return bool(scalar) and op.predicate is None


def _only_behind(function: Function, loop: Loop, before: Block) -> tuple[Op, ...]:
    """Ops of the block before a loop on scalars that only what comes behind the loop needs; those
    that may trap do so later."""
    readers = uses(function)
    inside = {op for label in loop.order for op in function.blocks[label].ops} | set(before.ops)
    found: dict[Op, None] = {}
    for op in reversed(before.ops[:-1]):
        used = {r for v in op.results for r in readers.get(v, ())}
        quiet = _is_scalar(op) and op.effects in (Effects.PURE, Effects.TRAP)
        if quiet and not (used & inside) - found.keys():
            found[op] = None
    return tuple(reversed(found))
