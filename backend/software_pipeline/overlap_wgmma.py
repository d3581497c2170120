"""A `wgmma` that its loop waits for one iteration later, so that it runs while the next begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import uses
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.ops.hopper import MBarrierArrive, Wgmma, WgmmaWait
from tileir.passes.cfg_edit import fresh_label, map_edges, with_arguments
from tileir.types import I1, I32, Tile
from tileir.values import Operand, Value, constant


def overlap_wgmma(function: Function, header: str, *, refills: bool = False) -> Function | None:
    """`function` with the one `wgmma` of the loop at `header` under way while the next iteration's
    begins; None where the loop does not allow it.

    An operand's bytes may then be written no sooner than one iteration later. What the loop
    gives back by `gpu.mbarrier_arrive` is given back that much later. A loop that writes the
    buffers of the operands itself is left as it is, unless `refills` says that it writes the
    stage of the iteration before, after a barrier that follows the wait."""
    chain = _chain(function, loops(function).by_header[header])
    if chain is None or (not refills and _refills(function, chain)):
        return None
    return _overlapped(function, chain)


@attrs.frozen(eq=False)
class _Chain:
    """A loop that adds one product to what it carries, the wait for it, and the arrivals that give
    back its slots."""

    loop: Loop
    product: Wgmma
    carried: Value
    wait: WgmmaWait
    arrivals: tuple[MBarrierArrive, ...]
    block: str


def _chain(function: Function, loop: Loop) -> _Chain | None:
    if loop.latch is None or len(loop.exits) != 1:
        return None
    products = [
        (label, op)
        for label in loop.order for op in function.blocks[label].ops if isinstance(op, Wgmma)
    ]  # fmt: skip
    if len(products) != 1 or isinstance(products[0][1].a.type, Tile):
        return None
    if loops(function).innermost[products[0][0]] != loop.header:
        return None
    label, product = products[0]
    ops = function.blocks[label].ops
    wait = ops[ops.index(product) + 1]
    if not isinstance(wait, WgmmaWait) or wait.value is not product.result or wait.pending:
        return None
    chain = _Chain(
        loop, product, cast(Value, product.c), wait, tuple(_arrivals(ops, ops.index(wait))), label
    )
    return chain if _is_sum(function, chain, product) else None


def _refills(function: Function, chain: _Chain) -> bool:
    """Whether ops of the loop other than the product are given what it reads."""
    operands = {v for v in (chain.product.a, chain.product.b) if isinstance(v, Value)}
    return any(
        operands & {*op.operands}
        for label in chain.loop.blocks for op in function.blocks[label].ops
        if op is not chain.product
    )  # fmt: skip


def _arrivals(ops: tuple[Op, ...], index: int) -> Iterator[MBarrierArrive]:
    """The arrivals among those that follow."""
    return (op for op in ops[index + 1 :] if isinstance(op, MBarrierArrive))


def _is_sum(function: Function, chain: _Chain, product: Wgmma) -> bool:
    """Whether the loop carries the sum, and reads it nowhere else."""
    header = function.blocks[chain.loop.header]
    if chain.carried not in header.parameters or any(
        a.condition is not None for a in chain.arrivals
    ):
        return False
    index = header.parameters.index(chain.carried)
    latch = function.blocks[cast(str, chain.loop.latch)].terminator
    back = [e.arguments[index] for e in latch.successors if e.label == chain.loop.header]
    inside = {op for n in chain.loop.blocks for op in function.blocks[n].ops}
    readers = uses(function)
    before = [op for op in readers.get(chain.carried, ()) if op in inside]
    after = [op for op in readers.get(chain.wait.result, ()) if op in inside]
    ends = {latch, function.blocks[chain.loop.exits[0][0]].terminator}
    last = chain.loop.exits[0][0]
    outside = any(op not in inside for op in readers.get(chain.carried, ()))
    return (
        back == [chain.wait.result]
        and not (outside and last == chain.loop.latch)
        and all(op is product or op in ends for op in before)
        and all(op in ends for op in after)
    )


def _overlapped(function: Function, chain: _Chain) -> Function:
    header, latch = chain.loop.header, chain.loop.latch
    begun, last = Value(I1, "begun"), tuple(Value(I32, "last") for _ in chain.arrivals)
    blocks = dict(function.blocks)
    block = blocks[chain.block]
    late = dict(zip(chain.arrivals, last, strict=True))
    ops: list[Op] = []
    for op in block.ops:
        if op is chain.wait:
            ops.append(chain.wait.evolve(pending=1))
        elif op in late:
            arrival = cast(MBarrierArrive, op)
            ops.append(arrival.evolve(index=late[arrival], condition=begun))
        else:
            ops.append(op)
    blocks[chain.block] = attrs.evolve(block, ops=tuple(ops))
    head = blocks[header]
    blocks[header] = attrs.evolve(head, parameters=(*head.parameters, begun, *last))
    first = (constant(I1, 0), *(constant(I32, 0) for _ in last))
    following = (constant(I1, 1), *(a.index for a in chain.arrivals))
    for label, old in blocks.items():
        given = following if label == latch else first
        blocks[label] = _passing(old, header, given)
    return _waited(function.with_blocks(blocks), chain, (begun, *last))


def _passing(block: Block, header: str, given: tuple[Operand, ...]) -> Block:
    last = map_edges(
        block.terminator, lambda e: with_arguments(e, given) if e.label == header else e
    )
    same = last is block.terminator
    return block if same else attrs.evolve(block, ops=(*block.ops[:-1], last))


def _waited(function: Function, chain: _Chain, carried: tuple[Value, ...]) -> Function:
    """The sum waited for on the way out of the loop, the last slots given back."""
    ((leaving, target),) = chain.loop.exits
    tested_first = leaving == chain.loop.header and leaving != chain.loop.latch
    value = chain.carried if tested_first else chain.wait.result
    whole = WgmmaWait(value)
    held: Operand = carried[0] if tested_first else constant(I1, 1)
    slots = carried[1:] if tested_first else tuple(a.index for a in chain.arrivals)
    arrivals = [
        a.evolve(index=s, condition=held) for a, s in zip(chain.arrivals, slots, strict=True)
    ]
    label = fresh_label(f"{target}.waited", function.blocks)
    passing = {value: whole.result}
    last = function.blocks[leaving].terminator
    (edge,) = (e for e in last.successors if e.label == target)
    given = (passing.get(a, a) if isinstance(a, Value) else a for a in edge.arguments)
    made = Block(label, (), (whole, *arrivals, Branch(Successor(target, tuple(given)))))
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        inside = name in chain.loop.blocks
        blocks[name] = block if inside else _reading(block, passing)
        if name == leaving:
            blocks[name] = _leaving(block, target, label)
            blocks[label] = made
    return function.with_blocks(blocks)


def _leaving(block: Block, old: str, new: str) -> Block:
    """`block` with its edge to `old` leading to `new`, which takes nothing."""
    last = map_edges(block.terminator, lambda e: Successor(new) if e.label == old else e)
    return attrs.evolve(block, ops=(*block.ops[:-1], last))


def _reading(block: Block, env: dict[Value, Value]) -> Block:
    return attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
