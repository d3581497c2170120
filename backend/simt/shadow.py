"""Who touched each byte since threads last met.

Threads are ordered by barriers alone, whatever order they happen to run in: two accesses of one
byte by different threads, of which one writes, are a race unless a barrier lies between, even
where both write the same. Only the threads of one store may write one byte, the same into it:
they hold one element of a tile together.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

_BITS = 12
_THREAD = (1 << _BITS) - 1
_SEVERAL = _THREAD
"""Stands for more than one reader; threads are fewer."""
_ADDED = _SEVERAL - 1
"""Stands for threads that added atomically."""


class RaceError(AssertionError):
    """Two threads, one byte, one of them writing, no barrier between."""


@attrs.define(eq=False)
class Shadow:
    """`size` bytes with their last writer and readers: stamps of an epoch, which a barrier ends,
    and a thread. `where` names the memory in messages."""

    size: int
    where: str
    epoch: int = 1
    writer: Array = attrs.field(init=False)
    reader: Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.writer = np.zeros(self.size, np.int64)
        self.reader = np.zeros(self.size, np.int64)

    def synchronize(self) -> None:
        """A barrier of the whole block."""
        self.epoch += 1

    def read(self, at: Array, threads: Array) -> None:
        """`threads[i]` reads byte `at[i]`. Raises `RaceError`."""
        self._meet(self.writer, at, threads, "reads", "wrote")
        seen = self.reader[at]
        others = (seen >> _BITS == self.epoch) & (seen & _THREAD != threads)
        stamp = self.epoch << _BITS | np.where(others, _SEVERAL, threads)
        self.reader[at] = stamp
        shared = at[self.reader[at] != stamp]
        self.reader[shared] = self.epoch << _BITS | _SEVERAL

    def write(self, at: Array, threads: Array) -> None:
        """`threads[i]` writes byte `at[i]`. Raises `RaceError`."""
        self._meet(self.reader, at, threads, "writes", "read")
        self._meet(self.writer, at, threads, "writes", "wrote")
        self.writer[at] = self.epoch << _BITS | threads

    def landed(self, at: Array, threads: Array, found: Array, wanted: Array) -> None:
        """After `threads` wrote `wanted`: `found` lies there. Raises `RaceError`."""
        if not np.array_equal(found, wanted):
            first = int(np.argmax(found != wanted))
            raise RaceError(
                f"race: thread {threads[first]} and another write byte {at[first]} of "
                f"{self.where} at the same time, not the same"
            )

    def add(self, at: Array, threads: Array) -> None:
        """`threads[i]` adds to byte `at[i]` atomically, which needs no order among additions.
        Raises `RaceError`."""
        self._meet(self.reader, at, threads, "adds to", "read")
        mine = np.where(self.writer[at] == self._added, _ADDED, threads)
        self._meet(self.writer, at, mine, "adds to", "wrote")
        self.writer[at] = self._added

    @property
    def _added(self) -> int:
        return self.epoch << _BITS | _ADDED

    def _meet(self, stamps: Array, at: Array, threads: Array, does: str, did: str) -> None:
        seen = stamps[at]
        bad = (seen >> _BITS == self.epoch) & (seen & _THREAD != threads)
        if not bad.any():
            return
        first = int(np.argmax(bad))
        other = int(seen[first]) & _THREAD
        names = {_SEVERAL: "several threads", _ADDED: "an addition"}
        name = names.get(other, f"thread {other}")
        raise RaceError(
            f"race: thread {threads[first]} {does} byte {at[first]} of {self.where}, which {name} "
            f"{did}, without a barrier between"
        )
