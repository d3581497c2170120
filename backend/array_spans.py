"""Arrays as spans of memory: kernels see addresses and strides, not elements in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from tileir.backend.launch_arguments import launch_error


@attrs.frozen(eq=False)
class ArraySpan:
    """A copy of the bytes from the lowest to the highest element of `array`, and of arrays that
    share memory with it; its first element is at byte `offset`. Bytes between elements are zero."""

    array: np.ndarray[Any, Any]
    data: np.ndarray[Any, Any]
    offset: int
    before: np.ndarray[Any, Any]
    """`data` as it was at construction."""

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> ArraySpan:
        """The memory of `array`, copied now."""
        reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
        if array.size == 0:
            return ArraySpan(array, np.zeros(0, np.uint8), 0, np.zeros(0, np.uint8))
        offset = -sum(step for step in reach if step < 0)
        length = offset + sum(step for step in reach if step > 0) + array.itemsize
        data = np.zeros(length, np.uint8)
        _elements(array, data, offset)[...] = array
        return ArraySpan(array, data, offset, data.copy())

    @staticmethod
    def each(arrays: Iterable[Any]) -> dict[int, ArraySpan]:
        """The memory of every array among `arrays`, by `id`. Arrays that share memory get one
        common copy with the same distances, so that a write to one is visible in the others."""
        spans: dict[int, ArraySpan] = {}
        unique = list({id(a): a for a in arrays if isinstance(a, np.ndarray)}.values())
        for group in _sharing(unique):
            if len(group) == 1:
                spans[id(group[0])] = ArraySpan.of(group[0])
                continue
            low = byte_bounds(group[0])[0] // _ALIGNED * _ALIGNED
            data = np.zeros(max(byte_bounds(a)[1] for a in group) - low, np.uint8)
            for array in group:
                _elements(array, data, array.ctypes.data - low)[...] = array
            before = data.copy()
            for array in group:
                spans[id(array)] = ArraySpan(array, data, array.ctypes.data - low, before)
        return spans

    @property
    def elements(self) -> np.ndarray[Any, Any]:
        """The elements in `data`, as an array like `array`."""
        return _elements(self.array, self.data, self.offset)

    @staticmethod
    def write_back(spans: Iterable[ArraySpan]) -> None:
        """Copy every element that has changed since construction into its array. Raises LaunchError
        (TIR0710) if an element of a read-only array has changed, and then copies nothing."""
        changes = [(span, changed) for span in spans if (changed := span._differences()).any()]
        if not all(span.array.flags.writeable for span, _ in changes):
            raise launch_error("the kernel writes to an array that is read-only")
        for span, changed in changes:
            np.copyto(_bytes(span.array), _bytes(span.elements), where=changed[..., None])

    def _differences(self) -> np.ndarray[Any, Any]:
        """The elements that have changed."""
        if not self.array.size:
            return np.zeros(self.array.shape, np.bool_)
        old = _elements(self.array, self.before, self.offset)
        return (_bytes(self.elements) != _bytes(old)).any(axis=-1)


def _elements(array: Any, data: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """The elements in `data` from byte `offset`, as an array like `array`."""
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    return np.ndarray(array.shape, array.dtype, data.data, offset, array.strides)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view with the bytes of every element in an additional last dimension."""
    elements = array.view(np.ndarray)[..., np.newaxis]
    if array.itemsize == 1:
        return elements.view(np.uint8)
    return as_strided(elements, (*array.shape, 1), (*array.strides, array.itemsize)).view(np.uint8)


_ALIGNED = 16
"""If a host address is a multiple of this number of bytes, so is that of its copy."""


def _sharing(arrays: list[np.ndarray[Any, Any]]) -> list[list[np.ndarray[Any, Any]]]:
    """`arrays` grouped by overlapping memory; each group is ordered by address."""
    empty = [[a] for a in arrays if not a.size]
    groups: list[list[np.ndarray[Any, Any]]] = []
    reach = 0
    for array in sorted((a for a in arrays if a.size), key=lambda a: byte_bounds(a)[0]):
        low, high = byte_bounds(array)
        if low < reach:
            groups[-1].append(array)
        else:
            groups.append([array])
        reach = max(reach, high)
    return empty + groups
