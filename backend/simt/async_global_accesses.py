"""Races of TMA copies in global memory.

The writes of a copy are visible once the issuing thread has waited for its completion; that it has
read shared memory does not suffice. Until then the copy is unordered with other copies and with
accesses of threads; only concurrent reductions of copies do not conflict. Copies may access what
threads wrote only after a fence that no op provides (PTX ISA, "Completion Mechanisms for
Asynchronous Copy Operations", "Async proxy").
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.simt.happens_before import AgentClock, HappensBefore
from tileir.backend.simt.shadow import RaceError, ShadowMemory

Array: TypeAlias = np.ndarray[Any, Any]


@attrs.define(eq=False)
class AsyncGlobalAccesses(HappensBefore):
    """The accesses of all agents of a block, or of a cluster, to the bytes of buffers.

    `starts` are the first bytes of the buffers, `wheres` their names in messages.
    """

    starts: Sequence[int] = ()
    wheres: Sequence[str] = ()
    flying: Array = attrs.field(init=False)
    """The number of copies in flight that write or add to a byte."""
    newest: Array = attrs.field(init=False)
    """The number of the last of them."""
    added: Array = attrs.field(init=False)
    """Whether the last write was an addition by a copy, or an atomic access by threads."""
    copies: list[str] = attrs.field(factory=list)
    """The op that started a copy, by number."""
    released: dict[int, int] = attrs.field(factory=dict)
    """The accesses that are ordered before atomic accesses with a memory order."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.flying, self.newest = (np.zeros(self.size, np.int32) for _ in range(2))
        self.added = np.zeros(self.size, bool)

    @staticmethod
    def of(shadows: Sequence[ShadowMemory], order: HappensBefore) -> AsyncGlobalAccesses:
        """The accesses to buffers with these shadows, by the agents of `order`."""
        ends = np.cumsum([0, *(s.size for s in shadows)]).tolist()
        return AsyncGlobalAccesses(
            ends[-1], names=order.names, block_of_agent=order.block_of_agent, starts=ends[:-1],
            wheres=[s.where for s in shadows],
        )  # fmt: skip

    def place(self, byte: int) -> str:
        number = bisect(self.starts, byte) - 1
        return f"byte {byte - self.starts[number]} of {self.wheres[number]}"

    def check_fenced(self, at: Array, what: str) -> None:
        bad = self.unfenced[at]
        if bad.any():
            byte = self.place(int(at[np.argmax(bad)]))
            raise RaceError(f"race: {what} {byte}, which threads wrote, and no fence lets copies "
                            "see that")  # fmt: skip

    def check_landed(self, at: Array, does: str, *, adds: bool = False) -> None:
        """Raise RaceError where a copy to a byte is pending, unless both it and `does` only add."""
        bad = self.flying[at] > 0
        if adds:
            bad &= ~self.added[at]
        if bad.any():
            byte = int(at[np.argmax(bad)])
            raise RaceError(
                f"race: {does} {self.place(byte)}, which {self.copies[self.newest[byte]]} writes, "
                "without a wait for its completion"
            )


@attrs.frozen(eq=False)
class CopyTarget:
    """The destination of a copy in flight: bytes of buffers, by number."""

    parts: Sequence[tuple[int, Array]]
    at: Array
    add: bool


@attrs.define(eq=False)
class GlobalView:
    """Global memory from the view of a role: its `view` of the bytes, whose agents are those of
    shared memory, and the `shadows` of its threads' accesses to buffers."""

    traffic: AsyncGlobalAccesses
    view: AgentClock
    shadows: Sequence[ShadowMemory]

    @staticmethod
    def of(
        traffic: AsyncGlobalAccesses, view: AgentClock, shadows: Sequence[ShadowMemory]
    ) -> GlobalView:
        """The view of the role whose view of shared memory is `view`."""
        return GlobalView(traffic, AgentClock(traffic, view.agent, view.clocks), shadows)

    def _flat(self, parts: Sequence[tuple[int, Array]]) -> Array:
        """Bytes of buffers, numbered over all buffers."""
        positions = [at + self.traffic.starts[number] for number, at in parts]
        return np.concatenate([np.zeros(0, np.int64), *positions])

    # Accesses by threads --------------------------------------------------------------------

    def read(self, number: int, at: Array) -> None:
        """Check and record a read by threads. Raises RaceError."""
        at = at + self.traffic.starts[number]
        self.traffic.check_landed(at, f"{self.view.name} reads")
        self.view.read_at(at)

    def write(self, number: int, at: Array) -> None:
        """Check and record a write by threads. Raises RaceError."""
        at = at + self.traffic.starts[number]
        self.traffic.check_landed(at, f"{self.view.name} writes")
        self.view.write_at(at)
        self.traffic.added[at] = False

    def change(self, number: int, at: Array) -> None:
        """Check and record atomic accesses by threads, which need no order among each other. Raises
        RaceError."""
        at = at + self.traffic.starts[number]
        self.traffic.check_landed(at, f"{self.view.name} changes")
        self._check_add(at)
        self.traffic.wrote(self.view.agent, self.view.clock, at, threads=True)
        self.traffic.added[at] = True

    def order_with_others(self) -> None:
        """Record an access that orders: it happens after all earlier ones by other threads."""
        self.view.join(self.traffic.released)
        self.view.publish(self.traffic.released)

    def _check_add(self, at: Array) -> None:
        """Raise RaceError if an addition to a byte is not ordered after its plain accesses."""
        plain = at[~self.traffic.added[at]]
        self.traffic.check_write(self.view, plain)

    # Accesses by copies ---------------------------------------------------------------------

    def begin_copy(
        self, parts: Sequence[tuple[int, Array]], thread: int, by: str, *, add: bool
    ) -> CopyTarget:
        """Check and record the start of a copy by `thread` that writes buffers. Raises
        RaceError."""
        traffic, at, does = self.traffic, self._flat(parts), f"a copy that {self.view.name} begins"
        does = f"{does} {'adds to' if add else 'writes'}"
        traffic.check_landed(at, does, adds=add)
        for number, part in parts:
            unordered = ~traffic.added[part + traffic.starts[number]] if add else slice(None)
            self.shadows[number].check_write(part, thread, part[unordered])
        if add:
            self._check_add(at)
        else:
            traffic.check_write(self.view, at)
            if len(np.unique(at)) < len(at):
                raise RaceError(f"race: {does} a byte twice")
        plain = at[~traffic.added[at]] if add else at
        traffic.check_fenced(plain, does)
        traffic.copies.append(by)
        traffic.flying[at] += 1
        traffic.newest[at], traffic.added[at] = len(traffic.copies) - 1, add
        return CopyTarget(parts, at, add)

    def end_copy(self, landing: CopyTarget, thread: int) -> None:
        """Record that `thread` has waited for the completion of a copy: what follows is ordered
        after the copy's writes."""
        at = landing.at
        self.traffic.flying[at] -= 1
        self.traffic.wrote(self.view.agent, self.view.clock, at, threads=False)
        for number, part in landing.parts:
            self.shadows[number].wrote(part, thread)

    def begin_reading(self, parts: Sequence[tuple[int, Array]], thread: int) -> Array:
        """Check and record the start of a copy by `thread` that reads buffers; returns the bytes it
        reads. Raises RaceError."""
        at = self._flat(parts)
        self.traffic.check_landed(at, "a copy reads")
        for number, part in parts:
            self.shadows[number].read(part, np.full(len(part), thread))
        self.view.begin_reading(at, "a copy reads")
        return at

    def end_reading(self, at: Array, agent: int, clock: int) -> None:
        """The copy of `agent` has read its bytes; threads that wait for it acquire its `clock`."""
        self.traffic.reading[at] -= 1
        self.traffic.has_read(agent, clock, at)
