"""A role that does every other program instance, and counts the slots of all."""

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


def alternate_instances(function: Function, member: int) -> Function | Refusal:
    """The body of `function` for one of two that take turns: its loop over instances does every
    other of them, from the first (`member` 0) or second on; the last parameter has become the
    barriers of turns, of which a member waits for its own."""
    from tileir.backend.transforms.clone import clone
    from tileir.backend.transforms.unroll import unroll_by_two

    outer = _instances(function)
    if outer is None:
        return Refusal("there is no loop over instances around its products")
    found = unroll_by_two(function, outer)
    if found is None:
        return Refusal("an instance hands on what it computes")
    doubled, labels = found
    own = set(outer.order) if member == 0 else set(labels.values())
    other = set(labels.values()) if member == 0 else set(outer.order)
    passed = _without_effects(doubled, other)
    if passed is None:
        return Refusal("what an instance computes decides where the next one goes")
    places = _places(passed, own)
    if places is None:
        return Refusal("there is no place for a turn to begin or end")
    turns = Value(BARRIERS, "turns")
    with_turns = _Waiting(turns, member, *places).function(passed)
    parameters = (*function.parameters, Parameter(turns))
    return clone(simplify_cfg(dce(with_turns.evolve(parameters=parameters))))


def _instances(function: Function) -> Loop | None:
    """The outermost loop around all products, if control leaves it at its head alone."""
    nest = loops(function)
    around = {label: nest.around(label) for label in _of(function, Wgmma)}
    tops: set[str] = set()
    for found in around.values():
        if found is None:
            return None
        while found.parent is not None:
            found = nest.by_header[found.parent]
        tops.add(found.header)
    if len(tops) != 1:
        return None
    loop = nest.by_header[tops.pop()]
    return loop if {label for label, _ in loop.exits} == {loop.header} else None


def _of(function: Function, kind: type[Op]) -> list[str]:
    """Blocks that hold ops of a kind."""
    return [n for n, b in function.blocks.items() if any(isinstance(op, kind) for op in b.ops)]


def _without_effects(function: Function, labels: set[str]) -> Function | None:
    """`function` whose blocks `labels` change nothing; None where control flow needs what they
    lack."""
    missing: set[Value] = set()
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if label in labels:
            gone = [op for op in block.ops[:-1] if has_effects(op)]
            missing.update(v for op in gone for v in op.results)
            kept = tuple(op for op in block.ops if op is block.terminator or not has_effects(op))
            blocks[label] = attrs.evolve(block, ops=kept)
    cleaned = dce(function.with_blocks(blocks))
    read = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if read & missing else cleaned


def _places(function: Function, own: set[str]) -> tuple[str, str] | None:
    """The blocks before whose first wait for a slot, and after whose last, a turn begins and ends;
    where they have none it begins at their end and ends at their head."""
    waits = [label for label in _of(function, MBarrierWait) if label in own]
    once, tree = _each_round(function, own), dominance(function)
    first = [n for n in once if all(tree.dominates(n, w) for w in waits)]
    last = [n for n in once if not _reaches(function, n, set(waits), own)]
    return (first[-1], last[0]) if waits and first and last else None


def _each_round(function: Function, own: set[str]) -> list[str]:
    """Blocks of an instance that every instance comes to once, in order."""
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
    """Whether control goes on from `label` to a target of the same instance."""
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
class _Waiting:
    """A function's turns: where they begin and end. The one that is first finds its turn begun."""

    turns: Value
    member: int
    begin: str
    end: str

    def function(self, function: Function) -> Function:
        from tileir.backend.transforms.carry_state import thread_state_through

        start = (constant(I32, 1 - self.member),)
        return thread_state_through(function, [(I32, "turn")], start, self._block)

    def _block(self, block: Block, state: State) -> tuple[list[Op], State]:
        ops, (parity,) = list(block.ops), state
        waits = [i for i, op in enumerate(ops) if isinstance(op, MBarrierWait)]
        if block.label == self.end:
            at = waits[-1] + 1 if waits else 0
            ops.insert(at, MBarrierArrive(self.turns, constant(I32, 1 - self.member)))
        if block.label == self.begin:
            at = waits[0] if waits else len(ops) - 1
            more: list[Op] = [MBarrierWait(self.turns, constant(I32, self.member), parity)]
            parity = flip_parity(parity, more)
            ops[at:at] = more
        return ops, (parity,)
