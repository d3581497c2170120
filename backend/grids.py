"""What a launch is given, where it does not fit: TIR0710."""

from __future__ import annotations

from typing import Any

from tileir import grids
from tileir.errors import Diagnostic, LaunchError


def extents_of(grid: Any) -> tuple[int, int, int]:
    """The three extents of `grid`: a number, or one to three of them in order, the others 1.

    Raises `LaunchError` (TIR0710)."""
    try:
        return grids.extents_of(grid)
    except ValueError as error:
        raise refused(str(error)) from None


def refused(message: str) -> LaunchError:
    """A grid or arguments that do not fit (TIR0710)."""
    return LaunchError(Diagnostic("TIR0710", message))
