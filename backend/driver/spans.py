"""Arrays as the memory they lie in: kernels see addresses and strides, not elements in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir import records


@records.frozen(eq=False)
class Span:
    """A copy of the bytes from the lowest to the highest element of `array`; its first element
    is at byte `offset`. Bytes between its elements are zero."""

    array: np.ndarray[Any, Any]
    data: np.ndarray[Any, Any]
    offset: int

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> Span:
        """The memory of `array` as it is now."""
        reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
        if array.size == 0:
            return Span(array, np.zeros(0, np.uint8), 0)
        offset = -sum(step for step in reach if step < 0)
        length = offset + sum(step for step in reach if step > 0) + array.itemsize
        made = Span(array, np.zeros(length, np.uint8), offset)
        made.elements[...] = array
        return made

    @property
    def elements(self) -> np.ndarray[Any, Any]:
        """The elements in `data`, as an array like `array`."""
        shape, dtype, strides = self.array.shape, self.array.dtype, self.array.strides
        if self.array.size == 0:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self.data.data, self.offset, strides)

    def write_back(self) -> None:
        """Copy every element into `array`."""
        self.array[...] = self.elements
