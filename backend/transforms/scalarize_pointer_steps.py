"""Loop-carried tiles of pointers or integers with a uniform step, carried as one scalar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from tileir.analysis.affine_mod32 import addresses
from tileir.analysis.cfg import cfg
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, uses
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add, Overflow
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, Reshape, Splat
from tileir.passes.cfg_edit import map_edges
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.types import Element, Pointer, Tile, element_of
from tileir.values import Constant, Operand, Value

_RESHAPING = (Broadcast, ExpandDims, Reshape)
"""Ops that only change the shape of a tile."""


@pass_("scalarize-pointer-steps")
def scalarize_pointer_steps(function: Function) -> PassResult:
    """Carry one scalar pointer through a loop in place of a tile of pointers with a uniform step.

    A tile of pointers that starts at `splat(p) + offsets` and advances by the same number of
    elements in all lanes equals `splat(q) + offsets` in every iteration, where the scalar `q`
    advances by that number. The offsets are loop-invariant, and the loop carries one pointer
    instead of one per element. Likewise a tile of integers that are affine in their index and are
    divided equals its initial value plus `splat(s)`, where the scalar `s` starts at 0.

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
    rewritten, count = function, 0
    for loop in loops(function).by_header.values() if not function.is_declaration else ():
        for parameter in function.blocks[loop.header].parameters:
            candidate = _candidate(rewritten, loop, parameter)
            if candidate is not None:
                rewritten, count = _scalarize(rewritten, loop, candidate), count + 1
    if not count:
        return PassResult(function)
    return PassResult(dce(rewritten), (), {"tiles": count})


@attrs.frozen
class _CarriedTile:
    """A parameter of a loop header that is a tile with a uniform step: its initial value; the ops
    that advance it, in order; and the label of the block that enters the loop. `start` has the ops
    that compute the initial value of a tile of pointers, last one first, down to a splat."""

    parameter: Value
    initial: Operand
    start: tuple[Op, ...]
    steps: tuple[GetElementPtr | Add, ...]
    entry: str


def _candidate(function: Function, loop: Loop, parameter: Value) -> _CarriedTile | None:
    kind = parameter.type
    if not isinstance(kind, Tile) or loop.latch is None:
        return None
    is_pointer = isinstance(kind.element, Pointer)
    if not is_pointer and not _is_divided(function, parameter):
        return None
    outside = [p for p in cfg(function).predecessors[loop.header] if p not in loop.blocks]
    if len(outside) != 1:
        return None
    first, last = (list(_arguments(function, x, loop, parameter)) for x in (outside[0], loop.latch))
    if len(first) != 1 or len(last) != 1:
        return None
    start = _start(function, first[0]) if is_pointer else ()
    steps = _steps(function, last[0], parameter)
    if not steps or (is_pointer and not start):
        return None
    return _CarriedTile(parameter, first[0], start, steps, outside[0])


def _is_divided(function: Function, tile: Value) -> bool:
    """Whether `tile` is affine and divided: the sign of a scalar can be tested."""
    divides = any(op.divides for op in uses(function).get(tile, ()))
    return divides and addresses(function).of(tile) is not None


def _arguments(function: Function, label: str, loop: Loop, parameter: Value) -> Iterator[Operand]:
    index = function.blocks[loop.header].parameters.index(parameter)
    for edge in function.blocks[label].successors:
        if edge.label == loop.header:
            yield edge.arguments[index]


def _start(function: Function, value: Operand) -> tuple[Op, ...]:
    """The ops from `value` back to the splat of its base pointer; empty where there is no splat."""
    op_of, ops = definitions(function), list[Op]()
    while True:
        op = op_of.get(value) if isinstance(value, Value) else None
        if op is None or op.predicate is not None:
            return ()
        ops.append(op)
        if isinstance(op, Splat):
            return tuple(ops)
        if not isinstance(op, (GetElementPtr, *_RESHAPING)):
            return ()
        value = op.inputs[0]


def _steps(function: Function, value: Operand, parameter: Value) -> tuple[GetElementPtr | Add, ...]:
    """The uniform steps from `parameter` to `value`; empty where other ops are between them."""
    op_of, steps = definitions(function), list[GetElementPtr | Add]()
    while value is not parameter:
        op = op_of.get(value) if isinstance(value, Value) else None
        if not isinstance(op, (GetElementPtr, Add)) or op.predicate is not None:
            return ()
        if _promises(op) or _uniform_value(function, op.inputs[1]) is None:
            return ()
        steps.append(op)
        value = op.inputs[0]
    return tuple(reversed(steps))


def _promises(op: GetElementPtr | Add) -> bool:
    """Whether `op` promises that it does not wrap, as additions in another order may."""
    return isinstance(op, Add) and op.overflow is not Overflow.NONE


def _uniform_value(function: Function, index: Operand) -> Operand | None:
    """The scalar of a uniform tile; None where lanes may differ."""
    if isinstance(index, Constant):
        return Constant(cast(Element, element_of(index.type)), index.bits)
    op = definitions(function).get(index) if isinstance(index, Value) else None
    return op.value if isinstance(op, Splat) and op.predicate is None else None


def _scalarize(function: Function, loop: Loop, carried: _CarriedTile) -> Function:
    """`function` with a scalar in place of `carried.parameter`."""
    blocks, old = dict(function.blocks), carried.parameter
    kind = cast(Element, element_of(old.type))
    scalar = Value(kind, old.name)
    index = blocks[loop.header].parameters.index(old)
    start_ops, base = list[Op](), cast(Operand, Constant(kind, 0))
    if carried.start:
        start_ops, base = _initial_pointer(function, carried)
    blocks[carried.entry] = _before_last(blocks[carried.entry], start_ops)
    advanced: Operand = scalar
    for step in carried.steps:
        op = _step(function, step, advanced)
        label = next(x for x in loop.order if step in blocks[x].ops)
        blocks[label] = _after(blocks[label], step, op)
        advanced = op.results[0]
    for label, value in ((carried.entry, base), (cast(str, loop.latch), advanced)):
        blocks[label] = _replace_argument(blocks[label], loop.header, index, value)
    header = blocks[loop.header]
    parameters = (*_without(header.parameters, index), scalar)
    rebuild = _rebuild_pointers if carried.start else _rebuild_integers
    ops = (*rebuild(function, carried, scalar), *header.ops)
    blocks[loop.header] = attrs.evolve(header, parameters=parameters, ops=ops)
    return function.with_blocks(blocks)


def _initial_pointer(function: Function, carried: _CarriedTile) -> tuple[list[Op], Operand]:
    """The initial scalar pointer and the ops that compute it: the uniform steps of the start."""
    splat = cast(Splat, carried.start[-1])
    ops, base = list[Op](), splat.value
    for op in reversed(carried.start):
        if isinstance(op, GetElementPtr) and _uniform_value(function, op.index) is not None:
            step = _step(function, op, base)
            ops.append(step)
            base = step.results[0]
    return ops, base


def _step(function: Function, op: GetElementPtr | Add, scalar: Operand) -> GetElementPtr | Add:
    """The uniform step of `op`, applied to a scalar."""
    by = cast(Operand, _uniform_value(function, op.inputs[1]))
    return type(op)(scalar, by, location=op.location)


def _rebuild_pointers(function: Function, carried: _CarriedTile, scalar: Value) -> Iterator[Op]:
    """The ops that compute the tile from `scalar`; the last one defines the old parameter."""
    tile_ops = [op for op in reversed(carried.start) if not _is_uniform_step(function, op)]
    value: Operand = scalar
    for number, op in enumerate(tile_ops):
        results = (carried.parameter,) if number == len(tile_ops) - 1 else ()
        copy = op.remap({cast(Value, op.inputs[0]): value})
        copy = attrs.evolve(copy, results=results or (Value(op.results[0].type),))
        yield copy
        value = copy.results[0]


def _rebuild_integers(function: Function, carried: _CarriedTile, scalar: Value) -> Iterator[Op]:
    """The ops that add `scalar` to the initial tile; the last one defines the old parameter."""
    advance = Splat(scalar, cast(Tile, carried.parameter.type))
    yield advance
    yield Add(carried.initial, advance.result, results=(carried.parameter,))


def _is_uniform_step(function: Function, op: Op) -> bool:
    return isinstance(op, GetElementPtr) and _uniform_value(function, op.index) is not None


def _without(values: tuple[Value, ...], index: int) -> tuple[Value, ...]:
    return values[:index] + values[index + 1 :]


def _before_last(block: Block, ops: list[Op]) -> Block:
    return attrs.evolve(block, ops=(*block.ops[:-1], *ops, block.ops[-1])) if ops else block


def _after(block: Block, op: Op, new: Op) -> Block:
    at = block.ops.index(op) + 1
    return attrs.evolve(block, ops=(*block.ops[:at], new, *block.ops[at:]))


def _replace_argument(block: Block, header: str, index: int, value: Operand) -> Block:
    """`block` with `value` as last argument to `header` in place of argument `index`."""

    def rewritten(edge: Successor) -> Successor:
        if edge.label != header:
            return edge
        arguments = edge.arguments
        return Successor(header, (*arguments[:index], *arguments[index + 1 :], value))

    last = map_edges(block.ops[-1], rewritten)
    return attrs.evolve(block, ops=(*block.ops[:-1], last))
