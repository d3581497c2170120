"""Memory of the machine of threads: arrays at made-up addresses, and the block's shared bytes.

Shared bytes remember who wrote and who read them since the last barrier, so that a missing
barrier is an error even though threads advance together.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.spans import Span

Array: TypeAlias = np.ndarray[Any, Any]

_GAP = 1 << 20
_NOBODY, _SEVERAL = -1, -2


@attrs.define(eq=False)
class Memory:
    """Buffers of one launch and the shared memory of the block that runs."""

    shared_bytes: int
    buffers: list[tuple[int, Span]] = attrs.field(init=False, factory=list)
    shared: Array = attrs.field(init=False)
    writer: Array = attrs.field(init=False)
    reader: Array = attrs.field(init=False)
    written: Array = attrs.field(init=False)
    globals: dict[str, int] = attrs.field(init=False, factory=dict)
    printed: list[str] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.clear_shared()

    def place(self, array: Array) -> int:
        """An address for `array`, aligned to 256 bytes."""
        last = self.buffers[-1] if self.buffers else None
        base = _GAP if last is None else last[0] + -(-len(last[1].data) // _GAP) * _GAP + _GAP
        span = Span.of(array)
        self.buffers.append((base, span))
        return base + span.offset

    def write_back(self) -> None:
        """Copy every buffer into the array it was made from."""
        for _, span in self.buffers:
            span.write_back()

    def check_aligned(self, address: Array, size: int, held: Array) -> None:
        """Every access must be aligned to its size, up to 16 bytes."""
        if (address[held] % min(size, 16)).any():
            raise AssertionError(f"an access of {size} bytes that is not aligned")

    def load(self, address: Array, dtype: Any, held: Array) -> Array:
        """What lies at `address` where `held`, zero elsewhere."""
        found = np.zeros(len(address), dtype)
        for data, index, where in self._parts(address, found.itemsize, held):
            raw = np.stack([data[index + i] for i in range(found.itemsize)], axis=-1)
            found[where] = np.ascontiguousarray(raw).view(dtype)[..., 0]
        return found

    def store(self, address: Array, values: Array, held: Array) -> None:
        """Write `values` to `address` where `held`."""
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        for data, index, where in self._parts(address, raw.shape[1], held):
            for i in range(raw.shape[1]):
                data[index + i] = raw[where, i]

    def _parts(self, address: Array, size: int, held: Array) -> Any:
        left = held.copy()
        for base, span in self.buffers:
            data = span.data
            index = address - base
            where = left & (index >= 0) & (index + size <= len(data))
            if where.any():
                yield data, index[where], where
                left &= ~where
        if left.any():
            raise AssertionError(f"an access outside every buffer, by thread {np.argmax(left)}")

    # Shared memory ----------------------------------------------------------------------------

    def clear_shared(self) -> None:
        """The shared memory of a new block."""
        self.shared = np.full(self.shared_bytes, 0xCD, np.uint8)
        self.written = np.zeros(self.shared_bytes, bool)
        self.synchronize()

    def synchronize(self) -> None:
        """A barrier: nobody has touched anything since."""
        self.writer = np.full(self.shared_bytes, _NOBODY)
        self.reader = np.full(self.shared_bytes, _NOBODY)

    def load_shared(self, offset: Array, dtype: Any, held: Array, is_bool: bool) -> Array:
        """What lies at `offset`; reading what another thread wrote since the last barrier, or
        nobody ever wrote, is an error."""
        found = np.zeros(len(offset), dtype)
        threads = np.flatnonzero(held)
        where = offset[held]
        size = found.itemsize
        self._check_bounds(where, size)
        raw = np.zeros((len(where), size), np.uint8)
        for i in range(size):
            at = where + i
            if not self.written[at].all():
                raise AssertionError("a read of shared memory that nobody wrote")
            if ((self.writer[at] != _NOBODY) & (self.writer[at] != threads)).any():
                raise AssertionError("a read of shared memory written without a barrier between")
            raw[:, i] = self.shared[at]
            seen = self.reader[at]
            self.reader[at] = np.where((seen == _NOBODY) | (seen == threads), threads, _SEVERAL)
            order = np.argsort(at, kind="stable")
            same = at[order][1:] == at[order][:-1]
            self.reader[at[order][1:][same]] = _SEVERAL
        found[held] = raw.view(dtype)[:, 0] if len(where) else found[held]
        return found

    def store_shared(self, offset: Array, values: Array, held: Array) -> None:
        """Write `values` to `offset`; over what another thread read or wrote otherwise since the
        last barrier is an error."""
        threads, where = np.flatnonzero(held), offset[held]
        if not len(where):
            return
        raw = np.ascontiguousarray(values[held]).view(np.uint8).reshape(len(where), -1)
        size = values.dtype.itemsize
        self._check_bounds(where, size)
        for i in range(size if len(where) else 0):
            at = where + i
            read = self.reader[at]
            if ((read != _NOBODY) & (read != threads)).any():
                raise AssertionError("a write of shared memory read without a barrier between")
            other = (self.writer[at] != _NOBODY) & (self.writer[at] != threads)
            if (other & (self.shared[at] != raw[:, i])).any():
                raise AssertionError("two writes of shared memory without a barrier between")
            self.shared[at] = raw[:, i]
            if (self.shared[at] != raw[:, i]).any():
                raise AssertionError("two threads write different values to one shared byte")
            self.writer[at], self.written[at] = threads, True

    def add_shared(self, offset: Array, values: Array, held: Array) -> None:
        """Atomic additions to 32-bit words."""
        words = self.shared.view(np.int32) if self.shared_bytes % 4 == 0 else None
        assert words is not None
        np.add.at(words, offset[held] // 4, values[held])
        for i in range(4):
            self.writer[offset[held] + i] = _SEVERAL

    def _check_bounds(self, where: Array, size: int) -> None:
        if len(where) and (where.min() < 0 or where.max() + size > self.shared_bytes):
            raise AssertionError("an access outside shared memory")
