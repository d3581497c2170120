"""The consumer: the kernel without its staged loads, and with its dots as `wgmma`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tileir.backend.software_pipeline.promoted_wgmma import wgmma_and_wait
from tileir.backend.warp_specialize.ring_buffers import (
    RingBuffers,
    RingCursor,
    buffers_of,
    trailing_ring,
)
from tileir.backend.warp_specialize.rings import RingPlan
from tileir.backend.warp_specialize.stored_operands import TransposedOperand
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.dot import Dot
from tileir.ops.gpu import LocalLoad
from tileir.ops.hopper import AsyncFence, DeviceAssert, MBarrierArrive, MBarrierWait, Wgmma
from tileir.ops.shape import Reshape
from tileir.passes.dce import dce
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import I32, Tile, shape_of
from tileir.values import Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State


def build_consumer(
    function: Function,
    plan: RingPlan,
    ring_buffers: Sequence[RingBuffers],
    stored_operands: Mapping[Dot, TransposedOperand],
) -> Function:
    """The body of the consumer, which reads the stages of `ring_buffers` and writes
    `stored_operands`."""
    from tileir.backend.transforms.carry_state import thread_state_through

    role = _ConsumerBuilder(plan, ring_buffers, stored_operands)
    body = thread_state_through(function, role.cursor.types, role.cursor.initial, role.block)
    return simplify_cfg(dce(body))


class _ConsumerBuilder:
    def __init__(
        self,
        plan: RingPlan,
        ring_buffers: Sequence[RingBuffers],
        stored_operands: Mapping[Dot, TransposedOperand],
    ) -> None:
        self.plan, self.ring_buffers, self.cursor = plan, ring_buffers, RingCursor(ring_buffers)
        self.trailing, self.stored_operands = trailing_ring(ring_buffers), stored_operands
        self.register_inputs = {x.op for loads in plan.register_inputs.values() for x in loads}

    def block(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The block with each dot as `wgmma` after the waits for its stages."""
        ops: list[Op] = []
        waited: set[RingBuffers] = set()
        state = self._release_outer(block, state, ops, at_start=True)
        for op in block.ops:
            buffers = buffers_of(self.ring_buffers, self.plan, op)
            if buffers is not None:
                to_registers = op in self.register_inputs
                if (to_registers or buffers.rings[0].is_outer) and buffers not in waited:
                    self._wait(buffers, state, waited, ops)
                if to_registers:
                    ops += self._read(cast(DescriptorLoad, op), buffers, state)
            elif isinstance(op, Dot):
                state = self._expand_dot(op, state, waited, ops)
            elif op is block.terminator:
                state = self._release_outer(block, state, ops, at_start=False)
                ops.append(op)
            elif not isinstance(op, DeviceAssert):  # the producer checks indices
                ops.append(op)
        return ops, state

    def _release_outer(self, block: Block, state: State, ops: list[Op], *, at_start: bool) -> State:
        """Release the stages of outer rings whose last block this is: `at_start` those that no dot
        of the block reads, else the others at its end."""
        for buffers in self.ring_buffers:
            rings = [r for r in buffers.rings if r.release_block == block.label]
            within = any(r.block == block.label or {*r.dots} & {*block.ops} for r in rings)
            if rings and within is not at_start:
                state = self._release(buffers, state, ops)
        return state

    def _wait(
        self, buffers: RingBuffers, state: State, waited: set[RingBuffers], ops: list[Op]
    ) -> None:
        """Wait for a stage, and make what threads have copied visible to `wgmma` if the producer
        does not."""
        stage, parity = self.cursor.at(state, buffers)
        ops.append(MBarrierWait(buffers.full.result, stage, parity))
        if buffers is self.trailing:
            ops.append(AsyncFence())
        waited.add(buffers)

    def _read(self, op: DescriptorLoad, buffers: RingBuffers, state: State) -> list[Op]:
        """The load of a stage to registers, in place of load `op`."""
        load = next(x for ring in buffers.rings for x in ring.loads if x.op is op)
        stage = self.cursor.at(state, buffers)[0]
        rows = Tile(load.element, (load.rows, load.columns))
        local_load = LocalLoad(buffers.buffer(op), stage, rows, location=op.location)
        if shape_of(op.result.type) == rows.shape:
            return [local_load.evolve(results=op.results)]
        return [local_load, Reshape(local_load.result, op.result.type, results=op.results)]

    def _expand_dot(self, dot: Dot, state: State, waited: set[RingBuffers], ops: list[Op]) -> State:
        """The dot as `wgmma`, and the release of the stages that it is the last to read."""
        inner = [
            (buffers, ring)
            for buffers in self.ring_buffers
            for ring in buffers.rings
            if dot in ring.dots and not ring.is_outer
        ]
        for buffers, _ in inner:
            if buffers not in waited:
                self._wait(buffers, state, waited, ops)
        ops += self.stored_operands[dot].ops() if dot in self.stored_operands else ()
        (a, a_stage, trans_a), (b, b_stage, trans_b) = (
            self._operand(dot, name, state) for name in ("a", "b")
        )
        wgmma = Wgmma(
            a,
            a_stage,
            b,
            b_stage,
            dot.c,
            trans_a=trans_a,
            trans_b=trans_b,
            lhs_signed=dot.lhs_signed,
            rhs_signed=dot.rhs_signed,
            location=dot.location,
        )
        ops += wgmma_and_wait(dot, wgmma)
        for buffers, ring in inner:
            if ring.dots[-1] is dot:
                state = self._release(buffers, state, ops)
        return state

    def _release(self, buffers: RingBuffers, state: State, ops: list[Op]) -> State:
        ops.append(MBarrierArrive(buffers.empty.result, self.cursor.at(state, buffers)[0]))
        return self.cursor.advance(state, buffers, ops)

    def _operand(self, dot: Dot, name: str, state: State) -> tuple[Operand, Operand, bool]:
        """An operand of `wgmma`: its buffer or registers, its stage, and whether it is
        transposed."""
        operand = self.plan.operands.get((dot, name))
        if name == "a" and dot in self.stored_operands:
            return self.stored_operands[dot].buffer.result, constant(I32, 0), True
        if operand is None:
            return cast(Value, getattr(dot, name)), constant(I32, 0), False
        op = operand.staged.op
        buffers = buffers_of(self.ring_buffers, self.plan, op)
        assert buffers is not None
        return buffers.buffer(op), self.cursor.at(state, buffers)[0], operand.transposed
