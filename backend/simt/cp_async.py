"""`cp.async` copies in the SIMT simulator: a copy completes at the wait for its group, and its
destination must not be read before."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class _BytesInFlight:
    """Bytes in flight: `data` [thread, byte] to `offset` in threads where `in_flight`."""

    offset: Array
    data: Array
    in_flight: Array


class Copies:
    """`copy_async`, `commit_copies` and `wait_copies`; mixed into the SIMT simulator."""

    threads: int
    active: Array
    memory: Any
    _open: list[_BytesInFlight]
    _groups: list[list[_BytesInFlight]]

    def copy_async(
        self, size: int, offset: Any, constant: int, pointer: Any, mask: Any, predicate: Any
    ) -> None:
        doing = self.active if predicate is None else self.active & predicate.array
        reading = doing if mask is None or isinstance(mask, str) else doing & mask.array
        at = offset.array.astype(np.int64) + constant
        self.memory.check_aligned(at, size, doing)
        self.memory.check_aligned(pointer.array, size, reading)
        word = np.dtype(np.uint32)
        parts = [
            self.memory.load(pointer.array + i, word, reading)
            for i in range(0, size, word.itemsize)
        ]
        data = np.ascontiguousarray(np.stack(parts, axis=-1)).view(np.uint8)
        copy = _BytesInFlight(at, data, doing)
        self._write(copy, landed=False)
        self._pending()[0].append(copy)

    def commit_copies(self) -> None:
        opened, groups = self._pending()
        groups.append(list(opened))
        opened.clear()

    def wait_copies(self, pending: int) -> None:
        groups = self._pending()[1]
        while len(groups) > pending:
            for copy in groups.pop(0):
                self._write(copy, landed=True)

    def _pending(self) -> tuple[list[_BytesInFlight], list[list[_BytesInFlight]]]:
        if "_open" not in self.__dict__:
            self._open, self._groups = [], []
        return self._open, self._groups

    def _write(self, copy: _BytesInFlight, *, landed: bool) -> None:
        """The copy's bytes, or, while in flight, bytes that may not be read."""
        span = np.arange(copy.data.shape[1])
        at = (copy.offset[copy.in_flight][:, None] + span).reshape(-1)
        if landed:
            self.memory.expect(at, False)
        size = copy.data.shape[1]
        values = copy.data if landed else np.zeros((self.threads, size), np.uint8)
        self.memory.store_shared(copy.offset, values.view(f"V{size}")[:, 0], copy.in_flight)
        if not landed:
            self.memory.expect(at, True)
            self.memory.written[at] = False
