"""Races in shared memory between roles of warps and asynchronous units.

mbarriers order roles: the accesses of a role before its arrival happen before those of roles that
waited for the phase. An agent is a role, or an mbarrier, which stands for the copies whose bytes it
counts. Every agent has a vector clock: how far the accesses of the others happen before its next
one (Mattern, "Virtual Time and Global States of Distributed Systems", 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.simt.shadow import RaceError

Array: TypeAlias = np.ndarray[Any, Any]

_NO_AGENT = 0


@attrs.define(eq=False)
class HappensBefore:
    """The accesses of all agents to `size` bytes of shared memory: that of one block, or of
    several, `block` bytes each, one after the other. Agent 0 stands for no access yet."""

    size: int
    block: int = 0
    names: list[str] = attrs.field(factory=lambda: ["no agent"])
    """The names of agents, by number."""
    block_of_agent: list[int] = attrs.field(factory=lambda: [-1])
    """The blocks of agents, by number."""
    writer: Array = attrs.field(init=False)
    written: Array = attrs.field(init=False)
    """The last writer of each byte, and its clock."""
    unfenced: Array = attrs.field(init=False)
    """Whether threads wrote a byte, and none has fenced that since."""
    reading: Array = attrs.field(init=False)
    """The number of pending wgmma and copies that read each byte."""
    reads: dict[int, Array] = attrs.field(factory=dict)
    """The clock of an agent at its last read of a byte."""

    def __attrs_post_init__(self) -> None:
        self.writer = np.zeros(self.size, np.int32)
        self.written = np.zeros(self.size, np.int64)
        self.unfenced = np.zeros(self.size, bool)
        self.reading = np.zeros(self.size, np.int32)

    def agent(self, name: str, rank: int = 0) -> int:
        """Add an agent of block `rank`, and return its number."""
        several = self.size > self.block > 0
        self.names.append(f"{name} of block {rank}" if several else name)
        self.block_of_agent.append(rank)
        return len(self.names) - 1

    def place(self, byte: int) -> str:
        """The text that names a byte in messages."""
        if self.size > self.block > 0:
            return f"byte {byte % self.block} of the shared memory of block {byte // self.block}"
        return f"byte {byte} of shared memory"

    def check_read(self, view: AgentClock, at: Array) -> None:
        """Raise RaceError if a byte was written by another agent, and the write does not happen
        before what `view` does next."""
        wrote = self.writer[at]
        unordered = (
            (wrote != view.agent) & (wrote != _NO_AGENT) & (self.written[at] > view.of(wrote))
        )
        self.refuse(unordered, at, wrote, f"{view.name} reads", "wrote")

    def check_write(self, view: AgentClock, at: Array, copy: bool = False) -> None:
        """Raise RaceError if another agent wrote or read a byte, and that does not happen before
        what `view` does next (with `copy`: before a copy that `view` starts); or if a pending wgmma
        or copy reads the byte."""
        does = f"a copy that {view.name} begins writes" if copy else f"{view.name} writes"
        wrote, clocks_seen = self.writer[at], view.before_copies if copy else view.clocks
        before = view.table(clocks_seen)[wrote]
        unordered = (wrote != view.agent) & (wrote != _NO_AGENT) & (self.written[at] > before)
        self.refuse(unordered, at, wrote, does, "wrote")
        for agent, clocks in self.reads.items():
            if agent != view.agent:
                unordered = clocks[at] > clocks_seen.get(agent, 0)
                self.refuse(unordered, at, agent, does, "read")
        busy = self.reading[at] > 0
        if np.count_nonzero(busy):
            byte = self.place(int(at[np.argmax(busy)]))
            raise RaceError(f"race: {does} {byte}, which a pending wgmma or copy reads")

    def check_fenced(self, at: Array, what: str) -> None:
        """Raise RaceError if threads wrote a byte without a proxy fence since. `what` describes the
        access of an asynchronous unit, for the message."""
        bad = self.unfenced[at]
        if np.count_nonzero(bad):
            byte = self.place(int(at[np.argmax(bad)]))
            raise RaceError(f"race: {what} {byte}, which threads wrote, without gpu.async_fence "
                            "between")  # fmt: skip

    def wrote(self, agent: int, clock: int, at: Array, *, threads: bool) -> None:
        """Record a write by an agent, at its `clock`. `threads`: by threads, not by an asynchronous
        unit."""
        self.writer[at], self.written[at], self.unfenced[at] = agent, clock, threads

    def read(self, view: AgentClock, at: Array) -> None:
        """Record a read by the agent of `view`, now."""
        self.has_read(view.agent, view.clock, at)

    def has_read(self, agent: int, clock: int, at: Array) -> None:
        """Record a read by an agent, at its `clock`."""
        if agent not in self.reads:
            self.reads[agent] = np.zeros(self.size, np.int64)
        self.reads[agent][at] = clock

    def refuse(self, bad: Array, at: Array, other: Array | int, does: str, did: str) -> None:
        """Raise RaceError, with the first bad byte, if any of the bytes `at` is `bad`: `does` is
        the access now, `did` the earlier one, by agents `other`, or by one for all bytes."""
        if np.count_nonzero(bad):
            first = int(np.argmax(bad))
            raise RaceError(
                f"race: {does} {self.place(int(at[first]))}, which "
                f"{self.names[int(np.broadcast_to(other, bad.shape)[first])]} {did}, and nothing "
                "orders the two"
            )


@attrs.define(eq=False)
class AgentClock:
    """A role as one of the agents of `order`. `clocks` are those of the accesses that happen before
    its next one, by agent; `copy_clocks` those that also happen before the copies that it starts.
    Its block begins at byte `base`."""

    order: HappensBefore
    agent: int
    clocks: dict[int, int] = attrs.field(factory=dict)
    base: int = 0
    copy_clocks: dict[int, int] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.order.names[self.agent]

    @property
    def clock(self) -> int:
        """The clock of its own accesses."""
        return self.clocks.setdefault(self.agent, 1)

    def of(self, agents: Array) -> Array:
        """The known clocks of `agents`."""
        return self.table(self.clocks)[agents]

    def table(self, clocks: dict[int, int]) -> Array:
        """`clocks` as an array over all agents: zero for those without a clock."""
        table = np.zeros(len(self.order.names), np.int64)
        for agent, clock in clocks.items():
            table[agent] = clock
        return table

    @property
    def before_copies(self) -> dict[int, int]:
        """The clocks of the accesses that happen before the copies that this role starts."""
        clocks = dict(self.clocks)
        join(clocks, self.copy_clocks)
        return clocks

    def publish(self, into: dict[int, int]) -> None:
        """Add all accesses until now to the clocks `into`. Accesses of this role from now on have a
        later clock."""
        join(into, {**self.clocks, self.agent: self.clock})
        self.clocks[self.agent] = self.clock + 1

    def give(self, into: dict[int, int]) -> None:
        """Add all accesses until now to the clocks `into`, with those that happen before copies
        only."""
        self.publish(into)
        join(into, self.copy_clocks)

    def join(self, other: dict[int, int]) -> None:
        """All accesses of the clocks `other` happen before what this role does next."""
        join(self.clocks, other)

    # Accesses by threads --------------------------------------------------------------------

    def read(self, at: Array) -> None:
        """Check and record a read by threads, at bytes of its block. Raises RaceError."""
        self.read_at(self.base + at)

    def read_at(self, at: Array) -> None:
        """Check and record a read by threads, at bytes of any block. Raises RaceError."""
        self.order.check_read(self, at)
        self.order.read(self, at)

    def write(self, at: Array) -> None:
        """Check and record a write by threads, at bytes of its block. Raises RaceError."""
        self.write_at(self.base + at)

    def write_at(self, at: Array) -> None:
        """Check and record a write by threads, at bytes of any block. Raises RaceError."""
        self.order.check_write(self, at)
        self.order.wrote(self.agent, self.clock, at, threads=True)

    def fence(self) -> None:
        """Make writes of threads that happen before this role visible to asynchronous units."""
        mine = self._mine()
        wrote = self.order.writer[mine]
        before = (wrote == self.agent) | (self.order.written[mine] <= self.of(wrote))
        self.order.unfenced[mine] &= ~before

    def _mine(self) -> slice:
        return slice(self.base, self.base + (self.order.block or self.order.size))

    # Accesses by asynchronous units ---------------------------------------------------------

    def begin_copy(self, at: Array) -> None:
        """Check the start of a copy that writes bytes of its block. Raises RaceError."""
        self.begin_copy_at(self.base + at)

    def begin_copy_at(self, at: Array) -> None:
        """Check the start of a copy that writes bytes of any block. Raises RaceError."""
        self.order.check_write(self, at, copy=True)
        self.order.check_fenced(at, "a copy writes")

    def begin_sending_at(self, at: Array) -> None:
        """Check the start of an asynchronous write of register values to bytes of any block. Raises
        RaceError."""
        self.order.check_write(self, at)

    def has_accessed(self) -> bool:
        """Whether this agent has read or written any byte."""
        read = self.order.reads.get(self.agent)
        return bool((self.order.writer == self.agent).any() or (read is not None and read.any()))

    def begin_reading(self, at: Array, what: str) -> None:
        """Check and record the start of an asynchronous read, which `what` describes. Raises
        RaceError."""
        self.order.check_fenced(self.base + at, what)
        self.order.check_read(self, self.base + at)
        self.order.reading[self.base + at] += 1

    def end_reading(self, at: Array) -> None:
        """Record the end of an asynchronous read."""
        self.order.reading[self.base + at] -= 1
        self.order.read(self, self.base + at)

    def check_leave(self) -> None:
        """Raise RaceError if another block accessed a byte of this one, and the access does not
        happen before the end of this block."""
        order, mine = self.order, self._mine()
        at, does = np.arange(mine.start, mine.stop), f"{self.name} ends with"
        here = np.array(
            [block == order.block_of_agent[self.agent] for block in order.block_of_agent]
        )
        wrote = order.writer[mine]
        unordered = ~here[wrote] & (wrote != _NO_AGENT) & (order.written[mine] > self.of(wrote))
        order.refuse(unordered, at, wrote, does, "wrote")
        for agent, clocks in order.reads.items():
            if not here[agent]:
                unordered = clocks[mine] > self.clocks.get(agent, 0)
                order.refuse(unordered, at, agent, does, "read")


def join(into: dict[int, int], other: dict[int, int]) -> None:
    """Know what `other` knows."""
    for agent, clock in other.items():
        into[agent] = max(into.get(agent, 0), clock)


def bytes_of(starts: Sequence[int] | Array, size: int) -> Array:
    """The addresses of all bytes of accesses of `size` bytes that begin at `starts`."""
    return (np.asarray(starts, np.int64).reshape(-1)[:, None] + np.arange(size)).reshape(-1)
