"""The buffers and barriers of rings, which the roles of a kernel share, and the cursors that count
their stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from tileir.backend.software_pipeline.vector_loads import LEAST_BYTES
from tileir.backend.warp_specialize.rings import Ring, RingPlan, StagedAccess
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Select, Xor
from tileir.ops.gpu import SharedAlloc
from tileir.ops.hopper import MBarrierAlloc
from tileir.types import I32, I64, AddressSpace, Type, pointer
from tileir.values import Constant, Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State

BARRIERS = pointer(I64, AddressSpace.SHARED)

PRODUCER_WARPS = 4
"""Warps of the producer. One thread issues the TMA loads, but `setmaxnreg` needs a warpgroup, as do
consumers after it."""


@attrs.frozen(eq=False)
class RingBuffers:
    """The circular buffers, one per load, and the barriers that compatible rings share. A phase of
    `full` ends when a stage has been written, a phase of `empty` when it has been read."""

    rings: tuple[Ring, ...]
    num_stages: int
    buffers: tuple[SharedAlloc, ...]
    full: MBarrierAlloc
    empty: MBarrierAlloc

    @property
    def ops(self) -> tuple[Op, ...]:
        return (*self.buffers, self.full, self.empty)

    @property
    def copies_asynchronously(self) -> bool:
        """Whether the rows of a block that threads load are aligned enough for asynchronous
        copies."""
        return any(load.unit >= LEAST_BYTES for load in self.rings[0].loads)

    def buffer(self, op: Op) -> Value:
        """The buffer of load `op`."""
        return self.buffers[self._find_load(op)[0]].result

    def load(self, op: Op) -> StagedAccess:
        """The staged access of load `op`."""
        return self._find_load(op)[1]

    def _find_load(self, op: Op) -> tuple[int, StagedAccess]:
        loads = (numbered for ring in self.rings for numbered in enumerate(ring.loads))
        return next((i, load) for i, load in loads if load.op is op)


def group_compatible_rings(rings: Sequence[Ring]) -> list[tuple[Ring, ...]]:
    """Rings of different loops whose stages have the same layout and lifetime."""
    groups: dict[Any, list[Ring]] = {}
    for ring in rings:
        layouts = tuple((x.element, x.rows, x.columns, x.unit > 0, x.widest) for x in ring.loads)
        number = 0
        while _cannot_share(
            ring, groups.get(key := (layouts, ring.is_outer, ring.resident, number), ())
        ):
            number += 1
        groups.setdefault(key, []).append(ring)
    return [tuple(members) for members in groups.values()]


def _cannot_share(ring: Ring, rings: Sequence[Ring]) -> bool:
    """Whether `ring` cannot share buffers with others: dots may read the rings of one loop in
    another order than its loads write them."""
    return any(ring.resident or other.loop == ring.loop for other in rings)


def allocate_buffers(rings: tuple[Ring, ...], num_stages: int, warps: int) -> RingBuffers:
    """Buffers and barriers for compatible `rings` that `warps` read."""
    ring = rings[0]
    buffers = tuple(
        SharedAlloc(
            pointer(load.element, AddressSpace.SHARED),
            shape=(num_stages, load.rows, load.columns), swizzle=load.swizzle, panel=load.panel,
            location=load.op.location,
        )
        for load in ring.loads
    )  # fmt: skip
    full = MBarrierAlloc(BARRIERS, count=num_stages, arrivals=_full_arrivals(ring))
    return RingBuffers(
        rings, num_stages, buffers, full, MBarrierAlloc(BARRIERS, count=num_stages, arrivals=warps)
    )


_FEWEST_STAGES = 3
"""The fewest stages of a ring with a trailing stage: consumers that wait for it have not yet
released the one before, and the next one is being copied."""


def trailing_ring(ring_buffers: Sequence[RingBuffers]) -> RingBuffers | None:
    """The ring with a trailing stage, if there is one: its copies are in flight while the producer
    starts those of the next stage, and only then does the producer arrive for it.

    The ring must be the only one: consumers may need a stage of another ring to release those for
    which the producer waits."""
    buffers = ring_buffers[0] if len(ring_buffers) == 1 else None
    if buffers is None or buffers.rings[0].is_outer or buffers.num_stages < _FEWEST_STAGES:
        return None
    return buffers if buffers.copies_asynchronously else None


def _full_arrivals(ring: Ring) -> int:
    """Arrivals per phase of the full barrier: one expects TMA bytes, and one for each warp that
    loads by threads."""
    by_threads = any(load.unit for load in ring.loads)
    return (ring.tma_bytes > 0) + PRODUCER_WARPS * by_threads


@attrs.frozen(eq=False)
class RingCursor:
    """The stage that each ring is at and the parity of its phase, as values that control flow
    carries."""

    ring_buffers: Sequence[RingBuffers]

    @property
    def types(self) -> list[tuple[Type, str]]:
        return [(I32, name) for _ in self.ring_buffers for name in ("stage", "parity")]

    @property
    def initial(self) -> State:
        return tuple(constant(I32, 0) for _ in range(2 * len(self.ring_buffers)))

    def at(self, state: State, buffers: RingBuffers) -> tuple[Operand, Operand]:
        """Stage and parity of a ring."""
        index = self._index(buffers)
        return state[index], state[index + 1]

    def advance(self, state: State, buffers: RingBuffers, ops: list[Op]) -> State:
        """The state after one stage of a ring."""
        stage, parity = self.at(state, buffers)
        next_stage, wraps = self._next(buffers, stage, ops)
        next_parity = _append(ops, Xor(parity, constant(I32, 1)))
        if wraps is not None:
            next_parity = _append(ops, Select(wraps, next_parity, parity))
        index = self._index(buffers)
        return (*state[:index], next_stage, next_parity, *state[index + 2 :])

    def _next(
        self, buffers: RingBuffers, stage: Operand, ops: list[Op]
    ) -> tuple[Operand, Operand | None]:
        if buffers.num_stages == 1:
            return stage, None
        following = _append(ops, Add(stage, constant(I32, 1)))
        test = ICmp(following, constant(I32, buffers.num_stages), predicate_=IntegerPredicate.EQ)
        ops.append(test)
        wraps = test.results[0]
        return _append(ops, Select(wraps, constant(I32, 0), following)), wraps

    def _index(self, buffers: RingBuffers) -> int:
        return 2 * next(i for i, p in enumerate(self.ring_buffers) if p is buffers)


def flip_parity(parity: Operand, ops: list[Op]) -> Operand:
    """The other parity."""
    if isinstance(parity, Constant):
        return constant(I32, 1 - int(parity.value))
    return _append(ops, Xor(parity, constant(I32, 1)))


def _append(ops: list[Op], op: Any) -> Value:
    ops.append(op)
    return op.results[0]


def buffers_of(ring_buffers: Sequence[RingBuffers], plan: RingPlan, op: Op) -> RingBuffers | None:
    """The buffers of the ring of load `op`."""
    ring = plan.of(op)
    return None if ring is None else next(p for p in ring_buffers if ring in p.rings)
