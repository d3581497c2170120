"""The distribution of a reduction over warps, which layouts and code generation both need."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from tileir.layout import Layout, layout
from tileir.layout_bits import independent
from tileir.types import Element, Tile, element_of


def warps_along(source: Layout, axis: int) -> int:
    """The number of warps that share one result element."""
    bits = sum(1 for vector in source.warp if vector[axis])
    return prod((d.count for d in source.digits("warp") if d.step[axis]), start=1 << bits)


def is_swizzled_along(source: Layout, axis: int) -> bool:
    """Whether threads that hold no common elements of the result hold elements that are combined to
    one. A register may move along `axis` and another dimension at once if no other register, lane
    or warp moves along that one."""
    if any(_is_diagonal(v, axis) for v in (*source.lane, *source.warp)):
        return True
    registers = source.atom("register")
    if not any(_is_diagonal(v, axis) for v in registers):
        return False
    moved = (v for v in (*registers, *source.lane, *source.warp))
    kept = [k for v in moved if (k := _flat((*v[:axis], *v[axis + 1 :])))]
    return len(independent(kept)) < len(kept)


def _is_diagonal(vector: tuple[int, ...], axis: int) -> bool:
    return bool(vector[axis]) and sum(vector) != vector[axis]


def _flat(vector: tuple[int, ...]) -> int:
    """The coordinates as one number with disjoint bits, for arithmetic on bits."""
    return sum(n << (_COORDINATE_BITS * d) for d, n in enumerate(vector))


_COORDINATE_BITS = 32


def reduces_along(source: Layout, axis: int) -> bool:
    """Whether threads can reduce a tile in `source` along `axis`."""
    return not source.digits("lane") and not is_swizzled_along(source, axis)


def scans_along(source: Layout, axis: int) -> bool:
    """Whether threads can scan a tile in `source` along `axis`: registers, lanes and warps move
    along it by powers of two and along no other dimension at once, so that they are in order."""
    moved = [v for v in (*source.atom("register"), *source.lane, *source.warp) if v[axis]]
    return reduces_along(source, axis) and all(
        sum(v) == v[axis] and not v[axis] & (v[axis] - 1) for v in moved
    )


def may_read_in(source: Layout, axis: int, target: Layout | None) -> bool:
    """Whether the result of a reduction of a tile in `source` may have the layout `target`
    directly: warps exchange their partial results through shared memory, which contains all
    elements of the result, and threads then combine no more elements than in the usual layout."""
    if target is None or warps_along(source, axis) == 1:
        return False
    result = source.slice(axis)
    return target.extents == result.extents and target.size("register") <= result.size("register")


def lanes_along(source: Layout, axis: int) -> list[int]:
    """The bits of the lane, as masks, in which lanes differ that share one result element."""
    return [1 << bit for bit, vector in enumerate(source.lane) if vector[axis]]


def divided_result(op: Any, source: Layout) -> Layout | None:
    """The layout of the result of a `reduce` of a tile in `source` in which the lanes that share a
    row divide its elements: in each step, a lane then combines half of the elements that it had,
    and lanes need not exchange the results. None if several warps share a row, if no lanes do or no
    thread has two elements, and if an instruction reduces integers across the whole warp."""
    masks, result = lanes_along(source, op.axis), source.slice(op.axis)
    steps = min(len(masks), len(result.register))
    if not steps or result.digits("register") or warps_along(source, op.axis) > 1:
        return None
    if len(masks) == len(source.lane) and getattr(element_of(op.values[0].type), "is_integer", 0):
        return None
    lane = list(result.lane)
    for mask, vector in zip(reversed(masks[-steps:]), reversed(result.register), strict=False):
        lane[mask.bit_length() - 1] = vector
    kept = result.register[: len(result.register) - steps]
    return layout(result.rank, kept, tuple(lane), result.warp, result.block, repeats=result.repeats)


def is_divided(op: Any) -> bool:
    """Whether lanes divide the elements of the result of a `reduce`."""
    kind, source = op.results[0].type, op.values[0].type.layout
    if not isinstance(kind, Tile) or kind.layout in (None, source.slice(op.axis)):
        return False
    return cast(bool, kind.layout == divided_result(op, source))


def reduction_bytes(op: Any) -> int:
    """Shared memory a `reduce` needs: one value per operand, result element and warp."""
    source: Layout = op.values[0].type.layout
    warps = warps_along(source, op.axis)
    if warps == 1:
        return 0
    count = prod(source.slice(op.axis).extents) * warps
    sizes = [cast(Element, element_of(v.type)).bytes for v in op.values]
    if isinstance(op.combiner, str) and may_have_padding(op):
        sizes.append(1)
    return sum(align_to_16(count * size) for size in sizes)


def may_have_padding(op: Any) -> bool:
    """Whether registers may contain padding that does not take part."""
    return op.predicate is not None or op.values[0].type.layout.extents != op.values[0].type.shape


def align_to_16(size: int) -> int:
    """`size` bytes, rounded up to the widest access of a thread, 16 bytes."""
    return -(-size // 16) * 16
