"""Vector clocks: the happens-before relation of C++ release and acquire.

The clock of instance p has, per instance q, the last epoch whose accesses happen before p's next
access. A release publishes the clock with the element written; an acquire that reads it joins it.
Read-modify-writes continue the release sequence they read from."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.interp.races import Clock


@attrs.frozen(eq=False)
class Published:
    """The clock of `count` instances at a release: `values` of the instances `indices`, 0 for all
    others; `indices` None means all instances."""

    count: int
    indices: NDArray[np.int64] | None
    values: Clock

    @classmethod
    def of(cls, clock: Clock) -> Published:
        positions = np.flatnonzero(clock)
        if 4 * len(positions) < len(clock):
            return cls(len(clock), positions, clock[positions])
        return cls(len(clock), None, clock.copy())

    def join_into(self, clock: Clock) -> None:
        """Raise `clock` to at least this one."""
        if self.indices is None:
            np.maximum(clock, self.values, out=clock)
        else:
            clock[self.indices] = np.maximum(clock[self.indices], self.values)

    def __or__(self, other: Published | None) -> Published:
        if other is None or other is self:
            return self
        joined = np.zeros(self.count, np.int32)
        self.join_into(joined)
        other.join_into(joined)
        return Published.of(joined)


@attrs.define(eq=False)
class InstanceClock:
    """The clock of one instance, and the state of its fences.

    `released` is its clock at its last release fence, carried by later relaxed writes; `seen`
    joins what relaxed reads have read, taken over by the next acquire fence.
    """

    instance: int
    now: Clock
    released: Published | None = None
    seen: Published | None = None

    @classmethod
    def of(cls, instance: int, instances: int) -> InstanceClock:
        now = np.zeros(instances, np.int32)
        now[instance] = 1
        return cls(instance, now)

    @property
    def epoch(self) -> int:
        return int(self.now[self.instance])

    def join(self, published: Published | None) -> None:
        if published is not None:
            published.join_into(self.now)

    def publish(self) -> Published:
        """The clock to release; later accesses belong to the next epoch."""
        published = Published.of(self.now)
        self.now[self.instance] += 1
        return published

    def fence(self, acquire: bool, release: bool) -> None:
        if acquire:
            self.join(self.seen)
        if release:
            self.released = self.publish()


@attrs.define(eq=False)
class SyncMemory:
    """The clocks that atomic writes have published, by address."""

    published: dict[int, Published] = attrs.field(factory=dict[int, Published])

    def read(self, clock: InstanceClock, addresses: Sequence[int], acquire: bool) -> None:
        """An atomic read of `addresses` by the instance of `clock`."""
        distinct = {id(c): c for c in map(self.published.get, addresses) if c is not None}
        result: Published | None = None
        for published in distinct.values():
            result = published | result
        if acquire:
            clock.join(result)
        elif result is not None:
            clock.seen = result | clock.seen

    def write(
        self, clock: InstanceClock, addresses: Sequence[int], release: bool, rmw: bool
    ) -> None:
        """An atomic write; `rmw` when it also read, and so continues release sequences."""
        mine = clock.publish() if release else clock.released
        joined: dict[int, Published | None] = {}
        for address in addresses:
            old = self.published.get(address) if rmw else None
            if id(old) not in joined:
                joined[id(old)] = old if mine is None else mine | old
            new = joined[id(old)]
            if new is None:
                self.published.pop(address, None)
            else:
                self.published[address] = new
