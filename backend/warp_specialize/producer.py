"""The role that loads: the kernel's control flow, its staged loads as copies by tensor maps, or
by its threads where no map can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileir.backend.tma.host_expressions import host_values
from tileir.backend.warp_specialize.ring_buffers import (
    RingBuffers,
    RingCursor,
    flip_parity,
    part_of,
)
from tileir.backend.warp_specialize.rings import RingPlan
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.hopper import (
    AsyncFence,
    DeviceAssert,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierWait,
    TmaLoad,
)
from tileir.ops.program import Assume
from tileir.passes.dce import dce, has_effects
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State


def loading(function: Function, found: RingPlan, parts: Sequence[RingBuffers]) -> Function | None:
    """The body of `function` as the role that fills the slots of `parts`; None where control flow
    or an index follows from what the other role computes or changes."""
    from tileir.backend.transforms.carry_state import thread_state_through

    role = _Loading(function, found, parts)
    moved = thread_state_through(function, role.counting.types, role.counting.initial, role.block)
    cleaned = simplify_cfg(dce(moved))
    waited = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if waited & role.missing else cleaned


class _Loading:
    def __init__(self, function: Function, found: RingPlan, parts: Sequence[RingBuffers]) -> None:
        from tileir.backend.warp_specialize.cooperative_loads import CooperativeLoads, blocks_read

        self.found, self.parts, self.counting = found, parts, RingCursor(parts)
        loads = [load for ring in found.rings for load in ring.loads]
        self.fetching = CooperativeLoads(blocks_read(function, [x.op for x in loads if x.unit]))
        self.invariant = host_values(function)
        self.missing: set[Value] = set()
        """What ops that the role lacks would define."""

    def block(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The block with its copies, less what has effects."""
        ops: list[Op] = []
        begun: dict[RingBuffers, int] = {}
        for op in block.ops:
            part = part_of(self.parts, self.found, op)
            if part is not None:
                assert isinstance(op, DescriptorLoad)
                state = self._copy(op, part, begun, state, ops)
                self.missing.update(op.results)
            elif has_effects(op) and op is not block.terminator and not self._kept(op):
                self.missing.update(op.results)
            else:
                ops.append(op)
                if isinstance(op, MakeDescriptor) and op.result in self.fetching.blocks:
                    ops.append(self.fetching.made(op))
        return ops, state

    def _kept(self, op: Op) -> bool:
        """Whether the role needs an op with an effect: a check, and what is assumed of what follows
        from the kernel's arguments alone."""
        if isinstance(op, Assume):
            return op.condition in self.invariant
        return isinstance(op, DeviceAssert)

    def _copy(
        self, op: DescriptorLoad, part: RingBuffers, begun: dict[RingBuffers, int], state: State,
        ops: list[Op],
    ) -> State:  # fmt: skip
        """The copy of one load: the ring's first waits for its slot, its last goes on."""
        ring, (slot, parity) = part.rings[0], self.counting.at(state, part)
        full, empty = part.full.result, part.empty.result
        if part not in begun:
            begun[part] = 0
            if not ring.resident:
                ops.append(MBarrierWait(empty, slot, flip_parity(parity, ops)))
            if ring.expected:
                ops.append(MBarrierExpect(full, slot, bytes=ring.expected))
        begun[part] += 1
        buffer, load = part.buffer(op), part.load(op)
        if load.unit:
            ops += self.fetching.loaded(load, buffer, slot)
        else:
            place = op.location
            ops.append(TmaLoad(op.descriptor, buffer, slot, full, slot, op.indices, location=place))
        if begun[part] < len(ring.loads):
            return state
        if any(load.unit for load in ring.loads):
            ops += [AsyncFence(), MBarrierArrive(full, slot)]
        return state if ring.resident else self.counting.advanced(state, part, ops)
