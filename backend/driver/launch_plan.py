"""The work of the host before a launch with a host plan: it computes tensor maps and the grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from tileir.backend.tma.host_plan import HostPlan, MapValues


@attrs.frozen
class LaunchPlan:
    """The grid of blocks, the values that the kernel takes besides its arguments (the extents of
    the grid of instances, or none), and its tensor maps."""

    grid: tuple[int, ...]
    extents: tuple[int, ...]
    maps: tuple[MapValues, ...]


def plan_launch(
    plan: HostPlan, grid: Sequence[int], numbers: Sequence[int], blocks: int
) -> LaunchPlan | None:
    """Plan the launch of a kernel with `plan` for instances on `grid`.

    `numbers` are its arguments: addresses for pointers, any number for floats. `blocks` is the
    number of blocks that run at once. Returns None if the plan rejects the arguments; the kernel
    without tensor maps is then launched.
    """
    extents = (*grid, 1, 1)[:3] if plan.persistent else ()
    maps = plan.map_values((*numbers, *extents))
    if maps is None:
        return None
    if not extents:
        return LaunchPlan(tuple(grid), (), maps)
    return LaunchPlan((min(blocks, -(-prod(grid) // plan.persistent)), 1, 1), extents, maps)


def as_number(value: Any) -> int:
    """The number of a C value, as host plans take it; 0 for a float."""
    number = getattr(value, "value", value)
    return int(number) if isinstance(number, int) else 0
