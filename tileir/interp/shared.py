"""Shared memory of the interpreter: buffers of the ops that the backend makes.

A buffer is its slots as an array of elements; how the backend permutes their bytes has no
meaning. A copy lands when it is begun, which is one of the moments at which it may.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.interp.access import AccessMixin
from tileir.interp.failures import fail
from tileir.interp.races import Touch
from tileir.machine import Tensor, dtype_of
from tileir.types import I1, shape_of


@attrs.define(eq=False)
class Buffer:
    """Elements by slot, and which nobody wrote."""

    data: NDArray[Any]
    undef: NDArray[np.bool_]


class SharedMixin(AccessMixin):
    """`shared_alloc`, `async_copy`, `local_load` and `local_store`."""

    buffers: dict[int, Buffer]

    def shared_alloc(self, op: Any) -> Tensor:
        """A new buffer, of which nothing is written."""
        kind = dtype_of(op.type.pointee)
        address = (1 << 60) + len(self.buffers)
        self.buffers[address] = Buffer(np.zeros(op.shape, kind), np.ones(op.shape, bool))
        return Tensor(np.array(address, np.uint64))

    def async_copy(
        self, op: Any, pointer: Tensor, buffer: Tensor, slot: Tensor, mask: Tensor | None
    ) -> None:
        """Write what `pointer` points to into a slot, zeros where the mask is false."""
        element = op.buffer.type.pointee
        lanes = self._lanes(pointer, mask, op)
        raw, undef = self._gather(pointer.data, lanes, element.bytes, op, Touch.READ)
        data = raw != 0 if element is I1 else raw.view(dtype_of(element))
        self.accesses.loads += 1
        self._put(op, buffer, slot, data, undef)

    def local_store(self, op: Any, value: Tensor, buffer: Tensor, slot: Tensor) -> None:
        """Write a tile into a slot."""
        self._put(op, buffer, slot, value.data, value.undef)

    def local_load(self, op: Any, buffer: Tensor, slot: Tensor) -> Tensor:
        """Part of a slot."""
        found, number = self._slot(op, buffer, slot)
        extents = zip(op.offsets, shape_of(op.type), strict=True)
        part = (number, *(slice(start, start + count) for start, count in extents))
        if found.data[part].shape != shape_of(op.type):
            raise fail(
                "TIR0501", op, f"the part ends outside a slot of {found.data.shape[1:]}", self
            )
        undef = found.undef[part]
        return Tensor(found.data[part].copy(), undef.copy() if undef.any() else None)

    def _put(self, op: Any, buffer: Tensor, slot: Tensor, data: Any, undef: Any) -> None:
        found, number = self._slot(op, buffer, slot)
        if found.data.shape[1:] != data.shape:
            message = f"the tile is {data.shape}, a slot {found.data.shape[1:]}"
            raise fail("TIR0501", op, message, self)
        found.data[number] = data
        found.undef[number] = False if undef is None else undef

    def _slot(self, op: Any, buffer: Tensor, slot: Tensor) -> tuple[Buffer, int]:
        found = self.buffers.get(int(buffer.data))
        number = int(slot.data)
        if found is None or not 0 <= number < len(found.data):
            raise fail("TIR0501", op, f"no slot {number} in the buffer", self)
        return found, number
