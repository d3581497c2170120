"""The producer: the control flow of the kernel, and its staged loads as TMA loads, or as loads by
threads where there is no tensor map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileir.backend.tma.host_expressions import host_values
from tileir.backend.warp_specialize.ring_buffers import (
    RingBuffers,
    RingCursor,
    buffers_of,
    flip_parity,
    trailing_ring,
)
from tileir.backend.warp_specialize.rings import RingPlan
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.gpu import AsyncCommit, AsyncWait
from tileir.ops.hints import Assume
from tileir.ops.hopper import (
    AsyncFence,
    DeviceAssert,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierWait,
    TmaLoad,
)
from tileir.passes.dce import dce, has_effects
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import I32, Type
from tileir.values import Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State


def build_producer(
    function: Function, plan: RingPlan, ring_buffers: Sequence[RingBuffers]
) -> Function | None:
    """The body of the producer, which fills the stages of `ring_buffers`; None where control flow
    or an index depends on values that only the consumer computes."""
    from tileir.backend.transforms.carry_state import thread_state_through

    role = _ProducerBuilder(function, plan, ring_buffers)
    body = thread_state_through(function, role.types, role.initial, role.block)
    cleaned = simplify_cfg(dce(body))
    waited = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if waited & role.undefined else cleaned


class _ProducerBuilder:
    def __init__(
        self, function: Function, plan: RingPlan, ring_buffers: Sequence[RingBuffers]
    ) -> None:
        from tileir.backend.warp_specialize.cooperative_loads import CooperativeLoads, blocks_read

        self.plan, self.ring_buffers, self.cursor = plan, ring_buffers, RingCursor(ring_buffers)
        loads = [load for ring in plan.rings for load in ring.loads]
        self.cooperative_loads = CooperativeLoads(
            blocks_read(function, [x.op for x in loads if x.unit])
        )
        self.trailing = trailing_ring(ring_buffers)
        self.invariant = host_values(function)
        self.undefined: set[Value] = set()
        """Results of the ops that the producer does not have."""

    @property
    def types(self) -> list[tuple[Type, str]]:
        """Types and names of the state: that of the rings, and the trailing stage."""
        return self.cursor.types + [(I32, "trailing")] * (self.trailing is not None)

    @property
    def initial(self) -> State:
        """The state at the entry, where no stage is trailing."""
        return self.cursor.initial + (constant(I32, _NONE),) * (self.trailing is not None)

    def block(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The block with its loads as copies, and without ops that have effects."""
        ops: list[Op] = []
        copied: dict[RingBuffers, int] = {}
        for op in block.ops:
            if isinstance(op, Return) and self.trailing is not None:
                self._arrive_trailing(self.trailing, state, 0, ops)
            buffers = buffers_of(self.ring_buffers, self.plan, op)
            if buffers is not None:
                assert isinstance(op, DescriptorLoad)
                state = self._copy(op, buffers, copied, state, ops)
                self.undefined.update(op.results)
            elif has_effects(op) and op is not block.terminator and not self._keeps(op):
                self.undefined.update(op.results)
            else:
                ops.append(op)
                if isinstance(op, MakeDescriptor) and op.result in self.cooperative_loads.blocks:
                    ops.append(self.cooperative_loads.make_chunk_descriptor(op))
        return ops, state

    def _keeps(self, op: Op) -> bool:
        """Whether the producer keeps an op with an effect: a check of an index, or an assumption on
        a value that depends only on kernel arguments."""
        if isinstance(op, Assume):
            return op.condition in self.invariant
        return isinstance(op, DeviceAssert)

    def _copy(
        self, op: DescriptorLoad, buffers: RingBuffers, copied: dict[RingBuffers, int],
        state: State, ops: list[Op],
    ) -> State:  # fmt: skip
        """The copy of one load: the first of a ring waits for the stage, the last advances."""
        ring, (stage, parity) = buffers.rings[0], self.cursor.at(state, buffers)
        full, empty = buffers.full.result, buffers.empty.result
        if buffers not in copied:
            copied[buffers] = 0
            if not ring.resident:
                ops.append(MBarrierWait(empty, stage, flip_parity(parity, ops)))
            if ring.tma_bytes:
                ops.append(MBarrierExpect(full, stage, bytes=ring.tma_bytes))
        copied[buffers] += 1
        buffer, load = buffers.buffer(op), buffers.load(op)
        if load.unit:
            ops += self.cooperative_loads.load_block(load, buffer, stage)
        else:
            place = op.location
            ops.append(
                TmaLoad(op.descriptor, buffer, stage, full, stage, op.indices, location=place)
            )
        if copied[buffers] < len(ring.loads):
            return state
        if buffers is self.trailing:
            ops.append(AsyncCommit())
            self._arrive_trailing(buffers, state, 1, ops)
            state = (*state[:-1], stage)
        elif any(load.unit for load in ring.loads):
            ops += [AsyncCommit(), AsyncWait()] if buffers.copies_asynchronously else []
            ops += [AsyncFence(), MBarrierArrive(full, stage)]
        return state if ring.resident else self.cursor.advance(state, buffers, ops)

    def _arrive_trailing(
        self, buffers: RingBuffers, state: State, pending: int, ops: list[Op]
    ) -> None:
        """Arrive for the trailing stage, if there is one, when its copies have ended: all but the
        newest `pending` groups. A proxy fence of this thread would wait for those, too; the
        consumers have it after their wait."""
        stage = state[-1]
        exists = ICmp(stage, constant(I32, _NONE), predicate_=IntegerPredicate.NE)
        ops += [AsyncWait(pending=pending), exists]
        ops.append(MBarrierArrive(buffers.full.result, stage, exists.results[0]))


_NONE = -1
"""The trailing stage before the first copy."""
