"""Operands A that consumer warps store to shared memory: transposes of tiles that are computed from
another dot, and whose rows are distributed over other warps."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis.uses import defining_blocks, definitions
from tileir.backend.layouts.wgmma import COLUMNS, HALVES, ROWS, swizzle_of
from tileir.backend.warp_specialize.rings import RingPlan, StagedAccess
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import BlockBarrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence
from tileir.ops.shape import Trans
from tileir.types import I32, AddressSpace, Tile, pointer, shape_of
from tileir.values import Operand, Value, constant

_PANELS = (32, 64)
"""Row bytes of the panels that are narrower than the widest."""


@attrs.frozen(eq=False)
class TransposedOperand:
    """Operand A of a dot, the transpose of `value`, and the buffer that `value` is stored to."""

    value: Operand
    buffer: SharedAlloc

    def ops(self) -> list[Op]:
        """The store, between a barrier after earlier reads of the buffer and one before the
        next."""
        stage, place = constant(I32, 0), self.buffer.location
        stored = LocalStore(self.value, self.buffer.result, stage, location=place)
        return [BlockBarrier(), stored, AsyncFence(), BlockBarrier()]


def find_stored_operands(function: Function, plan: RingPlan) -> dict[Dot, TransposedOperand]:
    """The operand A that has to be stored, by dot. Dots of different blocks share buffers."""
    operands: dict[Dot, TransposedOperand] = {}
    buffers: dict[object, SharedAlloc] = {}
    place = defining_blocks(function)
    for dot in function.ops:
        operand = _stored_operand(function, dot, plan) if isinstance(dot, Dot) else None
        if isinstance(dot, Dot) and operand is not None:
            here = [d for d in operands if place[d.result] == place[dot.result]]
            key = operand.buffer.type, operand.buffer.shape, len(here)
            buffer = buffers.setdefault(key, operand.buffer)
            operands[dot] = attrs.evolve(operand, buffer=buffer)
    return operands


def _stored_operand(function: Function, dot: Dot, plan: RingPlan) -> TransposedOperand | None:
    op = definitions(function).get(dot.a) if isinstance(dot.a, Value) else None
    if not isinstance(op, Trans) or (dot, "a") in plan.operands:
        return None
    kind = op.value.type
    if not isinstance(kind, Tile) or kind.element not in HALVES or tuple(op.order) != (1, 0):
        return None
    if not _depends_on_dot(function, op.value, defining_blocks(function)[dot.result]):
        return None
    rows, columns = kind.shape
    swizzle = swizzle_of(rows, columns * kind.element.bytes)
    if not swizzle:
        return None
    buffer = SharedAlloc(
        pointer(kind.element, AddressSpace.SHARED), shape=(1, rows, columns), swizzle=swizzle,
        panel=(16 << swizzle) // kind.element.bytes, location=dot.location,
    )  # fmt: skip
    return TransposedOperand(op.value, buffer)


def _depends_on_dot(function: Function, value: Operand, label: str) -> bool:
    """Whether `value` is computed from the accumulator of a dot in the block `label`. A loaded tile
    would get the layout that its use needs."""
    definition, place = definitions(function), defining_blocks(function)
    waiting, seen = [value], set[Operand]()
    while waiting:
        current = waiting.pop()
        op = definition.get(current) if isinstance(current, Value) else None
        if op is None or current in seen or place[op.results[0]] != label:
            continue
        if isinstance(op, Dot):
            return True
        seen.add(current)
        waiting += op.inputs
    return False


def narrow_b_panels(plan: RingPlan, stored_operands: Mapping[Dot, TransposedOperand]) -> RingPlan:
    """`plan` with narrower panels of operand B, for a dot whose columns two warpgroups could not
    divide only because of the width of the panels, while they divide the rows of all other dots."""
    dots = {dot for ring in plan.rings for dot in ring.dots}
    if any(shape_of(dot.c.type)[0] % (2 * ROWS) for dot in dots - stored_operands.keys()):
        return plan
    widest, new = dict[Operand, int](), dict[StagedAccess, StagedAccess]()
    for dot in stored_operands:
        operand, (rows, columns) = plan.operands[dot, "b"], shape_of(dot.c.type)
        half = columns // 2 * operand.staged.element.bytes
        if rows == ROWS and not operand.transposed and half in _PANELS:
            widest[operand.staged.op.descriptor] = half

    if not widest:
        return plan

    def narrow(staged: StagedAccess) -> StagedAccess:
        most = widest.get(staged.op.descriptor, staged.widest)
        return new.setdefault(staged, attrs.evolve(staged, widest=most))

    rings = [attrs.evolve(r, loads=tuple(map(narrow, r.loads))) for r in plan.rings]
    operands = {
        place: attrs.evolve(operand, staged=narrow(operand.staged))
        for place, operand in plan.operands.items()
    }
    register_inputs = {
        dot: tuple(map(narrow, loads)) for dot, loads in plan.register_inputs.items()
    }
    return RingPlan(tuple(rings), operands, register_inputs)


def can_split_n(dot: Dot, plan: RingPlan, groups: int) -> bool:
    """Whether `groups` warpgroups can divide the columns of a dot with a stored operand A into
    whole panels of operand B."""
    rows, columns = shape_of(dot.c.type)
    operand = plan.operands[dot, "b"]
    each, remainder = divmod(columns, groups)
    if rows != ROWS or remainder:
        return False
    return each % (COLUMNS if operand.transposed else operand.staged.panel) == 0
