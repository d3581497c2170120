"""Private memory of the SIMT simulator: an array with a row per thread. No other thread accesses
it, so there are neither waits nor races."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.types import Element

Array: TypeAlias = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class PrivateArray:
    """Elements by thread, and which of them were written."""

    data: Array
    written: Array


class PrivateMemoryOps:
    """Private memory; mixed into the SIMT simulator."""

    threads: int
    active: Array
    as_handle: Any
    dtype: Any

    def allot_private(self, element: Element, count: int) -> PrivateArray:
        shape = (self.threads, count)
        return PrivateArray(np.zeros(shape, self.dtype(element)), np.zeros(shape, bool))

    def load_private(
        self, element: Element, count: int, place: PrivateArray, index: Any
    ) -> list[Any]:
        rows, values = np.flatnonzero(self.active), list[Any]()
        for i in range(count):
            at = self._elements(place, count, index, i)
            if not place.written[rows, at].all():
                raise AssertionError("private memory that was not written is read")
            loaded = np.zeros(self.threads, place.data.dtype)
            loaded[rows] = place.data[rows, at]
            values.append(self.as_handle(loaded, element))
        return values

    def store_private(
        self, element: Element, place: PrivateArray, index: Any, values: Sequence[Any]
    ) -> None:
        rows = np.flatnonzero(self.active)
        for i, value in enumerate(values):
            at = self._elements(place, len(values), index, i)
            place.data[rows, at] = value.array[rows]
            place.written[rows, at] = True

    def _elements(self, place: PrivateArray, count: int, index: Any, offset: int) -> Array:
        """The index of the element `offset` places after `index`, per active thread."""
        first = index.array[self.active].astype(np.int64)
        if (first % count).any():
            raise AssertionError(f"{count} private elements from one that {count} does not divide")
        at = first + offset
        if (at < 0).any() or (at >= place.data.shape[1]).any():
            raise AssertionError("an access outside of private memory")
        return at
