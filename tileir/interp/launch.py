"""Launching a kernel in the interpreter."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import gcd
from typing import Any

import attrs
import numpy as np

from tileir.analysis.clusters import ranks
from tileir.calls import check_call_depth
from tileir.errors import Diagnostic, InterpretError
from tileir.grids import extents_of
from tileir.interp.arguments import Binder, named_arguments
from tileir.interp.call_effects import pausing_functions
from tileir.interp.execute import run, steps
from tileir.interp.failures import place
from tileir.interp.globals import place_globals
from tileir.interp.launch_machine import make_machine
from tileir.interp.memory import Memory
from tileir.interp.parameter_contracts import check_arguments, check_parameters
from tileir.interp.races import Race, RaceDetector
from tileir.interp.report import Report
from tileir.interp.schedule import DeadlockError, Steps, run_coroutines
from tileir.ir import Function, Module
from tileir.limits import check_globals, check_tiles, used_globals
from tileir.linker import link, undefined_functions

_SHUFFLED = 1 << 22
"""The most instances whose order is shuffled; more are executed in constant steps."""
MAX_RACES = 100
"""Races kept in a report."""


def interpret(
    module: Module,
    kernel: str | None,
    grid: int | Sequence[int],
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    seed: int = 0,
    allow_races: bool = False,
    allow_undef: bool = False,
    uninitialised: Sequence[str] = (),
    globals: Mapping[str, Any] | None = None,
    numbers: str = "ieee",
    limit: int | None = None,
    time_limit: float | None = None,
) -> Report:
    """Run `kernel` once per program instance of `grid`, which has 1 to 3 extents.

    `kernel` None is the only kernel of the module. `arguments` are given by position or by name:
    numpy arrays for pointers, which the kernel changes in place (with any strides, see
    `tileir.interp.arguments`), and numbers for scalars. `globals` are arrays for the module's
    globals, by name. `uninitialised` names the array arguments and globals whose contents are
    undefined at the start.

    - `seed` selects the order of the instances. 0 is the order of the grid, unless the kernel
      synchronizes.
    - `allow_races` reports races instead of raising.
    - `allow_undef` lets plain stores write undefined values, which the report marks.
    - `numbers` selects the arithmetic: `ieee`, or `ring` for residues in place of floats
      (`tileir.machine.residue_machine`), which the arrays store in the bits of their elements.
    - `limit` is the maximum number of executed ops, `time_limit` the maximum time in seconds.

    Raises InterpretError, at the location of the op, if the program is undefined on these
    arguments: an access out of bounds or misaligned, an undefined value with an effect, a broken
    promise, a division by zero, a race, a deadlock, a failed assertion.
    """
    if any(True for _ in undefined_functions(module)):
        module = link(module)
    check_tiles(module, InterpretError)
    check_globals(used_globals(module), InterpretError)
    function = _kernel(module, kernel)
    check_call_depth(module, function, InterpretError)
    extents = _grid(grid)
    launch = _InterpretedLaunch(module, function, extents, allow_races)
    launch.bind(arguments, globals or {}, uninitialised, numbers, allow_undef)
    if limit is not None:
        launch.machine.budget = limit
    with _time_limit(launch.machine, time_limit):
        launch.run(seed)
    return launch.finish(allow_undef)


@attrs.frozen
class Interpreter:
    """The interpreter as an executor (see `tileir.executor`)."""

    name: str = "interpreter"

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> Report:
        """Interpret a kernel; arguments are those of `interpret`."""
        return interpret(module, kernel, grid, arguments, **options)


@contextmanager
def _time_limit(machine: Any, seconds: float | None) -> Generator[None]:
    """Run the body; after `seconds`, every further op on `machine` raises TIR0725."""
    if seconds is None:
        yield
        return
    done = threading.Event()

    def expire() -> None:
        wait = seconds
        while not done.wait(wait):
            machine.time_limit, machine.budget, wait = seconds, -1, 0.05

    watch = threading.Thread(target=expire, name="tileir-limit", daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


def _in_order(count: int, seed: int) -> Sequence[int] | Iterator[int]:
    """The numbers below `count` in the order of `seed`, 0 for ascending."""
    if not seed:
        return range(count)
    chance = random.Random(seed)
    if count <= _SHUFFLED:
        numbers = list(range(count))
        chance.shuffle(numbers)
        return numbers
    step = next(n for n in iter(lambda: chance.randrange(count), -1) if gcd(n, count) == 1)
    start = chance.randrange(count)
    return ((start + step * i) % count for i in range(count))


def _kernel(module: Module, name: str | None) -> Function:
    try:
        return module.kernel(name)
    except KeyError as error:
        raise InterpretError(Diagnostic("TIR0707", str(error.args[0]))) from None


def _grid(grid: int | Sequence[int]) -> tuple[int, int, int]:
    try:
        return extents_of(grid)
    except ValueError as error:
        raise InterpretError(Diagnostic("TIR0510", str(error))) from None


@attrs.define(eq=False)
class _InterpretedLaunch:
    """One launch: the machine, its memory, and the findings."""

    module: Module
    function: Function
    grid: tuple[int, int, int]
    allow_races: bool
    report: Report = attrs.field(init=False)
    memory: Memory = attrs.field(factory=Memory)
    binder: Binder = attrs.field(init=False)
    machine: Any = None
    values: list[Any] = attrs.field(factory=list[Any])
    races: RaceDetector = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.report = Report(self.function.name, self.grid)
        self.races = RaceDetector(self._report_race)

    def bind(
        self,
        arguments: Sequence[Any] | Mapping[str, Any],
        arrays: Mapping[str, Any],
        uninitialised: Sequence[str],
        numbers: str,
        allow_undef: bool,
    ) -> None:
        """Put arguments and globals into memory and make the machine."""
        by_name = named_arguments(self.function, arguments)
        self.machine = make_machine(numbers)
        self.binder = Binder(self.memory, self.machine)
        self.values = self.binder.values(self.function, by_name)
        addresses = place_globals(self.module, self.binder, arrays)
        self.binder.spoil(uninitialised)
        pausing = pausing_functions(self.module)
        self.machine.enter_launch(
            self.module, self.grid, self.memory, self.races, addresses, self.report,
            pausing, allow_undef, ranks(self.module, self.function),
        )  # fmt: skip
        warps = self.function.attributes.get("num_warps")
        self.machine.num_warps = warps if isinstance(warps, int) else None
        check_arguments(self.function, self.binder)
        check_parameters(self.function, self.values, self.machine)

    def run(self, seed: int) -> None:
        """Run all instances."""
        with np.errstate(all="ignore"):
            code = self.machine.prepare(self.function, self.values)
        arguments = tuple(self.values)
        numbers = _in_order(self.report.instances * self.machine.ranks, seed)
        with np.errstate(all="ignore"):
            if code.pauses or self.machine.ranks > 1:
                self._interleave(code, arguments, iter(numbers), seed)
            else:
                for number in numbers:
                    self.machine.enter(number)
                    run(code, arguments, self.machine)
                self.races.check()

    def _interleave(self, code: Any, arguments: Any, numbers: Iterator[int], seed: int) -> None:
        machine = self.machine

        def start(number: int) -> Steps:
            machine.start_clock(number)
            yield from steps(code, arguments, machine)
            machine.stop_clock(number)

        try:
            run_coroutines(
                numbers, start, machine.enter, lambda: machine.version + machine.ticks, seed,
                machine.take_spawned,
            )  # fmt: skip
        except DeadlockError as deadlock:
            raise self._deadlock(deadlock) from None

    def _deadlock(self, deadlock: DeadlockError) -> InterpretError:
        notes = tuple(
            Diagnostic("TIR0518", f"program {self.ids(n)} waits before {op.mnemonic}", op.location)
            for n, op in deadlock.waiting[:16]
        )
        count = len(deadlock.waiting)
        message = f"deadlock: {count} program instances wait and no schedule lets one go on"
        return InterpretError(
            Diagnostic("TIR0518", message, deadlock.waiting[0][1].location, notes=notes)
        )

    def ids(self, number: int) -> tuple[int, int, int]:
        """Program ids of number `number` of what runs; axis 0 runs fastest."""
        x, y, _ = self.grid
        number //= self.machine.ranks
        return number % x, number // x % y, number // (x * y)

    def _report_race(self, race: Race) -> None:
        if self.allow_races:
            if len(self.report.races) < MAX_RACES:
                self.report.races.append(race)
            return
        first, second = race.first, race.second
        message = (
            f"race on {race.region} + {race.offset} bytes: program {self.ids(second.instance)} "
            f"{race.second_touch.value} it in {place(second.op)}, and nothing orders that against "
            f"program {self.ids(first.instance)}"
        )
        what = f"which {race.first_touch.value} it in {place(first.op)}"
        note = Diagnostic("TIR0517", what, first.op.location)
        raise InterpretError(
            Diagnostic("TIR0517", f"{message}, {what}", second.op.location, notes=(note,))
        )

    def finish(self, allow_undef: bool) -> Report:
        """Fill in the report."""
        counts: Counter[str] = Counter()
        for code in self.machine.codes.values():
            for block in code.blocks:
                if block.runs:
                    for op in block.block.ops:
                        counts[op.mnemonic] += block.runs
        self.report.ops = dict(counts)
        self.report.accesses = self.machine.accesses
        if allow_undef:
            self.report.undefined = self.binder.undefined_masks()
        return self.report
