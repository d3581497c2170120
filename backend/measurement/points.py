"""Points of search spaces. A point has a choice for each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Choice: TypeAlias = int | float | bool | str | None
Point: TypeAlias = Mapping[str, Choice]


def point_name(point: Point) -> str:
    """Return the canonical name of a point, with parameters in order: `K=64,M=128,num_warps=4`."""
    return ",".join(f"{name}={_word(point[name])}" for name in sorted(point))


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
