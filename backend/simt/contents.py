"""What the machine of threads shows, holds at first, and takes branches by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.backend.lower.thread import Number
from tileir.ir import Global
from tileir.types import I64, Pointer, Scalar, Type
from tileir.values import encode

Array: TypeAlias = np.ndarray[Any, Any]


class PartedError(AssertionError):
    """A branch on which threads differ, by what they take for its condition: functions of scalars
    may have one, kernels may not."""

    def __init__(self, taken: Array) -> None:
        super().__init__("a branch on which threads differ")
        self.taken = taken


def shown(part: str | Number, thread: int) -> str:
    """A text, or the number of one thread, as it is printed."""
    if isinstance(part, str):
        return part
    handle: Any = part.handle
    number = handle.array[thread]
    if number.dtype.kind in "iu" and part.hexadecimal:
        return hex(int(number) & ((1 << 8 * number.itemsize) - 1))
    return str(int(number)) if number.dtype.kind in "iub" else f"{number:.9g}"


def contents(found: Global) -> Array:
    """What a global holds at first."""
    element: Any = found.element
    values = [v.bits for v in found.initial or ()] or [0]
    values = values * found.count if len(values) == 1 else values
    raw = b"".join(v.to_bytes(element.bytes, "little") for v in values)
    return np.frombuffer(raw, np.uint8).copy()


def instances(extents: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The instances of a grid, z first in each, x the fastest."""
    x, y, z = extents
    return ((k, j, i) for k in range(z) for j in range(y) for i in range(x))


def argument(thread: Any, kind: Type, value: Any) -> Any:
    """A number, or an address, in every thread."""
    if isinstance(kind, Pointer):
        return thread.made(value, I64)
    assert isinstance(kind, Scalar)
    return thread.constant(kind, encode(kind, value))
