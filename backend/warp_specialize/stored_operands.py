"""First factors that the threads which multiply write to shared memory for themselves: what they
made of another product, transposed, of which each warp needs rows that others hold."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis.uses import defining_blocks, definitions
from tileir.backend.layouts.wgmma import COLUMNS, HALVES, ROWS, swizzle_of
from tileir.backend.warp_specialize.rings import RingPlan, StagedAccess
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import Barrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence
from tileir.ops.shape import Trans
from tileir.types import I32, AddressSpace, Tile, pointer, shape_of
from tileir.values import Operand, Value, constant

_PANELS = (32, 64)
"""Bytes of a row of panels narrower than the widest."""


@attrs.frozen(eq=False)
class StoredOperand:
    """A first factor, `value` transposed, and the buffer it lies in, as `value` is."""

    value: Operand
    buffer: SharedAlloc

    def ops(self) -> list[Op]:
        """What writes it: once all warps have multiplied what lay there, and before any
        multiplies."""
        slot, place = constant(I32, 0), self.buffer.location
        stored = LocalStore(self.value, self.buffer.result, slot, location=place)
        return [Barrier(), stored, AsyncFence(), Barrier()]


def written(function: Function, found: RingPlan) -> dict[Dot, StoredOperand]:
    """By dot, the first factor that has to be written; those of different blocks take turns with
    buffers."""
    made: dict[Dot, StoredOperand] = {}
    buffers: dict[object, SharedAlloc] = {}
    place = defining_blocks(function)
    for dot in function.ops:
        factor = _factor(function, dot, found) if isinstance(dot, Dot) else None
        if isinstance(dot, Dot) and factor is not None:
            here = [d for d in made if place[d.result] == place[dot.result]]
            key = factor.buffer.type, factor.buffer.shape, len(here)
            buffer = buffers.setdefault(key, factor.buffer)
            made[dot] = attrs.evolve(factor, buffer=buffer)
    return made


def _factor(function: Function, dot: Dot, found: RingPlan) -> StoredOperand | None:
    op = definitions(function).get(dot.a) if isinstance(dot.a, Value) else None
    if not isinstance(op, Trans) or (dot, "a") in found.factors:
        return None
    kind = op.value.type
    if not isinstance(kind, Tile) or kind.element not in HALVES or tuple(op.order) != (1, 0):
        return None
    if not _from_product(function, op.value, defining_blocks(function)[dot.result]):
        return None
    rows, columns = kind.shape
    swizzle = swizzle_of(rows, columns * kind.element.bytes)
    if not swizzle:
        return None
    buffer = SharedAlloc(
        pointer(kind.element, AddressSpace.SHARED), shape=(1, rows, columns), swizzle=swizzle,
        panel=(16 << swizzle) // kind.element.bytes, location=dot.location,
    )  # fmt: skip
    return StoredOperand(op.value, buffer)


def _from_product(function: Function, value: Operand, label: str) -> bool:
    """Whether ops on registers make `value` of a product's sums in the block `label`: loads are
    laid out as they are needed."""
    made, place = definitions(function), defining_blocks(function)
    waiting, seen = [value], set[Operand]()
    while waiting:
        current = waiting.pop()
        op = made.get(current) if isinstance(current, Value) else None
        if op is None or current in seen or place[op.results[0]] != label:
            continue
        if isinstance(op, Dot):
            return True
        seen.add(current)
        waiting += op.inputs
    return False


def narrow_b_panels(found: RingPlan, factors: Mapping[Dot, StoredOperand]) -> RingPlan:
    """`found` with second factors in panels of half the columns where two warpgroups, which share
    the rows of all other products, could share those of one but for the width of panels."""
    dots = {dot for ring in found.rings for dot in ring.dots}
    if any(shape_of(dot.c.type)[0] % (2 * ROWS) for dot in dots - factors.keys()):
        return found
    widest, new = dict[Operand, int](), dict[StagedAccess, StagedAccess]()
    for dot in factors:
        factor, (rows, columns) = found.factors[dot, "b"], shape_of(dot.c.type)
        half = columns // 2 * factor.staged.element.bytes
        if rows == ROWS and not factor.transposed and half in _PANELS:
            widest[factor.staged.op.descriptor] = half

    if not widest:
        return found

    def changed(staged: StagedAccess) -> StagedAccess:
        most = widest.get(staged.op.descriptor, staged.widest)
        return new.setdefault(staged, attrs.evolve(staged, widest=most))

    rings = [attrs.evolve(r, loads=tuple(map(changed, r.loads))) for r in found.rings]
    lying = {
        place: attrs.evolve(factor, staged=changed(factor.staged))
        for place, factor in found.factors.items()
    }
    prologues = {dot: tuple(map(changed, loads)) for dot, loads in found.prologues.items()}
    return RingPlan(tuple(rings), lying, prologues)


def can_split_n(dot: Dot, found: RingPlan, groups: int) -> bool:
    """Whether `groups` warpgroups can have columns of a product each, whose first factor is
    written: whole panels of the second one."""
    rows, columns = shape_of(dot.c.type)
    factor = found.factors[dot, "b"]
    each, left = divmod(columns, groups)
    if rows != ROWS or left:
        return False
    return each % (COLUMNS if factor.transposed else factor.staged.panel) == 0
