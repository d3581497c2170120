"""Loops of chained matmuls: operand A of the last `wgmma` is computed from the result of the
first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import Loop
from tileir.analysis.uses import definitions, uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import MBarrierArrive, MBarrierWait, Wgmma, WgmmaWait
from tileir.types import Tile
from tileir.values import Operand, Value


@attrs.frozen(eq=False)
class MatmulChain:
    """A loop whose header is its test. Block `body` has `first`, the wait for the first `wgmma`;
    block `latch`, which may be the same, has the last one and its `wait`. `accumulator` is the
    parameter of the header that carries the result of the last. `delayed` are the last `wgmma`, its
    waits and the release of its stage, which advance the parameters `cursors`. `dependent` are the
    ops that need the accumulator."""

    header: str
    body: str
    latch: str
    labels: tuple[str, ...]
    """Blocks of the loop except its header, in order."""
    target: str
    first: WgmmaWait
    last: Wgmma
    wait: WgmmaWait
    accumulator: Value
    delayed: tuple[Op, ...]
    cursors: tuple[Value, ...]
    dependent: tuple[Op, ...]


def find_chain(function: Function, loop: Loop) -> MatmulChain | None:
    """The chain of matmuls of `loop`, if it is one."""
    ends = _loop_blocks(function, loop)
    if ends is None:
        return None
    header, body, latch, target = ends
    wgmmas = _chained_wgmmas(function, loop, body, latch)
    if wgmmas is None:
        return None
    leading, first, last, wait = wgmmas
    accumulator = _accumulator_of(header, latch, wait.result)
    if accumulator is None or uses(function)[wait.result] != (latch.terminator,):
        return None
    cursors = _stage_cursors(header, latch, last)
    delayed = (
        None if cursors is None else _delayed_ops(function, latch, (last, wait), header, cursors)
    )
    dependent = _dependent_ops(function, loop, (body, latch), accumulator)
    if (
        cursors is None
        or delayed is None
        or dependent is None
        or accumulator in backward_slice(function, leading.operands)
    ):
        return None
    if _is_read_outside(function, loop, header):
        return None
    labels = tuple(n for n in loop.order if n != loop.header)
    return MatmulChain(
        loop.header, body.label, latch.label, labels, target, first, last, wait, accumulator,
        delayed, cursors, dependent,
    )  # fmt: skip


def latch_arguments(header: Block, latch: Block) -> dict[Value, Operand]:
    """The argument of the latch for each parameter of the header."""
    (edge,) = latch.successors
    return dict(zip(header.parameters, edge.arguments, strict=True))


def _loop_blocks(function: Function, loop: Loop) -> tuple[Block, Block, Block, str] | None:
    """Header, first and last block of a loop whose only exit is in the header, and the target of
    that exit."""
    latch = loop.latch
    if latch in (None, loop.header) or len(loop.exits) != 1:
        return None
    ((leaving, target),) = loop.exits
    header, last = function.blocks[loop.header], function.blocks[latch]
    inside = [e.label for e in header.successors if e.label in loop.blocks]
    if leaving != loop.header or not isinstance(header.terminator, CondBranch) or len(inside) != 1:
        return None
    body = function.blocks[inside[0]]
    alone = cfg(function).predecessors[body.label] == (loop.header,)
    plain = isinstance(last.terminator, Branch) and not body.parameters
    return (header, body, last, target) if alone and plain else None


def _chained_wgmmas(
    function: Function, loop: Loop, body: Block, latch: Block
) -> tuple[Wgmma, WgmmaWait, Wgmma, WgmmaWait] | None:
    """The first `wgmma` of the body and the last one of the latch, each with its wait, if the loop
    has no other waits."""
    ops = [op for n in loop.order for op in function.blocks[n].ops]
    wgmmas = [op for op in ops if isinstance(op, Wgmma)]
    waits = [op for op in ops if isinstance(op, WgmmaWait)]
    if len(wgmmas) < 2 or len(waits) != 2:
        return None
    leading, last = wgmmas[0], wgmmas[-1]
    first = next((w for w in waits if w.value is leading.result), None)
    wait = next((w for w in waits if w.value is last.result), None)
    if first is None or wait is None or not isinstance(last.a.type, Tile):
        return None
    if first not in body.ops or last not in latch.ops or wait not in latch.ops:
        return None
    if any(last.b_stage in (op.a_stage, op.b_stage) for op in wgmmas[:-1]):
        return None  # a single wait is for its stage and for the stages of the others
    return leading, first, last, wait


def _accumulator_of(header: Block, latch: Block, value: Value) -> Value | None:
    """The parameter of the header whose argument is `value`, if there is one."""
    parameters = [p for p, v in latch_arguments(header, latch).items() if v is value]
    return parameters[0] if len(parameters) == 1 else None


def _stage_cursors(header: Block, latch: Block, last: Wgmma) -> tuple[Value, ...] | None:
    """The parameters that are stage and parity of the ring of the last `wgmma`."""
    ops = latch.ops[: latch.ops.index(last)]
    waits = [w for w in ops if isinstance(w, MBarrierWait) and w.index is last.b_stage]
    if not waits:
        return None
    cursors = [v for v in (last.b_stage, waits[-1].parity) if isinstance(v, Value)]
    return tuple(cursors) if all(v in header.parameters for v in cursors) else None


def _delayed_ops(
    function: Function, latch: Block, pair: tuple[Wgmma, WgmmaWait], header: Block,
    cursors: Sequence[Value],
) -> tuple[Op, ...] | None:  # fmt: skip
    """The last `wgmma`, its waits, the arrival that releases its stage, and the ops that advance to
    the next stage; None if other ops use their results."""
    last, wait = pair
    ops, index, producers = latch.ops, latch.ops.index(last), definitions(function)
    before = [w for w in ops[:index] if isinstance(w, MBarrierWait) and w.index is last.b_stage]
    after = [a for a in ops[index:] if isinstance(a, MBarrierArrive) and a.index is last.b_stage]
    delayed: set[Op] = {last, wait, before[-1], *after}
    latch_values = latch_arguments(header, latch)
    waiting: list[Operand] = [latch_values[v] for v in cursors]
    while waiting:
        value = waiting.pop()
        op = producers.get(value) if isinstance(value, Value) else None
        if op is not None and op in ops and op not in delayed:
            delayed.add(op)
            waiting.extend(op.operands)
    readers = uses(function)
    for op in delayed - {wait, last}:
        for value in op.results:
            if any(r not in delayed and r is not latch.terminator for r in readers.get(value, ())):
                return None
    return tuple(op for op in ops if op in delayed)


def _dependent_ops(
    function: Function, loop: Loop, ends: tuple[Block, Block], accumulator: Value
) -> tuple[Op, ...] | None:
    """The ops of an iteration that depend on the accumulator, in program order, if all of them are
    pure ops of the body or the latch; else None."""
    body, latch = ends
    dependent: dict[Op, None] = {}
    values = {accumulator}
    for label in loop.order:
        for op in function.blocks[label].ops:
            if not any(v in values for v in op.operands) or isinstance(op, Wgmma):
                continue
            if op is latch.terminator:
                continue
            if label not in (body.label, latch.label) or op.effects != Effects.PURE:
                return None
            values.update(op.results)
            dependent[op] = None
    return tuple(dependent)


def backward_slice(function: Function, operands: Iterable[Operand]) -> set[Value]:
    """`operands` and the values that they are computed from, up to block parameters."""
    producers, waiting, values = definitions(function), [*operands], set[Value]()
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, Value) and operand not in values:
            values.add(operand)
            waiting.extend(producers[operand].operands if operand in producers else ())
    return values


def _is_read_outside(function: Function, loop: Loop, header: Block) -> bool:
    """Whether results of ops of the header are read outside the loop."""
    place, readers = _blocks_of_ops(function), uses(function)
    results = (v for op in header.ops for v in op.results)
    return any(place[r] not in loop.blocks for v in results for r in readers.get(v, ()))


def _blocks_of_ops(function: Function) -> dict[Op, str]:
    return {op: label for label, block in function.blocks.items() for op in block.ops}
