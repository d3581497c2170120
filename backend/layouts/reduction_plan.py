"""The distribution of a reduction over warps, which layouts and code generation both need."""

from __future__ import annotations

from math import prod

from tileir.layout import Layout


def warps_along(source: Layout, axis: int) -> int:
    """Number of warps that share one result element."""
    bits = sum(1 for vector in source.warp if vector[axis])
    return prod((d.count for d in source.digits("warp") if d.step[axis]), start=1 << bits)


def may_read_in(source: Layout, axis: int, target: Layout | None) -> bool:
    """Whether the result of a reduction of a tile in `source` may have the layout `target` at once:
    where warps exchange their partial results through shared memory, which covers its elements, and
    threads then join no more of them."""
    if target is None or warps_along(source, axis) == 1:
        return False
    result = source.slice(axis)
    return target.extents == result.extents and target.size("register") <= result.size("register")
