"""Private memory of lanes on a CPU: vectors of all lanes' elements, one after the other, in memory
that the caller passes. Tiles of megabytes would not fit the stack."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence

from tileir.backend.cpu.lane_values import WIDTH, AffineValue, Lanes
from tileir.backend.cpu.memory import MemoryOps
from tileir.errors import Diagnostic, LaunchError
from tileir.types import Element

_LINE = 64
"""The alignment of the first vector in bytes."""


class PrivateMemoryOps(MemoryOps):
    """Private memory, at the address `%private`."""

    private_bytes = 0
    """Bytes that were allotted."""

    def allot_private(self, element: Element, count: int) -> Lanes:
        start, place = self.private_bytes, self.fresh()
        self.private_bytes += -(-WIDTH * count * element.bytes // _LINE) * _LINE
        self.at_entry.append(f"  {place} = getelementptr i8, ptr %private, i64 {start}")
        return place

    def load_private(self, element: Element, count: int, place: Lanes, index: Lanes) -> list[Lanes]:
        values: list[Lanes] = []
        for at in self._vectors(element, count, place, index):
            values += self._load(element, 1, at, None, 0, False)
        return values

    def store_private(
        self, element: Element, place: Lanes, index: Lanes, values: Sequence[Lanes]
    ) -> None:
        places = self._vectors(element, len(values), place, index)
        for at, value in zip(places, values, strict=True):
            self._store(element, at, [value], None, 0, False)

    def _vectors(self, element: Element, count: int, place: Lanes, index: Lanes) -> Iterator[Lanes]:
        """The addresses of the vectors of `count` neighbours from `index` on. `index` is uniform
        over the lanes."""
        first = self.emit(f"sext i32 {index} to i64")
        for i in range(count):
            number = self.emit(f"add nsw nuw i64 {first}, {i}") if i else first
            array_type = f"[{WIDTH * element.bytes} x i8]"
            yield AffineValue(
                self.emit(f"getelementptr {array_type}, ptr {place}, i64 {number}"), element.bytes
            )


class PrivateBuffer:
    """Memory of `size` bytes for the lifetime of the object, at an `address` that is aligned for
    vectors. Untouched pages take no memory. Raises `LaunchError` (TIR0708) if the memory is not
    available."""

    def __init__(self, size: int) -> None:
        try:
            self._bytes = mmap.mmap(-1, size) if size else None
        except (OSError, OverflowError) as error:
            message = f"an instance needs {size} bytes for values outside of registers: {error}"
            raise LaunchError(Diagnostic("TIR0708", message)) from error
        buffer = None if self._bytes is None else ctypes.c_char.from_buffer(self._bytes)
        self.address = 0 if buffer is None else ctypes.addressof(buffer)
