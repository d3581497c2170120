"""Tiles of pointers that a loop moves by the same distance everywhere: one pointer moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, Reshape, Splat
from tileir.passes.cfg_edit import map_edges
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.types import Element, Pointer, Tile, element_of
from tileir.values import Constant, Operand, Value

_MOVES = (Broadcast, ExpandDims, Reshape)
"""Ops through which a tile of one pointer stays one."""


@pass_("scalarize-pointer-steps")
def scalarize_pointer_steps(function: Function) -> PassResult:
    """Carry one pointer through a loop in place of a tile of pointers that move alike.

    A tile that starts at `splat(p) + offsets` and moves by the same number of elements in all
    lanes is, in every iteration, `splat(q) + offsets` with a scalar `q` that moves so: lanes need
    their offset, which stays, and one pointer instead of one for every element.

    before:
        define kernel void @sum(f32* %p, f32* %to, i32 %n) {
        entry:
          %i = make_range i32<64>
          %ps = splat f32*<64> %p
          %first = getelementptr f32*<64> %ps, %i
          br loop
        loop:
          %step = phi i32 [0, entry], [%next, loop]
          %q = phi f32*<64> [%first, entry], [%q.next, loop]
          %total = phi f32<64> [0.0, entry], [%sum, loop]
          %x = load f32<64> %q
          %sum = fadd f32<64> %total, %x
          %q.next = getelementptr f32*<64> %q, i32<64> 64
          %next = add i32 %step, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          %ts = splat f32*<64> %to
          %t = getelementptr f32*<64> %ts, %i
          store %t, %sum
          ret
        }
    after:
        define kernel void @sum(f32* %p, f32* %to, i32 %n) {
        entry:
          %i = make_range i32<64>
          br loop
        loop:
          %step = phi i32 [0, entry], [%next, loop]
          %total = phi f32<64> [0.0, entry], [%sum, loop]
          %q = phi f32* [%p, entry], [%0, loop]
          %1 = splat f32*<64> %q
          %q.1 = getelementptr f32*<64> %1, %i
          %x = load f32<64> %q.1
          %sum = fadd f32<64> %total, %x
          %0 = getelementptr f32* %q, i32 64
          %next = add i32 %step, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          %ts = splat f32*<64> %to
          %t = getelementptr f32*<64> %ts, %i
          store %t, %sum
          ret
        }
    """
    changed, count = function, 0
    for loop in loops(function).by_header.values() if not function.is_declaration else ():
        for parameter in function.blocks[loop.header].parameters:
            found = _candidate(changed, loop, parameter)
            if found is not None:
                changed, count = _carried(changed, loop, found), count + 1
    if not count:
        return PassResult(function)
    return PassResult(dce(changed), (), {"tiles of pointers": count})


@attrs.frozen
class _Moving:
    """A parameter of a loop's header; the ops that make its first value, last one first, with the
    scalar they start from; the ops that move it, in order; and the block that enters the loop."""

    parameter: Value
    start: tuple[Op, ...]
    steps: tuple[GetElementPtr, ...]
    entry: str


def _candidate(function: Function, loop: Loop, parameter: Value) -> _Moving | None:
    kind = parameter.type
    if not isinstance(kind, Tile) or not isinstance(kind.element, Pointer) or loop.latch is None:
        return None
    outside = [p for p in cfg(function).predecessors[loop.header] if p not in loop.blocks]
    if len(outside) != 1:
        return None
    first, last = (list(_passed(function, x, loop, parameter)) for x in (outside[0], loop.latch))
    if len(first) != 1 or len(last) != 1:
        return None
    start, steps = _start(function, first[0]), _steps(function, last[0], parameter)
    return _Moving(parameter, start, steps, outside[0]) if start and steps else None


def _passed(function: Function, label: str, loop: Loop, parameter: Value) -> Iterator[Operand]:
    index = function.blocks[loop.header].parameters.index(parameter)
    for edge in function.blocks[label].successors:
        if edge.label == loop.header:
            yield edge.arguments[index]


def _start(function: Function, value: Operand) -> tuple[Op, ...]:
    """The ops from `value` back to the splat it comes from; none where it comes from elsewhere."""
    made, found = definitions(function), list[Op]()
    while True:
        op = made.get(value) if isinstance(value, Value) else None
        if op is None or op.predicate is not None:
            return ()
        found.append(op)
        if isinstance(op, Splat):
            return tuple(found)
        if not isinstance(op, (GetElementPtr, *_MOVES)):
            return ()
        value = op.inputs[0]


def _steps(function: Function, value: Operand, parameter: Value) -> tuple[GetElementPtr, ...]:
    """The ops that move `parameter` to `value`, all lanes alike; none where there are others."""
    made, found = definitions(function), list[GetElementPtr]()
    while value is not parameter:
        op = made.get(value) if isinstance(value, Value) else None
        if not isinstance(op, GetElementPtr) or op.predicate is not None:
            return ()
        if _uniform(function, op.index) is None:
            return ()
        found.append(op)
        value = op.pointer
    return tuple(reversed(found))


def _uniform(function: Function, index: Operand) -> Operand | None:
    """The scalar that a tile holds everywhere; None where it may hold others."""
    if isinstance(index, Constant):
        return Constant(cast(Element, element_of(index.type)), index.bits)
    op = definitions(function).get(index) if isinstance(index, Value) else None
    return op.value if isinstance(op, Splat) and op.predicate is None else None


def _carried(function: Function, loop: Loop, found: _Moving) -> Function:
    """`function` with a scalar in place of `found.parameter`."""
    blocks, old = dict(function.blocks), found.parameter
    kind = cast(Element, element_of(old.type))
    scalar = Value(kind, old.name)
    index = blocks[loop.header].parameters.index(old)
    before, base = _first(function, found)
    blocks[found.entry] = _before_last(blocks[found.entry], before)
    moved: Operand = scalar
    for step in found.steps:
        op = _step(function, step, moved)
        label = next(x for x in loop.order if step in blocks[x].ops)
        blocks[label] = _after(blocks[label], step, op)
        moved = op.results[0]
    for label, value in ((found.entry, base), (cast(str, loop.latch), moved)):
        blocks[label] = _repassed(blocks[label], loop.header, index, value)
    header = blocks[loop.header]
    parameters = (*_without(header.parameters, index), scalar)
    ops = (*_rebuilt(function, found, scalar), *header.ops)
    blocks[loop.header] = attrs.evolve(header, parameters=parameters, ops=ops)
    return function.with_blocks(blocks)


def _first(function: Function, found: _Moving) -> tuple[list[Op], Operand]:
    """The scalar's first value, and ops that compute it: what the start adds everywhere."""
    splat = cast(Splat, found.start[-1])
    ops, base = list[Op](), splat.value
    for op in reversed(found.start):
        if isinstance(op, GetElementPtr) and _uniform(function, op.index) is not None:
            made = _step(function, op, base)
            ops.append(made)
            base = made.results[0]
    return ops, base


def _step(function: Function, op: GetElementPtr, pointer: Operand) -> GetElementPtr:
    """The step that `op` makes in every lane, of a scalar."""
    return GetElementPtr(pointer, cast(Operand, _uniform(function, op.index)), location=op.location)


def _rebuilt(function: Function, found: _Moving, scalar: Value) -> Iterator[Op]:
    """Ops that compute the parameter from `scalar`, the last one giving it its name."""
    kept = [op for op in reversed(found.start) if not _moves_all(function, op)]
    value: Operand = scalar
    for number, op in enumerate(kept):
        results = (found.parameter,) if number == len(kept) - 1 else ()
        made = op.remap({cast(Value, op.inputs[0]): value})
        made = attrs.evolve(made, results=results or (Value(op.results[0].type),))
        yield made
        value = made.results[0]


def _moves_all(function: Function, op: Op) -> bool:
    return isinstance(op, GetElementPtr) and _uniform(function, op.index) is not None


def _without(values: tuple[Value, ...], index: int) -> tuple[Value, ...]:
    return values[:index] + values[index + 1 :]


def _before_last(block: Block, ops: list[Op]) -> Block:
    return attrs.evolve(block, ops=(*block.ops[:-1], *ops, block.ops[-1])) if ops else block


def _after(block: Block, op: Op, made: Op) -> Block:
    at = block.ops.index(op) + 1
    return attrs.evolve(block, ops=(*block.ops[:at], made, *block.ops[at:]))


def _repassed(block: Block, header: str, index: int, value: Operand) -> Block:
    """`block` passing `value` last to `header` in place of argument `index`."""

    def changed(edge: Successor) -> Successor:
        if edge.label != header:
            return edge
        given = edge.arguments
        return Successor(header, (*given[:index], *given[index + 1 :], value))

    last = map_edges(block.ops[-1], changed)
    return attrs.evolve(block, ops=(*block.ops[:-1], last))
