"""The scheduler of a block: roles, copies and mbarriers, in a random order drawn from a seed.

Roles advance op by op. A copy lands at a random moment, and only then counts at its barrier. A
deadlock is an error, which states who waits for what.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.simt.async_global_accesses import CopyTarget
from tileir.backend.simt.happens_before import AgentClock, HappensBefore
from tileir.backend.simt.shadow import RaceError

Array: TypeAlias = np.ndarray[Any, Any]

_PACES = (0.02, 0.2, 0.6)
"""The probabilities that a copy lands before any other role continues, in different blocks."""


MOST_BYTES = (1 << 20) - 1
"""Bytes that a barrier counts (PTX ISA, "mbarrier: Phase Completion, tx-count")."""


class CoroutineDeadlockError(AssertionError):
    """A deadlock: no coroutine can proceed."""


class WaitingError(Exception):
    """An op cannot run until `ready` is true; `why` is the reason. The op had no effect."""

    def __init__(self, ready: Callable[[], bool], why: Callable[[], str]) -> None:
        self.ready, self.why = ready, why


@attrs.define(eq=False)
class MBarrier:
    """An mbarrier at byte `at`, in phase number `phase`: `left` of `arrivals`, and `bytes` of
    copies, are missing. Clocks: `arriving_clocks` of the arrivals until now, `phase_clocks` of
    those of completed phases; `release_clocks` and `released_clocks` likewise, of arrivals that let
    copies write."""

    at: int
    agent: int
    arrivals: int
    left: int
    bytes: int = 0
    phase: int = 0
    arriving_clocks: dict[int, int] = attrs.field(factory=dict)
    phase_clocks: dict[int, int] = attrs.field(factory=dict)
    release_clocks: dict[int, int] = attrs.field(factory=dict)
    released_clocks: dict[int, int] = attrs.field(factory=dict)
    maker: tuple[int, int] = (0, 0)
    """The role that initialized it, and its clock."""
    epochs: dict[int, int] = attrs.field(factory=dict)
    """For each agent that arrived, the epoch since which its threads had not synchronized."""

    def arrive(self, count: int) -> None:
        """Count `count` arrivals. Raises AssertionError if the phase expects fewer."""
        if count > self.left:
            raise AssertionError(
                f"{count} arrive at the barrier at byte {self.at}, where {self.left} of "
                f"{self.arrivals} are missing"
            )
        self.left -= count
        self.settle()

    def expect(self, size: int) -> None:
        """Expect `size` more bytes of copies in this phase. Raises AssertionError if that is more
        than an mbarrier can count."""
        self.bytes += size
        if self.bytes > MOST_BYTES:
            raise AssertionError(f"the barrier at byte {self.at} counts {self.bytes} bytes")

    def settle(self) -> None:
        """Begin the next phase if no arrivals and no bytes are missing."""
        if self.left == 0 and self.bytes == 0:
            self.phase += 1
            self.left, self.phase_clocks = self.arrivals, dict(self.arriving_clocks)
            self.phase_clocks[self.agent] = self.phase
            self.released_clocks = dict(self.release_clocks)

    def why(self) -> str:
        """The reason for the wait."""
        return (
            f"phase {self.phase} of the barrier at byte {self.at}: {self.left} of {self.arrivals} "
            f"arrivals and {self.bytes} bytes are missing"
        )


@attrs.define(eq=False)
class InFlightCopy:
    """A copy in flight; `land` completes it."""

    land: Callable[[], None]
    done: bool = False

    def finish(self) -> None:
        if not self.done:
            self.done = True
            self.land()


@attrs.define(eq=False)
class Coroutine:
    """A role, or the kernel itself: its steps, and what it waits for."""

    name: str
    steps: Iterator[WaitingError | None]
    waiting: WaitingError | None = None
    place: str = ""


@attrs.define(eq=False)
class Scheduler:
    """The state of one block, or of all blocks of a cluster with `cluster_barrier`. Bytes of all
    blocks are numbered from the first one of the first block."""

    order: HappensBefore
    chance: random.Random
    coroutines: list[Coroutine] = attrs.field(factory=list)
    barriers: dict[int, MBarrier] = attrs.field(factory=dict)
    flights: list[InFlightCopy] = attrs.field(factory=list)
    cluster_barrier: Any = None
    pace: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pace = self.chance.choice(_PACES)

    def run(self) -> None:
        """Run all coroutines to their ends. Raises CoroutineDeadlockError."""
        while self.coroutines:
            self.flights = [f for f in self.flights if not f.done]
            able = [m for m in self.coroutines if m.waiting is None or m.waiting.ready()]
            if self.flights and (not able or self.chance.random() < self.pace):
                self.chance.choice(self.flights).finish()
            elif able:
                self._step(self.chance.choice(able))
            else:
                raise CoroutineDeadlockError(self._stuck())
        self.land_all()

    def land_all(self) -> None:
        """Complete all copies."""
        for flight in self.flights:
            flight.finish()
        self.flights.clear()

    def _step(self, coroutine: Coroutine) -> None:
        try:
            coroutine.waiting = next(coroutine.steps)
        except StopIteration:
            self.coroutines.remove(coroutine)

    def _stuck(self) -> str:
        each = (f"{m.name} waits for {m.waiting.why()}" for m in self.coroutines if m.waiting)
        return "deadlock: " + "; ".join(each)

    def barrier(self, at: int) -> MBarrier:
        """The mbarrier at byte `at`. Raises AssertionError if there is none."""
        state = self.barriers.get(at)
        if state is None:
            raise AssertionError(f"there is no barrier at byte {at} of shared memory")
        return state

    def begin(self, at: int, arrivals: int, view: AgentClock) -> None:
        """Initialize the mbarrier at byte `at`, for `arrivals` per phase, by the role of `view`."""
        agent = self.order.agent(
            f"a copy counted at byte {at}", self.order.block_of_agent[view.agent]
        )
        maker = view.agent, view.clock
        self.barriers[at] = MBarrier(at, agent, arrivals, arrivals, maker=maker)

    def barriers_of(self, view: AgentClock) -> Iterator[MBarrier]:
        """The barriers of the block of `view`."""
        blocks = self.order.block_of_agent
        return (b for b in self.barriers.values() if blocks[b.agent] == blocks[view.agent])

    def schedule_copy(self, land: Callable[[], None]) -> InFlightCopy:
        """Start a copy, which `land` completes."""
        self.flights.append(InFlightCopy(land))
        return self.flights[-1]


@attrs.define(eq=False)
class WgmmaGroup:
    """A pending wgmma group: the function that computes its accumulators, the bytes it reads, and
    whether it reads registers."""

    finish: Callable[[], list[Array]]
    at: Array
    registers: bool = False
    accumulators: list[Array] | None = None


@attrs.frozen(eq=False)
class InFlightStore:
    """A copy from shared memory, which reads bytes `at`, and where it lands."""

    flight: InFlightCopy
    at: Array
    landing: CopyTarget


@attrs.define(eq=False)
class RoleState:
    """The pending operations of one role: wgmma groups and, by thread, groups of copies from shared
    memory, oldest first: those that may still read it, those that may still write, and the open
    group."""

    view: AgentClock
    wgmma_groups: list[WgmmaGroup] = attrs.field(factory=list)
    reading: dict[int, list[list[InFlightStore]]] = attrs.field(factory=dict)
    writing: dict[int, list[list[InFlightStore]]] = attrs.field(factory=dict)
    opened: dict[int, list[InFlightStore]] = attrs.field(factory=dict)

    def commit(self, thread: int) -> None:
        """Close the open group of copies of a thread."""
        group = self.opened.pop(thread, [])
        self.reading.setdefault(thread, []).append(group)
        self.writing.setdefault(thread, []).append(group)

    def next_iteration(self) -> None:
        """Begin the next iteration of a loop. Raises RaceError if a pending wgmma reads registers,
        which ptxas may reuse before the wait of the next iteration."""
        if any(group.registers for group in self.wgmma_groups):
            raise RaceError(
                f"race: {self.view.name} begins an iteration while wgmma reads registers"
            )

    def leave(self) -> None:
        """Check at the end of the role that no copy reads shared memory and no wgmma is pending.
        Raises RaceError."""
        if any(self.reading.values()) or any(self.opened.values()):
            raise RaceError(f"race: {self.view.name} ends while copies read shared memory")
        if self.wgmma_groups:
            raise RaceError(f"race: {self.view.name} ends with pending wgmma")
