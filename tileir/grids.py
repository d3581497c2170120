"""Grids of instances, as people write them."""

from __future__ import annotations

from operator import index
from typing import Any

from tileir.errors import Diagnostic, LaunchError
from tileir.ops.program import GRID_LIMITS


def extents_of(grid: Any) -> tuple[int, int, int]:
    """The three extents of `grid`: a number, or one to three of them in order, the others 1. Raises
    ValueError if `grid` has another form, and LaunchError (TIR0710) if an extent exceeds
    `GRID_LIMITS`."""
    try:
        extents: tuple[Any, ...] = tuple(grid)
    except TypeError:  # a number
        extents = (grid,)
    if not 1 <= len(extents) <= 3 or not all(map(_extent, extents)):
        raise ValueError(f"a grid is 1 to 3 numbers that are not negative, not {grid!r}")
    x, y, z = (*map(index, extents), 1, 1)[:3]
    for axis, extent, limit in zip("xyz", (x, y, z), GRID_LIMITS, strict=True):
        if extent > limit:
            message = f"a grid has at most {limit} instances along {axis}, not {extent}"
            raise LaunchError(Diagnostic("TIR0710", message))
    return x, y, z


def _extent(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and index(number) >= 0
    except TypeError:
        return False
