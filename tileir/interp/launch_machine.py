"""The machine of a launch: a machine of numbers, with memory and a position in the grid."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tileir.errors import Diagnostic, InterpretError
from tileir.interp.atomics import AtomicMixin
from tileir.interp.clocks import InstanceClock, SyncMemory
from tileir.interp.cluster import ClusterMixin
from tileir.interp.instance import InstanceMixin
from tileir.interp.memory import Memory
from tileir.interp.private import PrivateMixin
from tileir.interp.races import RaceDetector
from tileir.interp.report import Report
from tileir.interp.schedule import Steps
from tileir.interp.strided_access import Strides
from tileir.ir import Module
from tileir.machine import Machine

UNLIMITED = 1 << 62
"""Ops that may run where there is no limit."""


class LaunchMixin(AtomicMixin, ClusterMixin, PrivateMixin, InstanceMixin):
    """State of a launch, and which instance runs now."""

    def enter_launch(
        self,
        module: Module,
        grid: tuple[int, int, int],
        memory: Memory,
        races: RaceDetector,
        addresses: Mapping[str, int],
        report: Report,
        pausing: set[str],
        allow_undef: bool,
        ranks: int,
    ) -> None:
        """Set the state that is the same for the whole launch."""
        self.functions, self.grid, self.memory, self.races = module.functions, grid, memory, races
        self.strides = Strides(memory)
        self.addresses, self.pausing, self.allow_undef = addresses, pausing, allow_undef
        self.accesses, self.printed = report.accesses, report.printed
        self.codes, self.sync, self.buffers = {}, SyncMemory(), {}
        self.clocks: dict[int, InstanceClock] = {}
        self.barriers, self.groups, self.roles, self.spawned = {}, {}, {}, []
        self.group, self.num_warps = None, None
        self.ranks, self.meetings, self.arrived = ranks, {}, {}
        self.owners, self.allotted = {}, {}
        self.clock_of_instance = None
        self.active = self.time_limit = None
        self.budget, self.ticks, self.version, self.depth, self.instance = UNLIMITED, 0, 0, 0, 0
        self.ids = (0, 0, 0)

    def enter(self, number: int) -> None:
        """Continue with the instance, or rank of an instance, of this number; ranks count fastest,
        then axis 0 of the grid."""
        if self.clock_of_instance is not None:
            self.races.check(self.clock_of_instance.now)
        x, y, _ = self.grid
        self.group, self.instance = None, number
        program = number // self.ranks
        self.ids = (program % x, program // x % y, program // (x * y))
        self.clock_of_instance = self.clocks.get(number)

    def take_spawned(self) -> list[tuple[int, Steps]]:
        """The coroutines that were started since the last call."""
        begun, self.spawned = self.spawned, []
        return begun

    def start_clock(self, number: int) -> None:
        """The running instance `number` takes part in the order of accesses from here on."""
        count = self.grid[0] * self.grid[1] * self.grid[2] * self.ranks
        self.clock_of_instance = self.clocks[number] = InstanceClock.of(number, count)

    def stop_clock(self, number: int) -> None:
        """The running instance `number` is at its end."""
        self.leave(number)
        self.races.check(self.clocks.pop(number).now)
        self.clock_of_instance = None


class _Ieee(LaunchMixin, Machine):
    """IEEE numbers."""


def make_machine(numbers: str) -> Any:
    """A machine of the given numbers. Raises InterpretError for an unknown name."""
    if numbers == "ieee":
        return _Ieee()
    if numbers == "ring":
        return _ring_class()()
    message = f"numbers are ieee or ring, not {numbers}"
    raise InterpretError(Diagnostic("TIR0510", message))


@functools.cache
def _ring_class() -> type:
    from tileir.machine.residue_machine import RingMachine  # seldom used

    return type("Ring", (LaunchMixin, RingMachine), {})
