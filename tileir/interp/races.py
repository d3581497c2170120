"""Shadow memory: the last accesses to each element, and the detection of unordered ones.

Every access is logged as (entry, indices) and checked in batches: an entry names the op, the
program instance and its epoch. Two accesses of one element by two instances conflict when one of
them writes, not both are atomic, and neither happens before the other. Atomics and fences define
happens-before (C++ release/acquire, vector clocks). In kernels without them nothing orders two
instances, and the whole launch is checked in a few large batches.

The shadow keeps the last writer, the last atomic access and the last two readers of an element,
so a race with an earlier access can go undetected in kernels that synchronise; what is reported
is always a race.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.interp.memory import Indices, Region
from tileir.op import Op

Entries = NDArray[np.int32]
Clock = NDArray[np.int32]

BATCH = 1 << 21
"""Elements logged before a batch is checked."""


class Touch(Enum):
    """The kind of an access to memory."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC_READ = "atomically reads"
    ATOMIC_WRITE = "atomically writes"


@attrs.frozen
class RaceEntry:
    """One access: the op, the instance (its linear number) and the instance's epoch."""

    op: Op
    instance: int
    epoch: int

    def is_of(self, instance: int, epoch: int) -> bool:
        """Whether it stands for accesses of `instance` in `epoch`."""
        return self.instance == instance and self.epoch == epoch


@attrs.frozen
class Race:
    """Two unordered accesses to one element.

    `offset` is the distance in bytes from the start of the array `region`. `first` is the access
    that was executed first.
    """

    region: str
    offset: int
    first: RaceEntry
    first_touch: Touch
    second: RaceEntry
    second_touch: Touch


@attrs.define(eq=False)
class AccessHistory:
    """Last accesses of every granule of `size` bytes of one region; -1 is none.

    `other` is the last reader by another instance than `reader`.
    """

    size: int
    writer: Entries
    atomic: Entries
    reader: Entries
    other: Entries
    watcher: Entries
    """The last atomic reader."""
    seen: set[Touch] = attrs.field(factory=set[Touch])
    """Kinds of access there have been."""

    @classmethod
    def of(cls, region: Region, size: int) -> AccessHistory:
        count = len(region.view(size)[0]) + 1
        none = [np.full(count, -1, np.int32) for _ in range(5)]
        return cls(size, none[0], none[1], none[2], none[3], none[4])

    def refine(self, region: Region, size: int) -> AccessHistory:
        """The same in granules of a smaller `size`."""
        fine, times = AccessHistory.of(region, size), self.size // size
        fine.seen |= self.seen
        lead = (region.view(self.size)[1] - region.view(size)[1]) // size
        for name in ("writer", "atomic", "reader", "other", "watcher"):
            old, new = np.repeat(getattr(self, name), times), getattr(fine, name)
            part = new[lead : lead + len(old)]
            part[:] = old[: len(part)]
        return fine

    def prior(self, touch: Touch) -> tuple[tuple[Touch, Entries], ...]:
        """The earlier accesses that `touch` may conflict with."""
        written, atomic = (Touch.WRITE, self.writer), (Touch.ATOMIC_WRITE, self.atomic)
        read = (Touch.READ, self.reader), (Touch.READ, self.other)
        watched = (Touch.ATOMIC_READ, self.watcher)
        return {
            Touch.READ: (written, atomic),
            Touch.ATOMIC_READ: (written,),
            Touch.ATOMIC_WRITE: (written, *read),
            Touch.WRITE: (written, atomic, *read, watched),
        }[touch]

    def last(self, touch: Touch) -> Entries:
        """The last accesses of the kind `touch`, except plain reads."""
        return {
            Touch.WRITE: self.writer,
            Touch.ATOMIC_WRITE: self.atomic,
            Touch.ATOMIC_READ: self.watcher,
        }[touch]


@attrs.define(eq=False)
class _Log:
    """Accesses of one kind to one region, in elements of `size` bytes."""

    size: int
    indices: list[Indices] = attrs.field(factory=list[Indices])
    entries: list[int] = attrs.field(factory=list[int])

    def concatenate(self) -> tuple[Indices, Entries]:
        flat = [index.reshape(-1) for index in self.indices]
        counts = [len(index) for index in flat]
        return np.concatenate(flat), np.repeat(np.array(self.entries, np.int32), counts)


_Kind = tuple[Region, Touch, int]
"""Region, touch and size of the accesses of one log."""


@attrs.define(eq=False)
class RaceDetector:
    """The log of accesses and the shadow of every region; `on_race` is called with each race."""

    on_race: Callable[[Race], None]
    entries: list[RaceEntry] = attrs.field(factory=list[RaceEntry])
    instances: Entries = attrs.field(factory=lambda: np.zeros(1024, np.int32))
    epochs: Entries = attrs.field(factory=lambda: np.zeros(1024, np.int32))
    """The epochs of the entries up to the last check."""
    noted: int = 0
    pending: dict[tuple[Region, Touch, int], _Log] = attrs.field(
        factory=dict[tuple[Region, Touch, int], _Log]
    )
    reads: dict[Region, list[_Log]] = attrs.field(factory=dict[Region, list[_Log]])
    shadows: dict[Region, AccessHistory] = attrs.field(factory=dict[Region, AccessHistory])
    latest: dict[Op, int] = attrs.field(factory=dict[Op, int])
    """The last entry of each op, which later iterations of a loop share."""
    logged: int = 0
    postponed: int = 0
    """Elements in `reads`."""

    def entry(self, op: Op, instance: int, epoch: int = 0) -> int:
        """The number under which the accesses of `op` are logged."""
        last = self.latest.get(op)
        if last is not None and self.entries[last].is_of(instance, epoch):
            return last
        self.entries.append(RaceEntry(op, instance, epoch))
        self.latest[op] = number = len(self.entries) - 1
        return number

    def log(self, region: Region, index: Indices, size: int, entry: int, touch: Touch) -> bool:
        """Log an access; returns whether a check of the batch is due."""
        log = self.pending.get((region, touch, size))
        if log is None:
            log = self.pending[(region, touch, size)] = _Log(size)
        log.indices.append(index)
        log.entries.append(entry)
        self.logged += index.size
        return self.logged >= BATCH

    def check(self, clock: Clock | None = None) -> None:
        """Check the logged accesses: of one instance with vector `clock`, or of any number of
        unordered instances."""
        self._note_entries()
        pending, self.pending, self.logged = self.pending, {}, 0
        for (region, touch, _), log in pending.items():
            if touch is Touch.READ and region not in self.shadows:
                self._postpone(region, log)
            else:
                self._examine(region, touch, log, clock)

    def _note_entries(self) -> None:
        """Copy the entries to the arrays."""
        new, end = self.entries[self.noted :], len(self.entries)
        while end > len(self.instances):
            self.instances = np.concatenate([self.instances, self.instances])
            self.epochs = np.concatenate([self.epochs, self.epochs])
        self.instances[self.noted : end] = [e.instance for e in new]
        self.epochs[self.noted : end] = [e.epoch for e in new]
        self.noted = end

    def _postpone(self, region: Region, log: _Log) -> None:
        """Keep the reads of a region that has not been written yet: most are never needed."""
        self.reads.setdefault(region, []).append(log)
        self.postponed += sum(index.size for index in log.indices)
        if self.postponed > 4 * BATCH:
            self.postponed = 0
            for read, logs in list(self.reads.items()):
                self._shadow(read, logs[0].size)

    def _examine(self, region: Region, touch: Touch, log: _Log, clock: Clock | None) -> None:
        shadow, cells, entries = self._cells(region, log)
        for prior_touch, last in shadow.prior(touch):
            if prior_touch in shadow.seen:
                prior = prior_touch, last[cells]
                self._conflicts(region, shadow, cells, prior, (touch, entries), clock)
        shadow.seen.add(touch)
        if touch is Touch.READ:
            self._mark_read(shadow, cells, entries)
            return
        last = shadow.last(touch)
        last[cells] = entries
        if touch is Touch.WRITE:
            self._conflicts(region, shadow, cells, (touch, last[cells]), (touch, entries), clock)

    def _shadow(self, region: Region, size: int) -> AccessHistory:
        shadow = self.shadows.get(region)
        if shadow is None:
            self.shadows[region] = AccessHistory.of(region, size)
            for log in self.reads.pop(region, ()):
                self._mark_read(*self._cells(region, log))
            shadow = self.shadows[region]
        if size < shadow.size:
            shadow = self.shadows[region] = shadow.refine(region, size)
        return shadow

    def _cells(self, region: Region, log: _Log) -> tuple[AccessHistory, Indices, Entries]:
        """The shadow memory of `region`, the granules that the elements of the log cover, and the
        instances that access them."""
        shadow = self._shadow(region, log.size)
        index, entries = log.concatenate()
        if log.size == shadow.size:
            return shadow, index, entries
        times = log.size // shadow.size
        lead = (region.view(log.size)[1] - region.view(shadow.size)[1]) // shadow.size
        wide = index[:, None] * times + np.arange(times) + lead
        return shadow, wide.reshape(-1), np.repeat(entries, times)

    def _mark_read(self, shadow: AccessHistory, cells: Indices, entries: Entries) -> None:
        """Record the readers; of two different instances, in this batch or before, both."""
        shadow.seen.add(Touch.READ)
        before = shadow.reader[cells]
        changed = (before >= 0) & (self.instances[before] != self.instances[entries])
        shadow.other[cells[changed]] = before[changed]
        shadow.reader[cells] = entries
        lost = self.instances[shadow.reader[cells]] != self.instances[entries]
        shadow.other[cells[lost]] = entries[lost]

    def _conflicts(
        self,
        region: Region,
        shadow: AccessHistory,
        cells: Indices,
        first: tuple[Touch, Entries],
        second: tuple[Touch, Entries],
        clock: Clock | None,
    ) -> None:
        prior, entries = first[1], second[1]
        if np.array_equal(prior, entries):
            return
        owner = self.instances[prior]
        conflict = (prior >= 0) & (owner != self.instances[entries])
        if clock is not None:
            conflict &= clock[owner] < self.epochs[prior]
        if conflict.any():
            lane = int(conflict.argmax())
            offset = region.view(shadow.size)[1] - region.start + int(cells[lane]) * shadow.size
            sides = sorted(
                ((int(prior[lane]), first[0]), (int(entries[lane]), second[0])), key=_number
            )
            (a, touch_a), (b, touch_b) = ((self.entries[n], touch) for n, touch in sides)
            self.on_race(Race(region.name, offset, a, touch_a, b, touch_b))


def _number(side: tuple[int, Touch]) -> int:
    return side[0]
