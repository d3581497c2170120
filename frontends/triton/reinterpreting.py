"""`triton.reinterpret`: an array whose elements kernels see as another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends.triton.dtypes import DType


class TensorWrapper:
    """A view of the array `base` with its elements reinterpreted as `dtype`."""

    def __init__(self, base: Any, dtype: DType) -> None:
        self.base, self.dtype = base, dtype

    @property
    def shape(self) -> Any:
        """The shape of the array."""
        return self.base.shape

    @property
    def data(self) -> Any:
        """The data of the array."""
        return self.base.data

    @property
    def device(self) -> Any:
        """The device of the array."""
        return getattr(self.base, "device", "cpu")

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        if isinstance(self.base, np.ndarray):
            return self.base.ctypes.data
        return int(self.base.data_ptr())

    def stride(self, *dimension: int) -> Any:
        """Return the strides in elements, or one of them."""
        if isinstance(self.base, np.ndarray):
            strides = tuple(n // self.base.itemsize for n in self.base.strides)
            return strides[dimension[0]] if dimension else strides
        return self.base.stride(*dimension)

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        base = self.base
        return base.itemsize if isinstance(base, np.ndarray) else base.element_size()

    def numel(self) -> int:
        """Return the number of elements."""
        return self.base.size if isinstance(self.base, np.ndarray) else self.base.numel()

    def cpu(self) -> TensorWrapper:
        """Return a copy on the host with the same `dtype`."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """Return a copy on a device with the same `dtype`."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """Return a copy with the same `dtype`."""
        base = self.base
        copied = base.copy() if isinstance(base, np.ndarray) else base.clone()
        return TensorWrapper(copied, self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Copy the elements of another array into this one."""
        if isinstance(self.base, np.ndarray):
            self.base[...] = other.base
        else:
            self.base.copy_(other.base)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """Return an uninitialized array of another shape with the same `dtype`."""
        if isinstance(self.base, np.ndarray):
            return TensorWrapper(np.empty(sizes, self.base.dtype), self.dtype)
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: DType) -> Any:
    """Return a view of an array with its elements reinterpreted as `dtype`. Raises TypeError if
    `tensor` is no array."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if isinstance(tensor, np.ndarray) or hasattr(tensor, "data_ptr"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"a {type(tensor).__name__} has no memory to reinterpret")
