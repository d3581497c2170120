"""`triton.reinterpret`: an array whose elements kernels see as another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends.triton.dtypes import DType


class TensorWrapper:
    """The memory of `base`, its elements seen as `dtype`."""

    def __init__(self, base: Any, dtype: DType) -> None:
        self.base, self.dtype = base, dtype

    @property
    def shape(self) -> Any:
        """That of the array."""
        return self.base.shape

    @property
    def data(self) -> Any:
        """That of the array."""
        return self.base.data

    @property
    def device(self) -> Any:
        """Where the array is."""
        return getattr(self.base, "device", "cpu")

    def data_ptr(self) -> int:
        """The address of the first element."""
        if isinstance(self.base, np.ndarray):
            return self.base.ctypes.data
        return int(self.base.data_ptr())

    def stride(self, *dimension: int) -> Any:
        """Strides in elements, or one of them."""
        if isinstance(self.base, np.ndarray):
            strides = tuple(n // self.base.itemsize for n in self.base.strides)
            return strides[dimension[0]] if dimension else strides
        return self.base.stride(*dimension)

    def element_size(self) -> int:
        """Bytes of an element of the array."""
        base = self.base
        return base.itemsize if isinstance(base, np.ndarray) else base.element_size()

    def numel(self) -> int:
        """How many elements the array has."""
        return self.base.size if isinstance(self.base, np.ndarray) else self.base.numel()

    def cpu(self) -> TensorWrapper:
        """The same of a copy on the host."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same of a copy on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """The same of a copy."""
        base = self.base
        copied = base.copy() if isinstance(base, np.ndarray) else base.clone()
        return TensorWrapper(copied, self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take over the elements of another."""
        if isinstance(self.base, np.ndarray):
            self.base[...] = other.base
        else:
            self.base.copy_(other.base)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """The same of an array of another shape, not initialised."""
        if isinstance(self.base, np.ndarray):
            return TensorWrapper(np.empty(sizes, self.base.dtype), self.dtype)
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: DType) -> Any:
    """The memory of an array with its elements seen as `dtype`. Raises TypeError for what is no
    array."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if isinstance(tensor, np.ndarray) or hasattr(tensor, "data_ptr"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"a {type(tensor).__name__} has no memory to reinterpret")
