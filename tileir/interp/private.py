"""Private buffers of the interpreter, in which ops of the backend keep tiles. The owner threads do
not matter here: the value of a buffer is one array of its tiles, and is freed after its last
reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.interp.failures import fail
from tileir.interp.shared import BufferContents
from tileir.machine import Tensor, dtype_of


class PrivateMixin:
    """`private_alloc`, `private_store` and `private_load`; mixed into a machine of numbers."""

    def private_alloc(self, op: Any) -> BufferContents:
        """A new buffer, of which nothing is written."""
        kind = op.type
        shape = (kind.count, *kind.tile.shape)
        return BufferContents(np.zeros(shape, dtype_of(kind.tile.element)), np.ones(shape, bool))

    def private_store(self, op: Any, buffer: BufferContents, index: Tensor, value: Tensor) -> None:
        """Write a tile."""
        number = self._tile(op, buffer, index)
        buffer.data[number] = value.data
        buffer.undef[number] = False if value.undef is None else value.undef

    def private_load(self, op: Any, buffer: BufferContents, index: Tensor) -> Tensor:
        """A tile."""
        number = self._tile(op, buffer, index)
        undef = buffer.undef[number]
        return Tensor(buffer.data[number].copy(), undef.copy() if undef.any() else None)

    def _tile(self, op: Any, buffer: BufferContents, index: Tensor) -> int:
        number = int(index.data)
        if (index.undef is not None and index.undef.any()) or not 0 <= number < len(buffer.data):
            raise fail("TIR0501", op, f"the buffer has no tile {number}", self)
        return number
