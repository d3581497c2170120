"""Shared memory of the interpreter: buffers of the ops that the backend makes.

A buffer is an array of stages of elements; swizzles of the backend do not matter here. A copy
completes at its start, which is one of the permitted orders."""

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
class BufferContents:
    """Elements by stage, and which of them are undefined."""

    data: NDArray[Any]
    undef: NDArray[np.bool_]


class SharedMixin(AccessMixin):
    """`shared_alloc`, `async_copy`, `local_load`, `local_gather` and
    `local_store`."""

    buffers: dict[int, BufferContents]

    def shared_alloc(self, op: Any) -> Tensor:
        """A new buffer with undefined contents."""
        kind = dtype_of(op.type.pointee)
        address = (1 << 60) + len(self.buffers)
        self.buffers[address] = BufferContents(np.zeros(op.shape, kind), np.ones(op.shape, bool))
        return Tensor(np.array(address, np.uint64))

    def async_copy(
        self, op: Any, pointer: Tensor, buffer: Tensor, stage: Tensor, mask: Tensor | None
    ) -> None:
        """Write what `pointer` points to into a stage, zeros where the mask is false."""
        element = op.buffer.type.pointee
        lanes = self._lanes(pointer, mask, op)
        raw, undef = self._gather(pointer.data, lanes, element.bytes, op, Touch.READ)
        data = raw != 0 if element is I1 else raw.view(dtype_of(element))
        self.accesses.loads += 1
        self._write_stage(buffer, self._stage_part(op, buffer, stage, data.shape), data, undef)

    def local_store(self, op: Any, value: Tensor, buffer: Tensor, stage: Tensor) -> None:
        """Write a tile, or columns of it, into part of a stage."""
        first, count = op.columns or (0, value.data.shape[1])
        selected = np.s_[:, first : first + count]
        data, undef = value.data[selected], None if value.undef is None else value.undef[selected]
        part = self._stage_part(op, buffer, stage, data.shape)
        self._write_stage(buffer, part, data, undef)

    def local_load(self, op: Any, buffer: Tensor, stage: Tensor) -> Tensor:
        """Part of a stage."""
        part = self._stage_part(op, buffer, stage, shape_of(op.type))
        result = self.buffers[int(buffer.data)]
        undef = result.undef[part]
        return Tensor(result.data[part].copy(), undef.copy() if undef.any() else None)

    def local_gather(
        self, op: Any, buffer: Tensor, stage: Tensor, row: Tensor, column: Tensor
    ) -> Tensor:
        """Elements of a stage at rows and columns that are affine in the element's place."""
        result, number = self._stage(op, buffer, stage)
        places = np.indices(shape_of(op.type))
        at = [
            np.tensordot(steps, places, 1) + int(start.data)
            for steps, start in ((op.rows, row), (op.columns, column))
        ]
        limits = result.data.shape[1:]
        if any(where.min() < 0 or where.max() >= n for where, n in zip(at, limits, strict=True)):
            raise fail("TIR0501", op, f"the window leaves a stage of {limits}", self)
        undef = result.undef[number][tuple(at)]
        return Tensor(result.data[number][tuple(at)], undef if undef.any() else None)

    def _put(self, op: Any, buffer: Tensor, stage: Tensor, data: Any, undef: Any) -> None:
        result, number = self._stage(op, buffer, stage)
        if result.data.shape[1:] != data.shape:
            message = f"the tile is {data.shape}, a stage {result.data.shape[1:]}"
            raise fail("TIR0501", op, message, self)
        self._write_stage(buffer, (number,), data, undef)

    def _write_stage(self, buffer: Tensor, part: tuple[Any, ...], data: Any, undef: Any) -> None:
        result = self.buffers[int(buffer.data)]
        result.data[part] = data
        result.undef[part] = False if undef is None else undef

    def _stage_part(
        self, op: Any, buffer: Tensor, stage: Tensor, shape: tuple[int, ...]
    ) -> tuple[Any, ...]:
        """The part of the buffer of `shape` that begins at the offsets of `op`."""
        result, number = self._stage(op, buffer, stage)
        extents = zip(op.offsets, shape, strict=True)
        part = (number, *(slice(start, start + count) for start, count in extents))
        if result.data[part].shape != shape:
            message = f"the part ends outside a stage of {result.data.shape[1:]}"
            raise fail("TIR0501", op, message, self)
        return part

    def _stage(self, op: Any, buffer: Tensor, stage: Tensor) -> tuple[BufferContents, int]:
        result = self.buffers.get(int(buffer.data))
        number = int(stage.data)
        if result is None or not 0 <= number < len(result.data):
            raise fail("TIR0501", op, f"no stage {number} in the buffer", self)
        return result, number
