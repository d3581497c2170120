"""The role that loads: the kernel's control flow, its staged loads as copies by tensor maps."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.roles.carried import State, carried
from tileir.backend.roles.parts import Counting, RingParts, inverse, part_of
from tileir.backend.roles.rings import Rings
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.hopper import Check, MBarrierExpect, MBarrierWait, TmaLoad
from tileir.passes.dce import dce, needed
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.values import Value


def loading(function: Function, found: Rings, parts: Sequence[RingParts]) -> Function | None:
    """The body of `function` as the role that fills the slots of `parts`; None where control flow
    or an index follows from what the other role computes or changes."""
    role = _Loading(found, parts)
    moved = carried(function, role.counting.types, role.counting.initial, role.block)
    cleaned = simplify_cfg(dce(moved))
    waited = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if waited & role.missing else cleaned


class _Loading:
    def __init__(self, found: Rings, parts: Sequence[RingParts]) -> None:
        self.found, self.parts, self.counting = found, parts, Counting(parts)
        self.missing: set[Value] = set()
        """What ops that the role lacks would define."""

    def block(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The block with its copies, less what has effects."""
        ops: list[Op] = []
        begun: dict[RingParts, int] = {}
        for op in block.ops:
            part = part_of(self.parts, self.found, op)
            if part is not None:
                assert isinstance(op, DescriptorLoad)
                state = self._copy(op, part, begun, state, ops)
                self.missing.update(op.results)
            elif needed(op) and op is not block.terminator and not isinstance(op, Check):
                self.missing.update(op.results)
            else:
                ops.append(op)
        return ops, state

    def _copy(
        self, op: DescriptorLoad, part: RingParts, begun: dict[RingParts, int], state: State,
        ops: list[Op],
    ) -> State:  # fmt: skip
        """The copy of one load: the ring's first waits for its slot, its last goes on."""
        ring, (slot, parity) = part.rings[0], self.counting.at(state, part)
        full, empty = part.full.result, part.empty.result
        if part not in begun:
            begun[part] = 0
            if not ring.resident:
                ops.append(MBarrierWait(empty, slot, inverse(parity, ops)))
            ops.append(MBarrierExpect(full, slot, bytes=ring.bytes))
        begun[part] += 1
        buffer, place = part.buffer(op), op.location
        copy = TmaLoad(op.descriptor, buffer, slot, full, slot, op.indices, location=place)
        ops.append(copy)
        done = begun[part] == len(ring.loads) and not ring.resident
        return self.counting.advanced(state, part, ops) if done else state
