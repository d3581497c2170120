"""Arguments of a launch on the CPU: numbers as their bits, arrays as their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from tileir.backend.cpu.regions import MemoryRegion, address
from tileir.backend.launch_arguments import encode_argument
from tileir.ir import Parameter
from tileir.types import Descriptor, Pointer

Array = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class Passed:
    """An argument as it is passed: its word, and the arrays that the code may access through it:
    the argument itself, and the arrays that its pointers point into. None for an address with
    unknown bounds, and for a number."""

    value: int
    name: str = ""
    arrays: tuple[Array, ...] | None = None
    points: bool = False

    @property
    def key(self) -> Any:
        """The properties on which the bounds depend."""
        if self.arrays is None:
            return self.value if self.points else None
        return tuple((address(a), a.shape, a.strides, a.flags.writeable) for a in self.arrays)

    def region(self) -> MemoryRegion | None:
        """The memory of the argument; it has no bytes for a null pointer, and is None for a
        number."""
        if self.arrays is None:
            if not self.points:
                return None
            return MemoryRegion.anywhere(self.name) if self.value else MemoryRegion(self.name, 0, 0)
        return MemoryRegion.of(self.name, self.arrays[0])

    def more(self) -> list[MemoryRegion]:
        """Memory that pointers in its memory may point into."""
        inner = () if self.arrays is None else self.arrays[1:]
        return [MemoryRegion.of(f"{self.name}[{i}]", array) for i, array in enumerate(inner)]


def pass_argument(parameter: Parameter, value: Any) -> Passed:
    """Convert `value` for `parameter`. A pointer to pointers also takes a sequence of arrays.
    Raises `LaunchError` (TIR0710)."""
    kind, name = parameter.type, parameter.name or "an argument"
    if not isinstance(kind, (Pointer, Descriptor)):
        return Passed(encode_argument(parameter, value))
    if isinstance(value, np.ndarray):
        return Passed(address(value), name, (value,), True)
    if isinstance(kind, Pointer) and isinstance(kind.pointee, Pointer) and _are_arrays(value):
        table = np.array([address(array) for array in value], np.uint64)
        return Passed(address(table), name, (table, *value), True)
    return Passed(encode_argument(parameter, value), name, None, True)


def _are_arrays(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(x, np.ndarray) for x in value)
