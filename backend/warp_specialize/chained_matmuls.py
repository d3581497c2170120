"""Loops that make a factor of their last product from their first."""

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
    """A loop of a test, the block `body` with the wait for the first product, and the block
    `latch`, which may be the same, with the last: the wait for it, the parameter that carries its
    sum, and all that goes with it (`late`), which moves the parameters `moved` on. `following` is
    what needs the sum."""

    header: str
    body: str
    latch: str
    labels: tuple[str, ...]
    """Blocks of the loop but for its test, in order."""
    target: str
    first: WgmmaWait
    last: Wgmma
    wait: WgmmaWait
    total: Value
    late: tuple[Op, ...]
    moved: tuple[Value, ...]
    following: tuple[Op, ...]


def chain(function: Function, loop: Loop) -> MatmulChain | None:
    """The chain of products of `loop`, if it is one."""
    ends = _ends(function, loop)
    if ends is None:
        return None
    header, body, latch, target = ends
    products = _products(function, loop, body, latch)
    if products is None:
        return None
    begun, first, last, wait = products
    total = _carrying(header, latch, wait.result)
    if total is None or uses(function)[wait.result] != (latch.terminator,):
        return None
    moved = _moved(header, latch, last)
    late = None if moved is None else _late(function, latch, (last, wait), header, moved)
    following = _following(function, loop, (body, latch), total)
    if (
        moved is None
        or late is None
        or following is None
        or total in backward_slice(function, begun.operands)
    ):
        return None
    if _seen_outside(function, loop, header):
        return None
    labels = tuple(n for n in loop.order if n != loop.header)
    return MatmulChain(
        loop.header, body.label, latch.label, labels, target, first, last, wait, total, late,
        moved, following,
    )  # fmt: skip


def latch_arguments(header: Block, latch: Block) -> dict[Value, Operand]:
    """What the latch passes for each parameter of the header."""
    (edge,) = latch.successors
    return dict(zip(header.parameters, edge.arguments, strict=True))


def _ends(function: Function, loop: Loop) -> tuple[Block, Block, Block, str] | None:
    """Test, first and last block of a loop that its test alone leaves, and where to."""
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


def _products(
    function: Function, loop: Loop, body: Block, latch: Block
) -> tuple[Wgmma, WgmmaWait, Wgmma, WgmmaWait] | None:
    """The first product of the body and the last one of the latch, each with the wait for it,
    where there are no waits but these."""
    ops = [op for n in loop.order for op in function.blocks[n].ops]
    products = [op for op in ops if isinstance(op, Wgmma)]
    waits = [op for op in ops if isinstance(op, WgmmaWait)]
    if len(products) < 2 or len(waits) != 2:
        return None
    begun, last = products[0], products[-1]
    first = next((w for w in waits if w.value is begun.result), None)
    wait = next((w for w in waits if w.value is last.result), None)
    if first is None or wait is None or not isinstance(last.a.type, Tile):
        return None
    if first not in body.ops or last not in latch.ops or wait not in latch.ops:
        return None
    if any(last.b_stage in (op.a_stage, op.b_stage) for op in products[:-1]):
        return None  # the wait for it is one for those before, too
    return begun, first, last, wait


def _carrying(header: Block, latch: Block, value: Value) -> Value | None:
    """The header's parameter that `value` is passed for, if it is one."""
    found = [p for p, v in latch_arguments(header, latch).items() if v is value]
    return found[0] if len(found) == 1 else None


def _moved(header: Block, latch: Block, last: Wgmma) -> tuple[Value, ...] | None:
    """The parameters that say where the last product's slot is: its number and its parity."""
    ops = latch.ops[: latch.ops.index(last)]
    waits = [w for w in ops if isinstance(w, MBarrierWait) and w.index is last.b_stage]
    if not waits:
        return None
    named = [v for v in (last.b_stage, waits[-1].parity) if isinstance(v, Value)]
    return tuple(named) if all(v in header.parameters for v in named) else None


def _late(
    function: Function, latch: Block, product: tuple[Wgmma, WgmmaWait], header: Block,
    moved: Sequence[Value],
) -> tuple[Op, ...] | None:  # fmt: skip
    """All that goes with the last product: its waits, the arrival that gives its slot back, and
    what moves on to the next slot; None where that has another use."""
    last, wait = product
    ops, index, made = latch.ops, latch.ops.index(last), definitions(function)
    before = [w for w in ops[:index] if isinstance(w, MBarrierWait) and w.index is last.b_stage]
    after = [a for a in ops[index:] if isinstance(a, MBarrierArrive) and a.index is last.b_stage]
    found: set[Op] = {last, wait, before[-1], *after}
    passed = latch_arguments(header, latch)
    waiting: list[Operand] = [passed[v] for v in moved]
    while waiting:
        value = waiting.pop()
        op = made.get(value) if isinstance(value, Value) else None
        if op is not None and op in ops and op not in found:
            found.add(op)
            waiting.extend(op.operands)
    readers = uses(function)
    for op in found - {wait, last}:
        for value in op.results:
            if any(r not in found and r is not latch.terminator for r in readers.get(value, ())):
                return None
    return tuple(op for op in ops if op in found)


def _following(
    function: Function, loop: Loop, ends: tuple[Block, Block], total: Value
) -> tuple[Op, ...] | None:
    """What follows from the sum in a round, in the order of the program: pure ops of the body or
    the latch; None where anything else does."""
    body, latch = ends
    found: dict[Op, None] = {}
    late = {total}
    for label in loop.order:
        for op in function.blocks[label].ops:
            if not any(v in late for v in op.operands) or isinstance(op, Wgmma):
                continue
            if op is latch.terminator:
                continue
            if label not in (body.label, latch.label) or op.effects != Effects.PURE:
                return None
            late.update(op.results)
            found[op] = None
    return tuple(found)


def backward_slice(function: Function, operands: Iterable[Operand]) -> set[Value]:
    """`operands` and what they are computed from, as far as no block passes it on."""
    made, waiting, found = definitions(function), [*operands], set[Value]()
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, Value) and operand not in found:
            found.add(operand)
            waiting.extend(made[operand].operands if operand in made else ())
    return found


def _seen_outside(function: Function, loop: Loop, header: Block) -> bool:
    """Whether what the test computes is read outside the loop."""
    place, readers = _places(function), uses(function)
    made = (v for op in header.ops for v in op.results)
    return any(place[r] not in loop.blocks for v in made for r in readers.get(v, ()))


def _places(function: Function) -> dict[Op, str]:
    return {op: label for label, block in function.blocks.items() for op in block.ops}
