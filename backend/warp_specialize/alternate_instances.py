"""Ping-pong consumers: each computes every other program instance, but counts the stages of all
instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.backend.warp_specialize.ring_buffers import BARRIERS, flip_parity
from tileir.ir import Block, Function, Parameter
from tileir.op import Op
from tileir.ops.hopper import MBarrierArrive, MBarrierWait, Wgmma
from tileir.passes.dce import dce, has_effects
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.refusal import Refusal
from tileir.types import I32
from tileir.values import Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State


def alternate_instances(function: Function, index: int) -> Function | Refusal:
    """The body of `function` for one of two ping-pong consumers: its loop computes every other
    instance, from the first (`index` 0) or second (1) on. A parameter is added for the two barriers
    that order the consumers; each waits for barrier `index`."""
    from tileir.backend.transforms.clone import clone
    from tileir.backend.transforms.unroll import unroll_by_two

    outer = _instances(function)
    if outer is None:
        return Refusal("no loop over instances is around the matmuls")
    unrolled = unroll_by_two(function, outer)
    if unrolled is None:
        return Refusal("a computed value is carried to the next instance")
    doubled, labels = unrolled
    own = set(outer.order) if index == 0 else set(labels.values())
    other = set(labels.values()) if index == 0 else set(outer.order)
    alternating = _without_effects(doubled, other)
    if alternating is None:
        return Refusal("control flow depends on values that the other consumer computes")
    points = _order_points(alternating, own)
    if points is None:
        return Refusal("the waits for stages have no common first or last block")
    barriers = Value(BARRIERS, "order")
    with_barriers = _OrderBarriers(barriers, index, *points).function(alternating)
    parameters = (*function.parameters, Parameter(barriers))
    return clone(simplify_cfg(dce(with_barriers.evolve(parameters=parameters))))


def _instances(function: Function) -> Loop | None:
    """The outermost loop around all matmuls, if its only exit is in its header."""
    nest = loops(function)
    around = {label: nest.around(label) for label in _blocks_with(function, Wgmma)}
    tops: set[str] = set()
    for loop in around.values():
        if loop is None:
            return None
        while loop.parent is not None:
            loop = nest.by_header[loop.parent]
        tops.add(loop.header)
    if len(tops) != 1:
        return None
    loop = nest.by_header[tops.pop()]
    return loop if {label for label, _ in loop.exits} == {loop.header} else None


def _blocks_with(function: Function, kind: type[Op]) -> list[str]:
    """The blocks that have ops of a kind."""
    return [n for n, b in function.blocks.items() if any(isinstance(op, kind) for op in b.ops)]


def _without_effects(function: Function, labels: set[str]) -> Function | None:
    """`function` without the ops with effects of blocks `labels`; None if other ops need their
    results."""
    missing: set[Value] = set()
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if label in labels:
            gone = [op for op in block.ops[:-1] if has_effects(op)]
            missing.update(v for op in gone for v in op.results)
            ops = tuple(op for op in block.ops if op is block.terminator or not has_effects(op))
            blocks[label] = attrs.evolve(block, ops=ops)
    cleaned = dce(function.with_blocks(blocks))
    read = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if read & missing else cleaned


def _order_points(function: Function, own: set[str]) -> tuple[str, str] | None:
    """The block before whose first wait for a stage (or at whose end) the consumer waits for its
    order barrier, and the block after whose last wait (or at whose start) it arrives at the order
    barrier of the other consumer."""
    waits = [label for label in _blocks_with(function, MBarrierWait) if label in own]
    once, tree = _blocks_of_every_instance(function, own), dominance(function)
    first = [n for n in once if all(tree.dominates(n, w) for w in waits)]
    last = [n for n in once if not _reaches(function, n, set(waits), own)]
    return (first[-1], last[0]) if waits and first and last else None


def _blocks_of_every_instance(function: Function, own: set[str]) -> list[str]:
    """The blocks that every instance executes once, in order."""
    nest, tree, graph = loops(function), dominance(function), cfg(function)
    depth = min(nest.depth(label) for label in own)
    ends = [
        n for n in own if any(t not in own and nest.depth(t) == depth for t in graph.successors[n])
    ]
    return [
        n
        for n in graph.order
        if n in own and nest.depth(n) == depth and all(tree.dominates(n, e) for e in ends)
    ]


def _reaches(function: Function, label: str, targets: set[str], own: set[str]) -> bool:
    """Whether control may reach a target from `label` in the same instance."""
    seen: set[str] = set()
    stack = [n for n in cfg(function).successors[label] if n in own]
    while stack:
        at = stack.pop()
        if at in targets:
            return True
        if at not in seen:
            seen.add(at)
            stack += [n for n in cfg(function).successors[at] if n in own]
    return False


@attrs.frozen(eq=False)
class _OrderBarriers:
    """Inserts the wait and the arrival at the order barriers, in blocks `begin` and `end`. The
    first wait of consumer 0 does not block."""

    barriers: Value
    index: int
    begin: str
    end: str

    def function(self, function: Function) -> Function:
        from tileir.backend.transforms.carry_state import thread_state_through

        start = (constant(I32, 1 - self.index),)
        return thread_state_through(function, [(I32, "order_parity")], start, self._block)

    def _block(self, block: Block, state: State) -> tuple[list[Op], State]:
        ops, (parity,) = list(block.ops), state
        waits = [i for i, op in enumerate(ops) if isinstance(op, MBarrierWait)]
        if block.label == self.end:
            at = waits[-1] + 1 if waits else 0
            ops.insert(at, MBarrierArrive(self.barriers, constant(I32, 1 - self.index)))
        if block.label == self.begin:
            at = waits[0] if waits else len(ops) - 1
            more: list[Op] = [MBarrierWait(self.barriers, constant(I32, self.index), parity)]
            parity = flip_parity(parity, more)
            ops[at:at] = more
        return ops, (parity,)
