"""First factors that the threads which multiply write to shared memory for themselves: what they
made of another product, transposed, of which each warp needs rows that others hold."""

from __future__ import annotations

from tileir import records
from tileir.analysis.uses import definitions, homes
from tileir.backend.layouts.warpgroups import COLUMNS, ROWS
from tileir.backend.roles.rings import HALVES, Rings, swizzle_of
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import Barrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence
from tileir.ops.shape import Trans
from tileir.types import I32, AddressSpace, Tile, pointer, shape_of
from tileir.values import Operand, Value, constant


@records.frozen(eq=False)
class Written:
    """A first factor, `value` transposed, and the buffer it lies in, as `value` is."""

    value: Operand
    buffer: SharedAlloc

    def ops(self) -> list[Op]:
        """What writes it: once all warps have multiplied what lay there, and before any
        multiplies."""
        slot, place = constant(I32, 0), self.buffer.location
        stored = LocalStore(self.value, self.buffer.result, slot, location=place)
        return [Barrier(), stored, AsyncFence(), Barrier()]


def written(function: Function, found: Rings) -> dict[Dot, Written]:
    """By dot, the first factor that has to be written; those of different blocks take turns with
    buffers."""
    made: dict[Dot, Written] = {}
    buffers: dict[object, SharedAlloc] = {}
    place = homes(function)
    for dot in function.ops:
        factor = _factor(function, dot, found) if isinstance(dot, Dot) else None
        if isinstance(dot, Dot) and factor is not None:
            here = [d for d in made if place[d.result] == place[dot.result]]
            key = factor.buffer.type, factor.buffer.shape, len(here)
            buffer = buffers.setdefault(key, factor.buffer)
            made[dot] = records.evolve(factor, buffer=buffer)
    return made


def _factor(function: Function, dot: Dot, found: Rings) -> Written | None:
    op = definitions(function).get(dot.a) if isinstance(dot.a, Value) else None
    if not isinstance(op, Trans) or (dot, "a") in found.factors:
        return None
    kind = op.value.type
    if not isinstance(kind, Tile) or kind.element not in HALVES or tuple(op.order) != (1, 0):
        return None
    if not _from_product(function, op.value, homes(function)[dot.result]):
        return None
    rows, columns = kind.shape
    swizzle = swizzle_of(rows, columns * kind.element.bytes)
    if not swizzle:
        return None
    buffer = SharedAlloc(
        pointer(kind.element, AddressSpace.SHARED), shape=(1, rows, columns), swizzle=swizzle,
        panel=(16 << swizzle) // kind.element.bytes, location=dot.location,
    )  # fmt: skip
    return Written(op.value, buffer)


def _from_product(function: Function, value: Operand, label: str) -> bool:
    """Whether ops on registers make `value` of a product's sums in the block `label`: loads are
    laid out as they are needed."""
    made, place = definitions(function), homes(function)
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


def shares_columns(dot: Dot, found: Rings, groups: int) -> bool:
    """Whether `groups` warpgroups can have columns of a product each, whose first factor is
    written: whole panels of the second one."""
    rows, columns = shape_of(dot.c.type)
    factor = found.factors[dot, "b"]
    each, left = divmod(columns, groups)
    if rows != ROWS or left:
        return False
    return each % (COLUMNS if factor.transposed else factor.staged.panel) == 0
