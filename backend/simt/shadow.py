"""Shadow memory: the threads that accessed each byte since the last barrier.

Only barriers order threads, whatever order they run in. Two accesses of one byte by different
threads, of which one writes, are a race unless a barrier of the block is in between, or, for
threads of one warp, a barrier of the warp; even where both write the same value. Only the threads
of one store may write one byte with the same value: they all own the element.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.errors import Diagnostic, LaunchError, Location

Array: TypeAlias = np.ndarray[Any, Any]

_BITS = 12
_THREAD = (1 << _BITS) - 1
_SEVERAL = _THREAD
"""Stands for threads of several warpgroups. Numbers of threads are smaller."""
_ADDED = _SEVERAL - 1
"""Stands for threads that added atomically."""
_OF_WARP = 2048
"""`_OF_WARP + w` stands for several threads of warp `w`."""
_OF_GROUP = 2112
"""`_OF_GROUP + g` stands for threads of several warps of warpgroup `g`."""
_WARP, _GROUP = 5, 2
"""The number of bits of a lane in its warp, and of a warp in its warpgroup."""


RACE = "TIR0721"
"""The code of races."""


class RaceError(LaunchError, AssertionError):
    """Two threads or instances access one byte, one of them writes, and nothing orders the two. The
    race is in the generated code: if the program has none, it is a defect of the lowering, as other
    assertions here are."""

    def __init__(self, *diagnostic: str | Diagnostic) -> None:
        super().__init__(*(Diagnostic(RACE, f) if isinstance(f, str) else f for f in diagnostic))

    def at(self, mnemonic: str, location: Location | None) -> RaceError:
        """This error, with the mnemonic and location of an op; unchanged if it already has a
        location."""
        (diagnostic,) = self.diagnostics
        if diagnostic.location is not None:
            return self
        return RaceError(Diagnostic(RACE, f"{mnemonic}: {diagnostic.message}", location))


@attrs.define(eq=False)
class EpochClock:
    """The current epoch: every barrier of the block, of all warps, or of all warpgroups begins one.
    `block` is the first epoch since the last barrier of the block, `group` the first since the last
    barrier of all warpgroups."""

    epoch: int = 1
    block: int = 1
    group: int = 1

    def synchronize(self) -> None:
        """A barrier of the whole block."""
        self.epoch += 1
        self.block = self.epoch

    def synchronize_warps(self) -> None:
        """A barrier of every warp."""
        self.epoch += 1

    def synchronize_groups(self) -> None:
        """A barrier of every warpgroup."""
        self.epoch += 1
        self.group = self.epoch


@attrs.define(eq=False)
class ShadowMemory:
    """`size` bytes with their last writer, reader and atomic access: stamps of an epoch and a
    thread, and the ops of the last atomic access and the last other write. `where` names the memory
    in messages."""

    size: int
    where: str
    clock: EpochClock = attrs.field(factory=EpochClock)
    writer: Array = attrs.field(init=False)
    reader: Array = attrs.field(init=False)
    changer: Array = attrs.field(init=False)
    run: Array = attrs.field(init=False)
    stored: Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        stamps = np.zeros((5, self.size), np.int64)
        self.writer, self.reader, self.changer, self.run, self.stored = stamps

    def read(self, at: Array, threads: Array) -> None:
        """Check and record that `threads[i]` reads byte `at[i]`. Raises RaceError."""
        self._conflict(self.writer, at, threads, "reads", "wrote")
        self._conflict(self.changer, at, threads, "reads", "changed")
        self._join(self.reader, at, threads)

    def write(self, at: Array, threads: Array, run: int = -1, same: Array | None = None) -> None:
        """Check and record that `threads[i]` writes byte `at[i]`, in execution `run` of an op.
        Where `same`, several threads may write the byte in one execution. Raises RaceError."""
        self._conflict(self.reader, at, threads, "writes", "read")
        self._conflict(self.changer, at, threads, "writes", "changed")
        other = np.ones(len(at), bool) if same is None else ~same | (self.stored[at] != run)
        self._conflict(self.writer, at[other], threads[other], "writes", "wrote")
        self.writer[at], self.stored[at] = self.clock.epoch << _BITS | threads, run

    def check_write(self, at: Array, thread: int, over: Array | None = None) -> None:
        """Check the start of a copy by `thread` that writes the bytes `at`: threads must not have
        read them, nor written those of `over` (by default all of them), without a barrier since.
        Raises RaceError."""
        threads = np.full(len(at), thread)
        self._conflict(self.reader, at, threads, "lets a copy write", "read")
        over = at if over is None else over
        self._conflict(self.writer, over, threads[: len(over)], "lets a copy write", "wrote")
        self._conflict(self.changer, over, threads[: len(over)], "lets a copy write", "changed")

    def wrote(self, at: Array, thread: int) -> None:
        """Record a completed asynchronous write that only `thread` has waited for."""
        self.writer[at] = self.clock.epoch << _BITS | thread

    def check_stored(self, at: Array, threads: Array, loaded: Array, new_bytes: Array) -> None:
        """Check that the memory contains `new_bytes`, which `threads` wrote, by what was `loaded`
        since. Raises RaceError."""
        if not np.array_equal(loaded, new_bytes):
            first = int(np.argmax(loaded != new_bytes))
            raise RaceError(
                f"race: thread {threads[first]} and another write byte {at[first]} of "
                f"{self.where} at the same time, not the same"
            )

    def change(self, at: Array, threads: Array, run: int) -> None:
        """Check and record that `threads[i]` changes byte `at[i]` atomically, in execution `run` of
        an op. Accesses of one execution need no order among each other, those of different ones do.
        Raises RaceError."""
        self._conflict(self.reader, at, threads, "changes", "read")
        self._conflict(self.writer, at, threads, "changes", "wrote")
        other = self.run[at] != run
        self._conflict(self.changer, at[other], threads[other], "changes", "changed")
        self._join(self.changer, at, threads)
        self.run[at] = run

    def read_atomically(self, at: Array, threads: Array, run: int) -> None:
        """Check and record that `threads[i]` reads byte `at[i]` atomically, in execution `run` of
        an op. Changes by other executions must be ordered before; reads need no order among each
        other. Raises RaceError."""
        self._conflict(self.writer, at, threads, "reads", "wrote")
        other = self.run[at] != run
        self._conflict(self.changer, at[other], threads[other], "reads", "changed")
        self._join(self.reader, at, threads)

    def add(self, at: Array, threads: Array) -> None:
        """Check and record that `threads[i]` adds to byte `at[i]` atomically; additions need no
        order among each other. Raises RaceError."""
        self._conflict(self.reader, at, threads, "adds to", "read")
        seen = self.writer[at]
        other = (seen >> _BITS < self.clock.block) | (seen & _THREAD != _ADDED)
        self._conflict(self.writer, at[other], threads[other], "adds to", "wrote")
        self.writer[at] = self.clock.epoch << _BITS | _ADDED

    def _join(self, stamps: Array, at: Array, threads: Array) -> None:
        """Record in `stamps` that `threads` accessed the bytes `at`, in addition to those since the
        last barrier."""
        epoch = self.clock.epoch << _BITS
        last, own = stamps[at], epoch | threads
        stamps[at] = own
        if np.count_nonzero(stamps[at] != own):
            order = np.argsort(at, kind="stable")
            at, threads, last = at[order], threads[order], last[order]
            first = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
            low, high = (f.reduceat(threads, first) for f in (np.minimum, np.maximum))
            at, last, threads = at[first], last[first], _together(low, high)
            stamps[at] = epoch | threads
        since = last >= self.clock.block << _BITS
        if not np.count_nonzero(since):
            return
        code = last & _THREAD
        since &= code != threads
        if np.count_nonzero(since):
            same = (_warp(code) == _warp(threads)) & (_warp(code) >= 0)
            now = last >> _BITS == self.clock.epoch
            near = np.where(now, _OF_WARP + _warp(threads), threads)
            group = _group(threads)
            waited = (last >> _BITS < self.clock.group) & (_warp(threads) >= 0)
            wide = np.where(waited, threads, _OF_GROUP + group)
            wide = np.where((_group(code) == group) & (group >= 0), wide, _SEVERAL)
            joined = np.where(same, near, wide)
            stamps[at[since]] = epoch | joined[since]

    def _conflict(self, stamps: Array, at: Array, threads: Array, does: str, did: str) -> None:
        seen = stamps[at]
        since = seen >= self.clock.block << _BITS
        if not np.count_nonzero(since):
            return
        stamp, code = seen >> _BITS, seen & _THREAD
        bad = since & (code != threads)
        if not np.count_nonzero(bad):
            return
        bad &= (stamp == self.clock.epoch) | (_warp(code) != threads >> _WARP)
        together = _group(code) == threads >> _WARP + _GROUP
        bad &= (stamp >= self.clock.group) | ~together
        if not np.count_nonzero(bad):
            return
        first = int(np.argmax(bad))
        raise RaceError(
            f"race: thread {threads[first]} {does} byte {at[first]} of {self.where}, which "
            f"{_name(int(code[first]))} {did}, without a barrier between"
        )


def _together(low: Array, high: Array) -> Array:
    """The code that stands for threads from `low` to `high`: one thread, a warp, a warpgroup, or
    several of them."""
    groups = np.where(_group(low) == _group(high), _OF_GROUP + _group(low), _SEVERAL)
    codes = np.where(low >> _WARP == high >> _WARP, _OF_WARP + (low >> _WARP), groups)
    return np.where(low == high, low, codes)


def _warp(code: Array) -> Array:
    """The warp of the threads of a code; -1 if they are of several."""
    return _WARPS[code]


def _group(code: Array) -> Array:
    """The warpgroup of the threads of a code; -1 if they are of several."""
    return _GROUPS[code]


def _warps_and_groups() -> tuple[Array, Array]:
    """The warp and the warpgroup of each code."""
    code = np.arange(1 << _BITS)
    warps = np.where(code < _OF_WARP, code >> _WARP, code - _OF_WARP)
    warps = np.where(code >= _OF_GROUP, -1, warps)
    groups = np.where(code < _OF_GROUP, warps >> _GROUP, code - _OF_GROUP)
    return warps, np.where(code >= _ADDED, -1, groups)


_WARPS, _GROUPS = _warps_and_groups()


def _name(code: int) -> str:
    if code == _ADDED:
        return "an addition"
    return f"thread {code}" if code < _OF_WARP else "several threads"
