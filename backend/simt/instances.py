"""Happens-before between the program instances of a launch, and interleaved execution.

Blocks access the same buffers. As in the interpreter (`tileir.interp.races`,
`tileir.interp.clocks`), two accesses of one byte by two instances, of which one writes and not both
are atomic, are a race unless releases and acquires order them. Within a block, barriers order
threads (`shadow.py`). A release or acquire applies to the instance once its threads have
synchronized (`memory.py`). The roles of a block and the blocks of a cluster are one instance here:
`happens_before.py` orders them among each other.

Without atomic or volatile accesses nothing orders two instances, so they need no clocks, and their
accesses are checked in large batches.

Instances of a kernel with atomic or volatile accesses are interleaved: one that repeatedly reads
the same value lets others run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.codegen.thread_operands import AtomicOrder
from tileir.backend.simt.shadow import RACE, RaceError
from tileir.errors import Diagnostic, LaunchError
from tileir.interp.call_effects import synchronises
from tileir.interp.clocks import InstanceClock, SyncMemory
from tileir.interp.memory import Region
from tileir.interp.races import Race, RaceDetector, Touch
from tileir.op import Op

Array: TypeAlias = np.ndarray[Any, Any]

_PATIENCE = 64
"""Accesses in a row by which an instance changes nothing before another one goes on."""
_STUCK = 1 << 12
"""Likewise of all instances, before that is called a deadlock."""
_WINDOW = 8
"""Instances begun at first; more where these wait."""


@attrs.define(eq=False)
class InstanceOrder:
    """The order of accesses of the instances of a launch to `regions`, one per buffer.

    `synchronises` tells whether the kernel has accesses that order instances.
    """

    grid: tuple[int, ...]
    regions: list[Region]
    synchronises: bool
    allow_races: bool = False
    races: RaceDetector = attrs.field(init=False)
    sync: SyncMemory = attrs.field(factory=SyncMemory)
    version: int = 0
    """Changes whenever memory does."""

    def __attrs_post_init__(self) -> None:
        self.races = RaceDetector(self._refuse)

    def agent(self, program: Sequence[int]) -> Agent:
        """The instance with the program ids x, y, z."""
        x, y, z = program
        number = x + self.grid[0] * (y + self.grid[1] * z)
        count = int(np.prod(self.grid))
        return Agent(self, number, InstanceClock.of(number, count) if self.synchronises else None)

    def end(self) -> None:
        """Check the last accesses, after the ends of all instances. Raises RaceError."""
        self.races.check()

    def _refuse(self, race: Race) -> None:
        if self.allow_races:
            return
        first, second = race.first, race.second
        message = (
            f"race: program {self._ids(second.instance)} {race.second_touch.value} byte "
            f"{race.offset} of {race.region} in {second.op.mnemonic}, which program "
            f"{self._ids(first.instance)} {race.first_touch.value} in {first.op.mnemonic}, and "
            "nothing orders the two"
        )
        note = Diagnostic(RACE, f"the other access: {first.op.mnemonic}", first.op.location)
        raise RaceError(Diagnostic(RACE, message, second.op.location, notes=(note,)))

    def _ids(self, number: int) -> tuple[int, int, int]:
        x, y = self.grid[:2]
        return number % x, number // x % y, number // (x * y)


@attrs.define(eq=False)
class Agent:
    """Program instance `number`. `clock` has the accesses of other instances that are ordered
    before its next one; None if the kernel has no accesses that order instances."""

    launch: InstanceOrder
    number: int
    clock: InstanceClock | None

    def touch(
        self, number: int, index: Array, size: int, op: Op, *, write: bool, atomic: bool
    ) -> None:
        """Record that `op` accesses elements of `size` bytes at the byte offsets `index` of buffer
        `number`. Raises RaceError."""
        races = self.launch.races
        touch = (Touch.ATOMIC_WRITE if write else Touch.ATOMIC_READ) if atomic else (
            Touch.WRITE if write else Touch.READ
        )  # fmt: skip
        entry = races.entry(op, self.number, self.clock.epoch if self.clock else 0)
        if size not in (1, 2, 4, 8) or (index % size).any():
            index, size = (index[:, None] + np.arange(size)).reshape(-1), 1
        if races.log(self.launch.regions[number], index // size, size, entry, touch):
            self.check()

    def order(self, order: AtomicOrder, read: Sequence[int], written: Sequence[int]) -> None:
        """Record the order that atomic accesses establish: `read` and `written` are the addresses
        that they read and wrote."""
        launch, clock, sem = self.launch, self.clock, order.semantics
        if order.scope == "cta" or clock is None:
            return
        self.check()
        if read:
            launch.sync.read(clock, read, sem in ("acquire", "acq_rel"))
        if written:
            release = sem in ("release", "acq_rel")
            launch.sync.write(clock, written, release, bool(read))

    def fence(self, order: AtomicOrder) -> None:
        """Record a fence by the instance."""
        if order.scope != "cta" and self.clock is not None:
            self.check()
            sem = order.semantics
            self.clock.fence(sem in ("acquire", "acq_rel"), sem in ("release", "acq_rel"))

    def check(self) -> None:
        """Compare the accesses until now with those of other instances. Raises RaceError."""
        self.launch.races.check(self.clock.now if self.clock else None)

    def leave(self) -> None:
        """Another instance goes on, or this one is at its end: what it accessed is checked by its
        clock. Raises RaceError."""
        if self.clock is not None:
            self.check()


def run_interleaved(
    begin: Iterator[Any], launch: InstanceOrder, seed: int, end: Callable[[Any], None]
) -> None:
    """Run the executions of `begin` to their ends; their threads are agents of `launch`. With a
    `seed`, a random choice follows each access that others may see; otherwise the first instance
    runs until it waits. Raises LaunchError (TIR0518) on a deadlock."""
    draw = random.Random(seed) if seed else None
    live = [(e, e.steps()) for e in islice(begin, _WINDOW)]
    at, idle, version = 0, 0, launch.version
    while live:
        execution, steps = live[at]
        if _interleave(execution, steps, launch, 1 if draw else _PATIENCE):
            end(execution)
            live.pop(at)
            live += [(e, e.steps()) for e in islice(begin, 1)]
            idle, at = 0, at % max(1, len(live))
        else:
            execution.thread.memory.agent.leave()
            idle = 0 if launch.version != version else idle + (1 if draw else _PATIENCE)
            at = (at + 1) % len(live)
        version = launch.version
        if idle >= _PATIENCE * len(live):
            more = [(e, e.steps()) for e in islice(begin, _WINDOW)]
            live, idle = [*live, *more], 0 if more else idle
        if idle >= max(_STUCK, _PATIENCE * len(live)):
            raise _deadlock(execution, len(live))
        if draw and live:
            at = draw.randrange(len(live))


def _interleave(execution: Any, steps: Any, launch: InstanceOrder, most: int) -> bool:
    """Run one instance until it lets others continue, at the latest after `most` consecutive
    accesses that change nothing. Returns whether it has ended."""
    visits, version = 0, launch.version
    for _ in steps:
        if launch.version != version:
            visits, version = 0, launch.version
        op = execution.thread.op
        if op is not None and synchronises(op):
            visits += 1
            if visits >= most:
                return False
    return True


def _deadlock(execution: Any, count: int) -> LaunchError:
    op = execution.thread.op
    message = f"deadlock: {count} program instances wait and none changes memory"
    return LaunchError(Diagnostic("TIR0518", message, op.location if op else None))
