"""From a module to code of this machine's CPU, and running it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from math import prod
from typing import Any

from tileir import records
from tileir.backend.concerned import strip_mine, uniform_steps
from tileir.backend.cpu.arguments import Array, Passed, pass_argument
from tileir.backend.cpu.dots import direct_slices, free_dots, held
from tileir.backend.cpu.emit import emit, global_bytes
from tileir.backend.cpu.exact import exact_sums
from tileir.backend.cpu.host import Calls, Site
from tileir.backend.cpu.jit import Code, load
from tileir.backend.cpu.launch import WORDS, Launch
from tileir.backend.cpu.pool import processors, share_out
from tileir.backend.cpu.private import Room
from tileir.backend.cpu.regions import Bounds, Region
from tileir.backend.grids import extents_of
from tileir.backend.layouts.anchors import Anchors
from tileir.backend.layouts.assignment import assign_layouts
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.memory.allocation import allotted
from tileir.backend.memory.scratch import Plan
from tileir.backend.permission import check_permitted
from tileir.backend.prepare import prepare
from tileir.backend.target import Target
from tileir.backend.vectorize import vectorize
from tileir.errors import CompileError, Diagnostic, LaunchError
from tileir.forks import Level, hold_at_fork
from tileir.ir import Function, Module
from tileir.op import Op

CPU = Target(
    "cpu", 0, shared_bytes=1 << 20, shared_per_processor=1 << 20, threads_per_processor=32,
    blocks_per_processor=1, max_threads=32, mma=frozenset(), ldmatrix=False, cp_async=False,
    redux=False, bf16_arithmetic=False, f8_conversion=False,
)  # fmt: skip
"""One warp in lockstep, whose shared memory is on the stack of its thread."""

COMPILING = threading.RLock()
"""Held while code is made, so that nobody forks meanwhile."""
hold_at_fork(COMPILING, Level.COMPILE)
_HOST = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)


_NO_BOUNDS = Bounds.of([])


class OneByOne(Contiguity):
    """Facts for lanes that hold neighbours: none holds two of them side by side."""

    def width(self, op: Op, dim: int) -> int:
        return 1


@records.frozen(slots=False, eq=False)
class CpuKernel:
    """A kernel for this machine's CPU: the module before code was written, LLVM IR as generated
    and optimised."""

    module: Module
    kernel: str
    llvm: str
    sites: tuple[Site, ...]
    optimize: int
    checked: bool = True
    """Whether accesses are checked before they are made."""
    private: int = 0
    """Bytes that the lanes of an instance have to themselves."""

    _known: list[tuple[Any, Bounds]] = records.field(init=False, factory=list)
    """The bounds of the last launch, by what they depend on."""
    _loaded: list[Code] = records.field(init=False, factory=list)

    @property
    def code(self) -> Code:
        """The code, loaded. Raises `CompileError`."""
        if not self._loaded:
            with COMPILING:
                if not self._loaded:
                    self._loaded.append(load(self.llvm, self.optimize))
        return self._loaded[0]

    @property
    def optimized(self) -> str:
        """LLVM IR as optimised."""
        return self.code.optimized

    def __call__(
        self, grid: int | Sequence[int], arguments: Sequence[Any], threads: int | None = None,
        *, memory: Sequence[Array] = (), time_limit: float | None = None,
    ) -> list[str]:  # fmt: skip
        """Run for every instance of `grid` on `threads` threads (None: one for each processor that
        this thread may run on), given numbers and, for pointers, arrays or addresses; what was
        printed, a line each. Arrays are read and written where they are. Nothing is known of the
        memory behind an address: accesses through it are not checked. `memory` are arrays that
        pointers which the kernel loads or computes may point into, besides `arguments`.
        `time_limit` is in seconds; None: none.

        Raises `LaunchError`: TIR0710 where grid or arguments do not fit, TIR0713 where an assertion
        failed, TIR0501 where an access would be outside of its array and TIR0508 where it would
        write to one that is read-only, unless accesses are not checked; TIR0725 where the time
        limit was reached. Raises what the handlers of signals do.
        """
        extents = extents_of(grid)
        parameters = self.module.functions[self.kernel].parameters
        given = [pass_argument(p, v) for p, v in zip(parameters, arguments, strict=True)]
        values, bounds = [x.value for x in given], self._bounds(given, memory)
        return self.run(extents, values, bounds, threads, time_limit)

    def run(
        self, extents: tuple[int, int, int], values: Sequence[int], bounds: Bounds,
        threads: int | None = None, time_limit: float | None = None,
    ) -> list[str]:  # fmt: skip
        """A call, given the bits of all arguments and the bounds of their memory."""
        calls = Calls(Launch(limit=time_limit), bounds, extents)
        words, host = calls.launch.words, _HOST(lambda i, at: self._serve(calls, i, at))
        words[WORDS["host"]] = ctypes.cast(host, ctypes.c_void_p).value
        words[WORDS["records"]], words[WORDS["all"]] = bounds.addresses
        run = self.code.run

        def part(first: int, last: int) -> None:
            if not calls.launch.stops(first):
                room = Room(self.private)
                packed = (ctypes.c_uint64 * (len(values) + 1))(*values, room.address)
                run(words, packed, first, last, *extents)

        with calls.launch.watched():
            workers = threads or processors()
            share_out(part, prod(extents), workers, lambda: calls.launch.stop_at(-1))
        calls.launch.check()
        failure = calls.first_failure()
        if failure is not None:
            raise LaunchError(failure)
        return calls.in_order()

    def bounds_of(self, regions: Sequence[Region | None]) -> Bounds:
        """Bounds of a launch whose arguments have the memory `regions`: None for a number."""
        return Bounds.of([*regions, *self._globals()]) if self.checked else _NO_BOUNDS

    def _globals(self) -> list[Region]:
        """The memory of the globals."""
        known = self.module.globals.values()
        if not known:
            return []
        at = (ctypes.c_uint64 * len(known))()
        self.code.list_globals(at)
        return [
            Region(f"@{g.name}", first, global_bytes(g), not g.constant)
            for g, first in zip(known, at, strict=True)
        ]

    def _bounds(self, given: Sequence[Passed], memory: Sequence[Array]) -> Bounds:
        if not self.checked:
            return _NO_BOUNDS
        key = tuple([x.key for x in given])
        for known, found in [] if memory else tuple(self._known):
            if known == key:
                return found
        more = [r for x in given for r in x.more()]
        more += [Region.of(f"memory[{i}]", array) for i, array in enumerate(memory)]
        found = Bounds.of([*(x.region() for x in given), *self._globals()], more)
        if not memory:
            self._known[:] = [(key, found)]
        return found

    def _serve(self, calls: Calls, site: int, address: int) -> int:
        self.sites[site].serve(calls, address)
        return 1


def compile(
    module: Module, kernel: str | None = None, *, optimize: int = 3,
    permit: tuple[str, ...] = (), checked: bool = True,
) -> CpuKernel:  # fmt: skip
    """Compile `kernel`, or the only kernel of `module`, for this machine's CPU; `checked`: accesses
    are checked before they are made (False: they are not, which is faster).

    Raises `CompileError`: TIR0706 for an op that no CPU runs, TIR0707 for a kernel that is not
    there.
    """
    try:
        name = module.kernel(kernel).name
    except KeyError as error:
        raise CompileError(Diagnostic("TIR0707", str(error.args[0]))) from error
    prepared = prepare(module, name)
    check_permitted(prepared.functions[name], permit)
    function, memory = _laid_out(prepared.functions[name])
    last = prepared.with_functions({**prepared.functions, name: function})
    made = emit(last, name, memory, CPU, checked)
    return CpuKernel(last, name, made.text, made.sites, optimize, checked, made.private)


def _laid_out(function: Function) -> tuple[Function, Plan]:
    """The function with layouts for one warp, and the plan of its shared memory."""
    stripped: Any = strip_mine(function, 1, lambda: held(function), functions=True).ir
    moved: Any = uniform_steps(exact_sums(stripped)).ir
    vectorized: Any = vectorize(moved).ir
    free = direct_slices(free_dots(vectorized))
    laid_out = assign_layouts(free, Anchors(free, OneByOne(free), 1))
    placed = allotted(laid_out)
    return placed, Plan.of(placed)
