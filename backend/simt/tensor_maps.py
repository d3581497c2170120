"""Tensors in global memory as tensor maps describe them, for the SIMT simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.codegen.async_interface import TensorMapHandle

Array: TypeAlias = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class GlobalTensor:
    """A tensor of `extents` and `strides`, in elements, slowest dimension first, at `base`."""

    map: TensorMapHandle
    base: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(
        map: TensorMapHandle, base: int, extents: Sequence[int], strides: Sequence[int]
    ) -> GlobalTensor:
        """The tensor of a map, with base address, extents, and strides in elements. Raises
        AssertionError if no tensor map describes it (CUDA driver API, cuTensorMapEncodeTiled)."""
        size = map.block.element.bytes
        steps = [s * size for s in strides[:-1]]
        if base % 16 or any(s % 16 or not 0 <= s < 1 << 40 for s in steps) or strides[-1] != 1:
            raise AssertionError(f"no tensor map for base {base} and strides {list(strides)}")
        if any(not 0 < n <= 1 << 32 for n in extents):
            raise AssertionError(f"no tensor map for extents {list(extents)}")
        return GlobalTensor(map, base, tuple(extents), tuple(strides))

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.map.block.element.bytes

    @property
    def bytes(self) -> int:
        """Bytes of a box."""
        return int(np.prod(self.map.box)) * self.size

    def read(self, memory: Any, start: Sequence[int]) -> Array:
        """The bytes of the box at `start`, padding where it leaves the tensor."""
        address, inside = self._places(start)
        data = np.zeros((len(address), self.size), np.uint8)
        if self.map.nan:
            data[:] = self._nan()
        for buffer, at, where in memory.parts(address, self.size, inside):
            data[where] = buffer[at[:, None] + np.arange(self.size)]
        return data.reshape(-1)

    def write(self, memory: Any, start: Sequence[int], data: Array) -> None:
        """Write the bytes of the box at `start`, where it does not leave the tensor."""
        address, inside = self._places(start)
        rows = data.reshape(-1, self.size)
        for buffer, at, where in memory.parts(address, self.size, inside):
            buffer[at[:, None] + np.arange(self.size)] = rows[where]

    def add(self, memory: Any, start: Sequence[int], data: Array) -> None:
        """Add the f32 of the box at `start`, where it does not leave the tensor."""
        values = self.read(memory, start).view(np.float32)
        self.write(memory, start, (values + data.view(np.float32)).view(np.uint8))

    def bytes_at(self, memory: Any, start: Sequence[int]) -> list[tuple[int, Array]]:
        """The bytes of the box at `start` that are in bounds, by buffer number."""
        address, inside = self._places(start)
        span = np.arange(self.size)
        return [
            (number, (at[:, None] + span).reshape(-1))
            for number, at, _ in memory.places(address, self.size, inside)
        ]

    def _places(self, start: Sequence[int]) -> tuple[Array, Array]:
        """Addresses of the elements of a box, and whether they are in bounds."""
        address, inside = np.int64(self.base), np.True_
        rank = len(self.extents)
        dims = zip(start, self.map.box, self.extents, self.strides, strict=True)
        for dim, (first, count, extent, stride) in enumerate(dims):
            shape = [1] * rank
            shape[dim] = count
            at = (first + np.arange(count, dtype=np.int64)).reshape(shape)
            inside = inside & (at >= 0) & (at < extent)
            address = address + at * stride * self.size
        addresses = np.broadcast_to(address, self.map.box).reshape(-1)
        return addresses, np.broadcast_to(inside, self.map.box).reshape(-1)

    def _nan(self) -> Array:
        from tileir.machine import dtype_of  # for maps that pad with it

        return np.array([np.nan]).astype(dtype_of(self.map.block.element)).view(np.uint8)
