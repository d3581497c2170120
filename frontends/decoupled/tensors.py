"""Tensors in memory: what of an array a kernel is compiled for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.builder import BF16, F16, F32, F64, I1, I8, I16, I32, I64
from tileir.frontends.decoupled.errors import launch_error
from tileir.types import F8E4M3, F8E5M2, Scalar

ELEMENTS: Mapping[str, Scalar] = {
    "float32": F32, "float16": F16, "bfloat16": BF16, "float64": F64, "bool": I1, "int8": I8,
    "int16": I16, "int32": I32, "int64": I64, "float8_e4m3fn": F8E4M3, "float8_e5m2": F8E5M2,
}  # fmt: skip
"""Elements by numpy's and torch's names."""
_NAMES = {element: name for name, element in ELEMENTS.items()}


@attrs.frozen
class Tensor:
    """A tensor with elements of type `element`; `strides` are in elements.

    `aligned` states that its address is a multiple of 16 bytes.
    """

    element: Scalar
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool = True

    @property
    def reach(self) -> int:
        """The distance from the first to the last element, in elements."""
        return sum(abs(s) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def bytes(self) -> int:
        """The size of the elements in bytes."""
        return math.prod(self.shape) * max(1, self.element.bits // 8)

    @property
    def dtype(self) -> Any:
        """The numpy name of the element type."""
        return np.dtype(_NAMES[self.element])


def row_major(element: Scalar, shape: Sequence[int]) -> Tensor:
    """A tensor without gaps, the last dimension innermost."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return Tensor(element, tuple(shape), tuple(strides))


def tensor_of(name: str, value: Any) -> Tensor:
    """The `Tensor` that describes `value`: an array of numpy or torch, or a `Tensor`. Raises
    LaunchError."""
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise launch_error(f"{name} is an array, not a {type(value).__name__}")
    element = element_named(str(value.dtype).rpartition(".")[2], name)
    if hasattr(value, "data_ptr"):
        strides, address = tuple(value.stride()), int(value.data_ptr())
    else:
        array = np.asarray(value)
        if any(s % array.itemsize for s in array.strides):
            raise launch_error(f"{name} has strides that are not whole elements")
        strides = tuple(s // array.itemsize for s in array.strides)
        address = array.ctypes.data
    return Tensor(element, tuple(map(int, value.shape)), strides, address % 16 == 0)


def element_named(word: Any, name: str) -> Scalar:
    """The element type that `word` names. Raises LaunchError."""
    if isinstance(word, Scalar) and word in _NAMES:
        return word
    text = str(word) if isinstance(word, str) else str(getattr(word, "__name__", word))
    scalar = ELEMENTS.get(text.rpartition(".")[2])
    if scalar is None:
        raise launch_error(f"{name} has elements of type {word}, not one of a kernel")
    return scalar
