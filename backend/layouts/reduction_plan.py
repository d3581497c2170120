"""The distribution of a reduction over warps, which layouts and code generation both need."""

from __future__ import annotations

from math import prod

from tileir.layout import Layout


def warps_along(source: Layout, axis: int) -> int:
    """Number of warps that share one result element."""
    bits = sum(1 for vector in source.warp if vector[axis])
    return prod((d.count for d in source.digits("warp") if d.step[axis]), start=1 << bits)
