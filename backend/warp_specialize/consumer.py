"""The role that multiplies: the kernel less its staged loads, its dots by warpgroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tileir.backend.warp_specialize.ring_buffers import RingBuffers, RingCursor, part_of
from tileir.backend.warp_specialize.rings import RingPlan
from tileir.backend.warp_specialize.stored_operands import StoredOperand
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.dot import Dot
from tileir.ops.gpu import LocalLoad
from tileir.ops.hopper import DeviceAssert, MBarrierArrive, MBarrierWait, Wgmma, WgmmaWait
from tileir.ops.shape import Reshape
from tileir.passes.dce import dce
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.types import I32, Tile, shape_of
from tileir.values import Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State


def multiplying(
    function: Function,
    found: RingPlan,
    parts: Sequence[RingBuffers],
    factors: Mapping[Dot, StoredOperand],
) -> Function:
    """The body of `function` as the role that reads the slots of `parts`, and writes `factors`."""
    from tileir.backend.transforms.carry_state import thread_state_through

    role = _Multiplying(found, parts, factors)
    moved = thread_state_through(function, role.counting.types, role.counting.initial, role.block)
    return simplify_cfg(dce(moved))


class _Multiplying:
    def __init__(
        self, found: RingPlan, parts: Sequence[RingBuffers], factors: Mapping[Dot, StoredOperand]
    ) -> None:
        self.found, self.parts, self.counting = found, parts, RingCursor(parts)
        self.factors = factors
        self.read = {x.op for loads in found.prologues.values() for x in loads}

    def block(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The block with its products, each once its slots are full."""
        ops: list[Op] = []
        waited: set[RingBuffers] = set()
        state = self._ended(block, state, ops, early=True)
        for op in block.ops:
            part = part_of(self.parts, self.found, op)
            if part is not None:
                read = op in self.read
                if (read or part.rings[0].early) and part not in waited:
                    self._wait(part, state, waited, ops)
                if read:
                    ops += self._read(cast(DescriptorLoad, op), part, state)
            elif isinstance(op, Dot):
                state = self._product(op, state, waited, ops)
            elif op is block.terminator:
                state = self._ended(block, state, ops, early=False)
                ops.append(op)
            elif not isinstance(op, DeviceAssert):  # the role that loads looks at indices
                ops.append(op)
        return ops, state

    def _ended(self, block: Block, state: State, ops: list[Op], *, early: bool) -> State:
        """Slots that are held for a loop given back in its last block, `early` at its begin: where
        no product of that block reads them."""
        for part in self.parts:
            rings = [r for r in part.rings if r.until == block.label]
            within = any(r.home == block.label or {*r.dots} & {*block.ops} for r in rings)
            if rings and within is not early:
                state = self._given_back(part, state, ops)
        return state

    def _wait(
        self, part: RingBuffers, state: State, waited: set[RingBuffers], ops: list[Op]
    ) -> None:
        slot, parity = self.counting.at(state, part)
        ops.append(MBarrierWait(part.full.result, slot, parity))
        waited.add(part)

    def _read(self, op: DescriptorLoad, part: RingBuffers, state: State) -> list[Op]:
        """A block that ops on registers go on with."""
        load = next(x for ring in part.rings for x in ring.loads if x.op is op)
        slot = self.counting.at(state, part)[0]
        rows = Tile(load.element, (load.rows, load.columns))
        made = LocalLoad(part.buffer(op), slot, rows, location=op.location)
        if shape_of(op.result.type) == rows.shape:
            return [made.evolve(results=op.results)]
        return [made, Reshape(made.result, op.result.type, results=op.results)]

    def _product(self, dot: Dot, state: State, waited: set[RingBuffers], ops: list[Op]) -> State:
        """The dot, and the slots that it was the last to read given back."""
        moving = [
            (part, ring)
            for part in self.parts
            for ring in part.rings
            if dot in ring.dots and not ring.early
        ]
        for part, _ in moving:
            if part not in waited:
                self._wait(part, state, waited, ops)
        ops += self.factors[dot].ops() if dot in self.factors else ()
        (a, a_stage, trans_a), (b, b_stage, trans_b) = (
            self._factor(dot, name, state) for name in ("a", "b")
        )
        made = Wgmma(
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
        done = WgmmaWait(made.result, results=dot.results, location=dot.location)
        ops += [made, done]
        for part, ring in moving:
            if ring.dots[-1] is dot:
                state = self._given_back(part, state, ops)
        return state

    def _given_back(self, part: RingBuffers, state: State, ops: list[Op]) -> State:
        ops.append(MBarrierArrive(part.empty.result, self.counting.at(state, part)[0]))
        return self.counting.advanced(state, part, ops)

    def _factor(self, dot: Dot, name: str, state: State) -> tuple[Operand, Operand, bool]:
        """A factor as a product takes it: what holds it, its slot, and whether transposed."""
        factor = self.found.factors.get((dot, name))
        if name == "a" and dot in self.factors:
            return self.factors[dot].buffer.result, constant(I32, 0), True
        if factor is None:
            return cast(Value, getattr(dot, name)), constant(I32, 0), False
        op = factor.staged.op
        part = part_of(self.parts, self.found, op)
        assert part is not None
        return part.buffer(op), self.counting.at(state, part)[0], factor.transposed
