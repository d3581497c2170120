"""What the roles of a kernel share: the buffers and barriers of its rings, and counting slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from tileir.backend.warp_specialize.rings import Ring, RingPlan, StagedAccess
from tileir.op import Op
from tileir.ops.arith import Add, Xor
from tileir.ops.compare import ICmp, IntegerPredicate, Select
from tileir.ops.gpu import SharedAlloc
from tileir.ops.hopper import MBarrierAlloc
from tileir.types import I32, I64, AddressSpace, Type, pointer
from tileir.values import Constant, Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State

BARRIERS = pointer(I64, AddressSpace.SHARED)

LOADING = 4
"""Warps that load: one thread does, where tensor maps can, but registers are given back by
warpgroups."""


@attrs.frozen(eq=False)
class RingBuffers:
    """Buffers, one per load, and barriers of rings that are alike, which take turns: `full` ends a
    phase when a slot has been filled, `empty` when it has been read."""

    rings: tuple[Ring, ...]
    num_stages: int
    buffers: tuple[SharedAlloc, ...]
    full: MBarrierAlloc
    empty: MBarrierAlloc

    @property
    def ops(self) -> tuple[Op, ...]:
        return (*self.buffers, self.full, self.empty)

    def buffer(self, op: Op) -> Value:
        """The buffer of load `op`."""
        return self.buffers[self._place(op)[0]].result

    def load(self, op: Op) -> StagedAccess:
        """What is staged by load `op`."""
        return self._place(op)[1]

    def _place(self, op: Op) -> tuple[int, StagedAccess]:
        loads = (found for ring in self.rings for found in enumerate(ring.loads))
        return next((i, load) for i, load in loads if load.op is op)


def group_compatible_rings(rings: Sequence[Ring]) -> list[tuple[Ring, ...]]:
    """Rings of different loops whose slots hold the same and are given back alike."""
    found: dict[Any, list[Ring]] = {}
    for ring in rings:
        held = tuple((x.element, x.rows, x.columns, x.unit > 0, x.widest) for x in ring.loads)
        number = 0
        while _taken(ring, found.get(key := (held, ring.early, ring.resident, number), ())):
            number += 1
        found.setdefault(key, []).append(ring)
    return [tuple(members) for members in found.values()]


def _taken(ring: Ring, others: Sequence[Ring]) -> bool:
    """Whether `ring` cannot take turns with others: where one loop fills both, dots may come to
    read them in another order."""
    return any(ring.resident or other.loop == ring.loop for other in others)


def parts_of(rings: tuple[Ring, ...], num_stages: int, warps: int) -> RingBuffers:
    """The parts of `rings`, which are alike and which `warps` read."""
    ring = rings[0]
    buffers = tuple(
        SharedAlloc(
            pointer(load.element, AddressSpace.SHARED),
            shape=(num_stages, load.rows, load.columns), swizzle=load.swizzle, panel=load.panel,
            location=load.op.location,
        )
        for load in ring.loads
    )  # fmt: skip
    full = MBarrierAlloc(BARRIERS, count=num_stages, arrivals=_fillers(ring))
    return RingBuffers(
        rings, num_stages, buffers, full, MBarrierAlloc(BARRIERS, count=num_stages, arrivals=warps)
    )


def _fillers(ring: Ring) -> int:
    """Arrivals when a slot is filled: of what begins copies, and of every warp that loads."""
    by_threads = any(load.unit for load in ring.loads)
    return (ring.expected > 0) + LOADING * by_threads


@attrs.frozen(eq=False)
class RingCursor:
    """Where each ring of several slots is, as carried by control flow: its slot, and the parity of
    the phase that the slot is in."""

    parts: Sequence[RingBuffers]

    @property
    def types(self) -> list[tuple[Type, str]]:
        return [(I32, name) for _ in self.parts for name in ("slot", "parity")]

    @property
    def initial(self) -> State:
        return tuple(constant(I32, 0) for _ in range(2 * len(self.parts)))

    def at(self, state: State, part: RingBuffers) -> tuple[Operand, Operand]:
        """Slot and parity of a ring."""
        index = self._index(part)
        return state[index], state[index + 1]

    def advanced(self, state: State, part: RingBuffers, ops: list[Op]) -> State:
        """The state after one slot of a ring."""
        slot, parity = self.at(state, part)
        following, full = self._next(part, slot, ops)
        turned = _made(ops, Xor(parity, constant(I32, 1)))
        if full is not None:
            turned = _made(ops, Select(full, turned, parity))
        index = self._index(part)
        return (*state[:index], following, turned, *state[index + 2 :])

    def _next(
        self, part: RingBuffers, slot: Operand, ops: list[Op]
    ) -> tuple[Operand, Operand | None]:
        if part.num_stages == 1:
            return slot, None
        more = _made(ops, Add(slot, constant(I32, 1)))
        test = ICmp(more, constant(I32, part.num_stages), predicate_=IntegerPredicate.EQ)
        ops.append(test)
        full = test.results[0]
        return _made(ops, Select(full, constant(I32, 0), more)), full

    def _index(self, part: RingBuffers) -> int:
        return 2 * next(i for i, p in enumerate(self.parts) if p is part)


def flip_parity(parity: Operand, ops: list[Op]) -> Operand:
    """The other parity."""
    if isinstance(parity, Constant):
        return constant(I32, 1 - int(parity.value))
    return _made(ops, Xor(parity, constant(I32, 1)))


def _made(ops: list[Op], op: Any) -> Value:
    ops.append(op)
    return op.results[0]


def part_of(parts: Sequence[RingBuffers], found: RingPlan, op: Op) -> RingBuffers | None:
    """The parts of the ring that load `op` is of."""
    ring = found.of(op)
    return None if ring is None else next(p for p in parts if ring in p.rings)
