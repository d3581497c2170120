"""Barriers between ops (the paper's section 5.2.4).

An op that goes through shared memory writes it, waits, and reads it: the barrier between is its
own. What remains are hazards between ops, found by data flow:

- write after read: an op may overwrite shared bytes that a thread has not yet read;
- through global memory: what one thread stored another may load, and what one has not yet loaded
  another may overwrite, in one program instance. A thread that loads and stores through one
  pointer meets nobody but itself.

A barrier clears everything before it. Pointers that come from different parameters are taken to
reach memory that does not overlap within one program instance, as everywhere in this compiler.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.backend.memory.overlap import Reach, apart, reaches, same_values
from tileir.backend.memory.scratch import Plan
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import Barrier
from tileir.types import AddressSpace, Pointer, Tile, Type, element_of
from tileir.values import Operand, Value

Span: TypeAlias = tuple[int, int]
Base: TypeAlias = "Value | None"
"""The parameter a pointer comes from; None where it is not known."""
Load: TypeAlias = "tuple[Base, Value | None, Reach | None]"
"""Where a load reads from: base, the pointer (None for one of an earlier block, which may point
elsewhere by now), and how far from the base."""


@attrs.frozen
class Bases:
    """Of every pointer, the parameter it comes from and how far it may point from there."""

    roots: dict[Value, Base]
    reaches: dict[Value, Reach]
    same: dict[Value, Value]


@attrs.frozen
class State:
    """What has happened since the last barrier: shared bytes read, global memory written and
    read, by base."""

    read: frozenset[Span] = frozenset()
    stored: frozenset[Base] = frozenset()
    loaded: frozenset[Load] = frozenset()

    @property
    def left(self) -> State:
        """What it is in a block that follows."""
        return State(self.read, self.stored, frozenset((b, None, r) for b, _, r in self.loaded))

    def __or__(self, other: State) -> State:
        return State(self.read | other.read, self.stored | other.stored, self.loaded | other.loaded)


def place_barriers(function: Function, memory: Plan) -> Function:
    """`function` with a `gpu.barrier` before every op that has a hazard."""
    bases = _bases(function)
    graph = cfg(function)
    entering = {label: State() for label in graph.order}
    changed = True
    while changed:
        changed = False
        for label in graph.order:
            state = entering[label]
            for op in function.blocks[label].ops:
                state = _after(op, state, memory, bases)
            for successor in graph.successors[label]:
                joined = entering[successor] | state.left
                changed |= joined != entering[successor]
                entering[successor] = joined
    blocks = {}
    for label, block in function.blocks.items():
        ops: list[Op] = []
        state = entering.get(label, State())
        for op in block.ops:
            if _hazard(op, state, memory, bases):
                ops.append(Barrier(location=op.location))
            state = _after(op, state, memory, bases)
            ops.append(op)
        same = len(ops) == len(block.ops)
        blocks[label] = block if same else attrs.evolve(block, ops=tuple(ops))
    return function.with_blocks(blocks)


def _after(op: Op, state: State, memory: Plan, bases: Bases) -> State:
    if _hazard(op, state, memory, bases) or op.mnemonic == Barrier.mnemonic:
        state = State()
    span = _span(op, memory)
    if span is not None:
        state = State(read=frozenset({span}))
    pointers = _pointers(op, bases)
    stored = state.stored | pointers if _writes_global(op) else state.stored
    loaded = state.loaded | _loads(op, bases) if op.effects & Effects.READ else state.loaded
    return State(state.read, stored, loaded)


def _hazard(op: Op, state: State, memory: Plan, bases: Bases) -> bool:
    if op.mnemonic == Barrier.mnemonic:
        return False
    span = _span(op, memory)
    if span is not None and any(a < span[1] and span[0] < b for a, b in state.read):
        return True
    pointers = _pointers(op, bases)
    if op.effects & Effects.SYNC:
        touched = state.stored | {load[0] for load in state.loaded}
        return bool(touched) and (_orders(op) or _meet(pointers, touched))
    if _writes_global(op) and _overwrites(op, pointers, state.loaded, bases):
        return True
    return bool(op.effects & (Effects.READ | Effects.WRITE)) and _meet(pointers, state.stored)


def _loads(op: Op, bases: Bases) -> frozenset[Load]:
    pointers = [v for v in op.inputs if _is_global(v)]
    return frozenset((_base(v, bases), *_place(v, bases)) for v in pointers)


def _place(operand: Operand, bases: Bases) -> tuple[Value | None, Reach | None]:
    if not isinstance(operand, Value):
        return None, None
    return bases.same.get(operand, operand), bases.reaches.get(operand)


def _overwrites(op: Op, pointers: frozenset[Base], loaded: frozenset[Load], bases: Bases) -> bool:
    """Whether a store may reach what another thread has not yet loaded."""
    mine = next((v for v in op.inputs if _is_global(v)), None)
    pointer, reach = (None, None) if mine is None else _place(mine, bases)
    own = pointer if mine is not None and _in_one_warp(mine.type) else None
    others = frozenset(
        base
        for base, through, other in loaded
        if (through is None or through is not own) and not apart(reach, other)
    )
    return _meet(pointers, others)


def _in_one_warp(type: Type) -> bool:
    """Whether the threads that hold an element are all of one warp, which loads at once."""
    if not isinstance(type, Tile):
        return False
    layout = type.layout
    return not layout.free_bits("warp") and all(any(d.step) for d in layout.digits("warp"))


def _orders(op: Any) -> bool:
    """Whether an op that synchronises orders accesses beside its own."""
    return getattr(getattr(op, "sem", None), "value", "") != "relaxed"


def _meet(mine: frozenset[Base], theirs: frozenset[Base]) -> bool:
    if not mine or not theirs:
        return False
    return None in mine or None in theirs or bool(mine & theirs)


def _span(op: Op, memory: Plan) -> Span | None:
    offset = memory.offsets.get(op)
    return None if offset is None else (offset, offset + memory.sizes[op])


def _pointers(op: Op, bases: Bases) -> frozenset[Base]:
    if not op.effects & (Effects.READ | Effects.WRITE):
        return frozenset()
    pointers = [v for v in op.inputs if _is_global(v)]
    return frozenset(_base(v, bases) for v in pointers)


def _is_global(operand: Operand) -> bool:
    """Whether `operand` points to memory whose hazards are looked for here: buffers in shared
    memory come with the barriers they need."""
    found = element_of(operand.type)
    return isinstance(found, Pointer) and found.space is not AddressSpace.SHARED


def _writes_global(op: Op) -> bool:
    """Whether `op` writes memory, and not to a buffer in shared memory."""
    kinds = [k for v in op.inputs if isinstance(k := element_of(v.type), Pointer)]
    to_buffer = any(k.space is AddressSpace.SHARED for k in kinds)
    return bool(op.effects & Effects.WRITE) and not to_buffer


def _base(operand: Operand, bases: Bases) -> Base:
    return bases.roots.get(operand) if isinstance(operand, Value) else None


def _bases(function: Function) -> Bases:
    """The parameter each pointer is computed from."""
    found: dict[Value, Base] = {p.value: p.value for p in function.parameters}
    bases = Bases(found, reaches(function), same_values(function))
    for label in cfg(function).order:
        for op in function.blocks[label].ops:
            roots = {_base(v, bases) for v in op.inputs if isinstance(element_of(v.type), Pointer)}
            for result in op.results:
                if isinstance(element_of(result.type), Pointer) and len(roots) == 1:
                    found[result] = next(iter(roots))
    return bases
