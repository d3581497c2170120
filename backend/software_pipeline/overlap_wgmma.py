"""Defer the waits for a loop's `wgmma`s by one iteration, so that they overlap with the next
ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import uses
from tileir.backend.software_pipeline.accumulator_readers import conditional_readers
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.ops.hopper import MBarrierArrive, Wgmma, WgmmaWait
from tileir.passes.cfg_edit import append_arguments, fresh_label, map_edges
from tileir.types import I1, I32, Tile
from tileir.values import Operand, Value, constant


def overlap_wgmma(function: Function, header: str, *, refills: bool = False) -> Function | None:
    """Keep the `wgmma`s of the loop at `header`, each with its own accumulator, in flight while the
    next iteration issues its own; returns None if the loop does not allow it.

    The waits follow the last `wgmma`. A branch that reads an accumulator, and resets it, waits for
    it. The stage of an operand is released one iteration later than
    before, by `gpu.mbarrier_arrive`. A loop that writes the buffers of the operands itself is not
    changed, unless `refills` states that it writes the stage of the previous iteration, after a
    barrier that follows the waits.
    """
    chain = _chain(function, loops(function).by_header[header])
    if chain is None or (not refills and _refills(function, chain)):
        return None
    return _defer_wait(function, chain)


@attrs.frozen(eq=False)
class _Accumulation:
    """A `wgmma` that accumulates into a loop-carried value, and the wait for it."""

    wgmma: Wgmma
    accumulator: Value
    wait: WgmmaWait


@attrs.frozen(eq=False)
class _Chain:
    """A loop whose `wgmma`s compute `accumulations`, and the arrivals that release their stages."""

    loop: Loop
    accumulations: tuple[_Accumulation, ...]
    arrivals: tuple[MBarrierArrive, ...]
    block: str


def _chain(function: Function, loop: Loop) -> _Chain | None:
    if loop.latch is None or len(loop.exits) != 1:
        return None
    wgmmas = [
        (label, op)
        for label in loop.order for op in function.blocks[label].ops if isinstance(op, Wgmma)
    ]  # fmt: skip
    labels = {label for label, _ in wgmmas}
    if len(labels) != 1 or any(isinstance(op.a.type, Tile) for _, op in wgmmas):
        return None
    (label,) = labels
    if loops(function).innermost[label] != loop.header:
        return None
    ops = function.blocks[label].ops
    accumulations: list[_Accumulation] = []
    for _, wgmma in wgmmas:
        wait = next(
            (op for op in ops if isinstance(op, WgmmaWait) and op.value is wgmma.result), None
        )
        if wait is None or wait.pending:
            return None
        accumulations.append(_Accumulation(wgmma, cast(Value, wgmma.c), wait))
    first, *_, last = sorted(ops.index(op) for x in accumulations for op in (x.wgmma, x.wait))
    if any(isinstance(op, MBarrierArrive) for op in ops[first:last]):
        return None
    chain = _Chain(loop, tuple(accumulations), tuple(_arrivals(ops, last)), label)
    are_carried = all(_is_carried_accumulator(function, chain, each) for each in accumulations)
    return chain if are_carried else None


def _refills(function: Function, chain: _Chain) -> bool:
    """Whether ops of the loop other than the `wgmma`s take their buffers."""
    wgmmas = {each.wgmma for each in chain.accumulations}
    operands = {v for op in wgmmas for v in (op.a, op.b) if isinstance(v, Value)}
    return any(
        operands & {*op.operands}
        for label in chain.loop.blocks for op in function.blocks[label].ops
        if op not in wgmmas
    )  # fmt: skip


def _arrivals(ops: tuple[Op, ...], index: int) -> Iterator[MBarrierArrive]:
    """The arrivals among the ops after `index`."""
    return (op for op in ops[index + 1 :] if isinstance(op, MBarrierArrive))


def _is_carried_accumulator(function: Function, chain: _Chain, each: _Accumulation) -> bool:
    """Whether the accumulator is carried by the loop and not read elsewhere in it, but in branches
    that reset it."""
    header = function.blocks[chain.loop.header]
    if each.accumulator not in header.parameters or any(
        a.condition is not None for a in chain.arrivals
    ):
        return False
    latch = function.blocks[cast(str, chain.loop.latch)].terminator
    inside = {op for n in chain.loop.blocks for op in function.blocks[n].ops}
    readers = uses(function).get(each.accumulator, ())
    ends = {latch, function.blocks[chain.loop.exits[0][0]].terminator}
    last = chain.loop.exits[0][0]
    outside = any(op not in inside for op in readers)
    return (
        not (outside and last == chain.loop.latch)
        and all(op is each.wgmma or op in ends for op in readers if op in inside)
        and _conditional_readers(function, chain, each) is not None
    )


def _conditional_readers(
    function: Function, chain: _Chain, each: _Accumulation
) -> Mapping[str, str] | None:
    return conditional_readers(function, chain.loop, each.accumulator, each.wait.result)


def _defer_wait(function: Function, chain: _Chain) -> Function:
    header, latch = chain.loop.header, chain.loop.latch
    begun, last = Value(I1, "begun"), tuple(Value(I32, "last") for _ in chain.arrivals)
    blocks = dict(function.blocks)
    block = blocks[chain.block]
    deferred = dict(zip(chain.arrivals, last, strict=True))
    waits = [each.wait for each in chain.accumulations]
    ops: list[Op] = []
    for op in block.ops:
        if op in deferred:
            arrival = cast(MBarrierArrive, op)
            ops.append(arrival.evolve(index=deferred[arrival], condition=begun))
        elif op not in waits:
            ops.append(op)
        if op is chain.accumulations[-1].wgmma:
            ops += [wait.evolve(pending=len(waits)) for wait in waits]
    blocks[chain.block] = attrs.evolve(block, ops=tuple(ops))
    head = blocks[header]
    blocks[header] = attrs.evolve(head, parameters=(*head.parameters, begun, *last))
    first = (constant(I1, 0), *(constant(I32, 0) for _ in last))
    following = (constant(I1, 1), *(a.index for a in chain.arrivals))
    for label, old in blocks.items():
        arguments = following if label == latch else first
        blocks[label] = _passing(old, header, arguments)
    for each in chain.accumulations:
        _wait_in_branches(function, chain, each, blocks)
    return _wait_after_loop(function.with_blocks(blocks), chain, (begun, *last))


def _wait_in_branches(
    function: Function, chain: _Chain, each: _Accumulation, blocks: dict[str, Block]
) -> None:
    """Wait for an accumulator where a branch that reads it begins."""
    branches = _conditional_readers(function, chain, each) or {}
    waits = {entry: WgmmaWait(each.wait.result) for entry in branches.values()}
    for label, entry in branches.items():
        blocks[label] = _reading(blocks[label], {each.wait.result: waits[entry].result})
    for entry, wait in waits.items():
        blocks[entry] = attrs.evolve(blocks[entry], ops=(wait, *blocks[entry].ops))


def _passing(block: Block, header: str, arguments: tuple[Operand, ...]) -> Block:
    last = append_arguments(block.terminator, (header,), arguments)
    same = last is block.terminator
    return block if same else attrs.evolve(block, ops=(*block.ops[:-1], last))


def _wait_after_loop(function: Function, chain: _Chain, carried: tuple[Value, ...]) -> Function:
    """Add a block at the loop's exit that waits for the accumulators and releases the last
    stages."""
    ((leaving, target),) = chain.loop.exits
    tested_first = leaving == chain.loop.header and leaving != chain.loop.latch
    values = [
        each.accumulator if tested_first else each.wait.result for each in chain.accumulations
    ]
    waits = [WgmmaWait(value) for value in values]
    predicate: Operand = carried[0] if tested_first else constant(I1, 1)
    stages = carried[1:] if tested_first else tuple(a.index for a in chain.arrivals)
    arrivals = [
        a.evolve(index=s, condition=predicate) for a, s in zip(chain.arrivals, stages, strict=True)
    ]
    label = fresh_label(f"{target}.waited", function.blocks)
    passing = {value: wait.result for value, wait in zip(values, waits, strict=True)}
    last = function.blocks[leaving].terminator
    (edge,) = (e for e in last.successors if e.label == target)
    arguments = (passing.get(a, a) if isinstance(a, Value) else a for a in edge.arguments)
    exit_block = Block(label, (), (*waits, *arrivals, Branch(Successor(target, tuple(arguments)))))
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        inside = name in chain.loop.blocks
        blocks[name] = block if inside else _reading(block, passing)
        if name == leaving:
            blocks[name] = _leaving(block, target, label)
            blocks[label] = exit_block
    return function.with_blocks(blocks)


def _leaving(block: Block, old: str, new: str) -> Block:
    """`block` with its edge to `old` redirected to `new`, which has no parameters."""
    last = map_edges(block.terminator, lambda e: Successor(new) if e.label == old else e)
    return attrs.evolve(block, ops=(*block.ops[:-1], last))


def _reading(block: Block, env: dict[Value, Value]) -> Block:
    return attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
