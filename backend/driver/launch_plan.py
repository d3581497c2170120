"""The work of the host before a launch with a host plan: tensor maps and the grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from tileir.backend.tma.host_plan import HostPlan, MapValues


@attrs.frozen
class LaunchPlan:
    """The grid of blocks, what the kernel takes besides its arguments (the extents of the grid of
    instances, or nothing), and its tensor maps."""

    grid: tuple[int, ...]
    extents: tuple[int, ...]
    maps: tuple[MapValues, ...]


def plan_launch(
    plan: HostPlan, grid: Sequence[int], numbers: Sequence[int], blocks: int
) -> LaunchPlan | None:
    """Plan the launch of a kernel with `plan` for instances on `grid`.

    `numbers` are its arguments: addresses for pointers, any number for floats. `blocks` run at
    once. Returns None if the plan rejects the arguments, so that the kernel without tensor maps has
    to be launched.
    """
    extents = (*grid, 1, 1)[:3] if plan.persistent else ()
    maps = plan.map_values((*numbers, *extents))
    if maps is None:
        return None
    if not extents:
        return LaunchPlan(tuple(grid), (), maps)
    return LaunchPlan((min(blocks, -(-prod(grid) // plan.persistent)), 1, 1), extents, maps)


def as_number(value: Any) -> int:
    """An argument as plans take it: a C value as its number, a float as 0."""
    number = getattr(value, "value", value)
    return int(number) if isinstance(number, int) else 0
