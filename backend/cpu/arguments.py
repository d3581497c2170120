"""What a launch on the CPU is given: numbers as their bits, arrays as where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir import records
from tileir.backend.cpu.regions import Region
from tileir.backend.grids import encoded
from tileir.ir import Parameter
from tileir.types import Descriptor, Pointer

Array = np.ndarray[Any, Any]


@records.frozen(eq=False)
class Passed:
    """The word that an argument is for the code; its memory, None for a number; `more` memory that
    pointers in that may point into; and what has to live as long as the launch."""

    value: int
    region: Region | None = None
    more: tuple[Region, ...] = ()
    keep: Any = None


def pass_argument(parameter: Parameter, value: Any) -> Passed:
    """`value` for `parameter`; a pointer to pointers takes a sequence of arrays, too. Raises
    `LaunchError` (TIR0710)."""
    kind, name = parameter.type, parameter.name or "an argument"
    if not isinstance(kind, (Pointer, Descriptor)):
        return Passed(encoded(parameter, value))
    if isinstance(value, np.ndarray):
        return Passed(value.ctypes.data, Region.of(name, value))
    if isinstance(kind, Pointer) and isinstance(kind.pointee, Pointer) and _are_arrays(value):
        table = np.array([array.ctypes.data for array in value], np.uint64)
        more = tuple(Region.of(f"{name}[{i}]", array) for i, array in enumerate(value))
        return Passed(table.ctypes.data, Region.of(name, table), more, table)
    return Passed(encoded(parameter, value), Region.anywhere(name))


def _are_arrays(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(x, np.ndarray) for x in value)
