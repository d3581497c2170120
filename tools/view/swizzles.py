"""Addresses in shared memory without swizzling and padding, which pictures compare with the actual
addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.shared_memory.conversion_staging import ConversionStaging
from tileir.backend.shared_memory.fma_dot_staging import staging as dot_staging
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile
from tileir.ir import Function
from tileir.layout import Vector
from tileir.layout_algebra import unpack
from tileir.layout_bits import apply, inverse
from tileir.op import Op
from tileir.values import Value

OffsetMap = Callable[[int], int]
"""Maps an offset in shared memory to the offset without swizzling and padding."""


@attrs.frozen
class SwizzledRegion:
    """Bytes `start` to `end` of shared memory, and a function from their offsets to those without
    swizzling."""

    start: int
    end: int
    map_offset: OffsetMap


def plain_offset_of(function: Function, plan: SharedMemoryPlan, op: Op) -> OffsetMap | None:
    """The map from the offsets that `op` accesses to those without swizzling and padding; None if
    it uses neither."""
    regions = list(_regions(function, plan, op))
    if not regions:
        return None

    def map_offset(offset: int) -> int:
        result = next((r for r in regions if r.start <= offset < r.end), None)
        return offset if result is None else result.map_offset(offset)

    return map_offset


def _regions(function: Function, plan: SharedMemoryPlan, op: Op) -> Iterator[SwizzledRegion]:
    base = plan.offsets.get(op)
    if base is not None and op.mnemonic == "dot":
        staged = dot_staging(op)
        if staged is not None:
            for place in (staged.at(base).a, staged.at(base).b):
                yield from _tile(place, 1)
    if base is not None and op.mnemonic == "gpu.convert_layout":
        yield from _conversion_regions(op, base)
    result = {v: o for o in plan.offsets for v in o.results if o.mnemonic == "gpu.shared_alloc"}
    for operand in op.operands:
        if isinstance(operand, Value) and operand in result:
            yield from _buffer(result[operand], plan.offsets[result[operand]])


def _buffer(op: Any, base: int) -> Iterator[SwizzledRegion]:
    place = SharedTile.of(op, base)
    yield from _tile(place, op.shape[0])


def _tile(place: SharedTile, slots: int) -> Iterator[SwizzledRegion]:
    """Yield the regions of a tile whose chunks are permuted by the number of the row."""
    if place.swizzle:
        start, end = place.base, place.base + slots * place.bytes
        yield SwizzledRegion(start, end, lambda offset: unswizzled_offset(place, offset))


def unswizzled_offset(place: SharedTile, offset: int) -> int:
    """The offset without the permutation of chunks."""
    plane, within = divmod(offset - place.base, place.plane)
    row, column = divmod(within, place.pitch)
    phase = row >> (3 - place.swizzle) & ((1 << place.swizzle) - 1)
    rows = plane * place.shape[place.slow] + row
    return place.base + rows * place.pitch + (column ^ phase * CHUNK)


def _conversion_regions(op: Any, base: int) -> Iterator[SwizzledRegion]:
    """Yield the staging area of a layout conversion in row-major order, for tiles that are staged
    in one iteration."""
    staged = conversion(op.source.type, op.layout)
    if isinstance(staged, ConversionStaging) and staged.iterations == 1:
        yield SwizzledRegion(
            base, base + staged.bytes, lambda offset: base + _row_major(staged, offset - base)
        )


def _row_major(staged: ConversionStaging, offset: int) -> int:
    """The offset, without swizzle and padding, of the element at `offset`."""
    at, element_offset = element_at(staged, offset)
    index = 0
    for x, n in zip(at, staged.shape, strict=True):
        index = index * n + x
    return index * staged.size + element_offset


def element_at(staged: ConversionStaging, offset: int) -> tuple[Vector, int]:
    """The element at `offset`, and the byte within it."""
    bits = len(staged.matrix)
    box = staged.size << bits
    element_offset = offset % staged.size
    low: tuple[int, ...] = (0,) * len(staged.shape)
    if bits:
        columns = [row // staged.size for row in staged.matrix]
        back = [row or 0 for row in inverse(columns, bits)]
        low = unpack(apply(back, offset % box // staged.size), staged.widths)
        offset -= offset % box
    at = list(low)
    for d in sorted(range(len(at)), key=lambda d: -staged.strides[d]):
        step, offset = divmod(offset, staged.strides[d])
        at[d] += step << staged.widths[d]
    return tuple(at), element_offset
