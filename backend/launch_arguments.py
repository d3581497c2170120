"""What a launch is given, where it does not fit: TIR0710."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir import grids
from tileir.errors import Diagnostic, LaunchError, Location
from tileir.ir import Parameter
from tileir.types import Descriptor, Pointer
from tileir.values import encode


def extents_of(grid: Any) -> tuple[int, int, int]:
    """The three extents of `grid`: a number, or one to three of them in order, the others 1.

    Raises `LaunchError` (TIR0710)."""
    try:
        return grids.extents_of(grid)
    except ValueError as error:
        raise launch_error(str(error)) from None


def encode_argument(parameter: Parameter, value: Any) -> int:
    """The bits of an argument that is a number or an address.

    Raises `LaunchError` (TIR0710)."""
    kind: Any = parameter.type
    pointer = isinstance(kind, (Pointer, Descriptor))
    try:
        return _address(value) if pointer else encode(kind, value)
    except (TypeError, ValueError, OverflowError) as error:
        reason = (
            f"an array or an address is needed, not {value!r:.60} (0 to 2^64 - 1)"
            if pointer
            else str(error)
        )
        message = f"{parameter.name} is {kind}: {reason}"
        raise launch_error(message, parameter.location) from None


def _address(value: Any) -> int:
    """`value`, an integer that is an address. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"no address: {value!r:.60}")
    if not 0 <= value < 1 << 64:
        raise ValueError(f"no address: {value!r:.60}")
    return int(value)


def launch_error(message: str, location: Location | None = None) -> LaunchError:
    """A grid or arguments that do not fit (TIR0710); `location` is that of the parameter, or of
    the kernel, where the program is at hand."""
    return LaunchError(Diagnostic("TIR0710", message, location))
