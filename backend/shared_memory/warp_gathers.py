"""Gathers along an axis that each warp owns whole: a warp then reads only what its own lanes wrote,
and waits for no other warp."""

from __future__ import annotations

from functools import cache
from typing import cast

from tileir.layout import Layout, Vector
from tileir.types import Tile

_OWNERS = ("register", "lane")


@cache
def gathers_within_warps(source: Tile, result: Tile, axis: int) -> bool:
    """Whether a gather of `source` along `axis` into `result` stays within warps: the coordinates
    but that along `axis` determine the warp, the same one for both tiles."""
    layouts = cast(Layout, source.layout), cast(Layout, result.layout)
    divided = [_bits_of_warps(layout, tile.shape, axis) for layout, tile in
               zip(layouts, (source, result), strict=True)]  # fmt: skip
    return divided[0] is not None and divided[0] == divided[1]


def _bits_of_warps(layout: Layout, shape: Vector, axis: int) -> tuple[Vector, ...] | None:
    """The vector that each bit of the warp number adds to the coordinates. None if there are no
    warps, if several have one element, or one only a part along `axis`."""
    if layout.repeats or layout.extents != shape or layout.size("warp") == 1:
        return None
    warps = layout.atom("warp")
    owned = [v for name in _OWNERS for v in layout.atom(name)]
    for number, warp in enumerate(warps):
        others = [*owned, *warps[:number]]
        separate = sum(map(bool, warp)) == 1 and not warp[axis]
        if not separate or any(a & b for v in others for a, b in zip(v, warp, strict=True)):
            return None
    return tuple(warps)
