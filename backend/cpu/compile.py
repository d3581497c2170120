"""From a module to code of this machine's CPU, and running it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from tileir import records
from tileir.backend.cpu.emit import emit
from tileir.backend.cpu.host import Calls, Site
from tileir.backend.cpu.jit import Code, load
from tileir.backend.cpu.pool import processors, share_out
from tileir.backend.cpu.private import Room
from tileir.backend.grids import encoded, extents_of
from tileir.backend.memory.scratch import Plan
from tileir.backend.options import Options
from tileir.backend.stage import StageRun
from tileir.backend.stage_tables import CPU as STAGES, Context
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic, LaunchError
from tileir.ir import Module

CPU = Target(
    "cpu", 0, shared_bytes=1 << 20, shared_per_processor=1 << 20, threads_per_processor=32,
    blocks_per_processor=1, max_threads=32, mma=frozenset(), ldmatrix=False, cp_async=False,
    redux=False, bf16_arithmetic=False, f8_conversion=False,
)  # fmt: skip
"""One warp in lockstep, whose shared memory is on the stack of its thread."""

_HOST = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_ANYWHERE = (1 << 64) - 1
_ALONE = 50_000
"""Nanoseconds of work that other threads are not woken for."""


@records.frozen(slots=False, eq=False)
class CpuKernel:
    """A kernel for this machine's CPU: the module before code was written, LLVM IR as generated
    and optimised."""

    module: Module
    kernel: str
    llvm: str
    sites: tuple[Site, ...]
    optimize: int
    checked: bool = False
    """Whether accesses are looked at before they are made."""
    private: int = 0
    """Bytes that the lanes of an instance have to themselves."""
    _alone: Any = records.field(factory=threading.Lock, init=False)
    """Held by a launch: its code asks one host."""
    _pace: list[float] = records.field(factory=lambda: [float(_ALONE)], init=False)
    """Nanoseconds that an instance took in the last launch."""

    @cached_property
    def code(self) -> Code:
        """The code, loaded. Raises `CompileError`."""
        return load(self.llvm, self.optimize)

    @property
    def optimized(self) -> str:
        """LLVM IR as optimised."""
        return self.code.optimized

    def __call__(
        self, grid: int | Sequence[int], arguments: Sequence[Any], threads: int | None = None,
        ends: Mapping[int, tuple[int, int]] | None = None,
    ) -> list[str]:  # fmt: skip
        """Run for every instance of `grid` on `threads` threads (None: one for each processor that
        this thread may run on), given addresses and numbers; what was printed, a line each. `ends`,
        of a kernel that is checked, are the first byte of the arrays of arguments and the one
        behind the last; what is not there may be anywhere.

        Raises `LaunchError`: TIR0710 where grid or arguments do not fit, TIR0713 where an assertion
        failed, TIR0501 where an access would be outside of its array.
        """
        given = [*self._encoded(arguments), *self._limits(ends or {})]
        return self.run(extents_of(grid), given, threads)

    def run(
        self, extents: tuple[int, int, int], words: Sequence[int], threads: int | None = None
    ) -> list[str]:
        """Run for every instance, given the bits of all arguments and, of a kernel that is checked,
        behind them of each argument its first byte and the one behind its last: (0, 2^64 - 1) for
        anywhere, as for numbers. Otherwise as a call."""
        total, calls, spent = prod(extents), Calls(), [0]

        def part(first: int, last: int) -> None:
            room, begin = Room(self.private), time.perf_counter_ns()
            packed = (ctypes.c_uint64 * (len(words) + 1))(*words, room.address)
            self.code.run(packed, first, last, *extents)
            spent[0] += time.perf_counter_ns() - begin

        with self._alone:
            self._host[0][0] = calls
            alone = total == 1 or total * self._pace[0] < _ALONE
            share_out(part, total, 1 if alone else threads or processors())
            self._pace[0] = spent[0] / max(total, 1)
        failure = calls.first_failure() if calls.failures else None
        if failure is not None:
            raise LaunchError(failure)
        return calls.in_order() if calls.printed else []

    @cached_property
    def _host(self) -> tuple[list[Calls], Any]:
        """Where the launch that runs notes what its code says, and the function that code calls."""
        current = [Calls()]
        host = _HOST(lambda site, address: self.sites[site].serve(current[0], address))
        self.code.set_host(ctypes.cast(host, ctypes.c_void_p))
        return current, host

    def _limits(self, ends: Mapping[int, tuple[int, int]]) -> list[int]:
        if not self.checked:
            return []
        count = len(self.module.functions[self.kernel].parameters)
        return [limit for i in range(count) for limit in ends.get(i, (0, _ANYWHERE))]

    def _encoded(self, arguments: Sequence[Any]) -> list[int]:
        parameters = self.module.functions[self.kernel].parameters
        return [encoded(p, value) for p, value in zip(parameters, arguments, strict=True)]


def compile(
    module: Module, kernel: str | None = None, *, optimize: int = 3,
    permit: tuple[str, ...] = (), checked: bool = False, recorder: Any = None,
) -> CpuKernel:  # fmt: skip
    """Compile `kernel`, or the only kernel of `module`, for this machine's CPU; `checked`: accesses
    are looked at before they are made. `recorder` is as of `tileir.backend.compile`.

    Raises `CompileError`: TIR0706 for an op that no CPU runs, TIR0707 for a kernel that is not
    there.
    """
    run = lowered(module, kernel, permit=permit, recorder=recorder)
    made = emit(run.module, run.kernel, Plan.of(run.function), CPU, checked)
    return CpuKernel(run.module, run.kernel, made.text, made.sites, optimize, checked, made.private)


def lowered(
    module: Module, kernel: str | None, *, permit: tuple[str, ...] = (), recorder: Any = None
) -> StageRun[Context]:
    """The kernel after the stages of `STAGES`. Raises `CompileError` as `compile` does."""
    try:
        name = module.kernel(kernel).name
    except KeyError as error:
        raise CompileError(Diagnostic("TIR0707", str(error.args[0]))) from error
    context = Context(CPU, Options(permit=permit), name, num_warps=1)
    run = StageRun(module, name, context, recorder=recorder)
    run.through(STAGES)
    return run
