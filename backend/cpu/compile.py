"""From a module to code of this machine's CPU, and running it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from tileir import records
from tileir.backend.concerned import strip_mine, uniform_steps
from tileir.backend.cpu.dots import direct_slices, free_dots, held
from tileir.backend.cpu.emit import emit
from tileir.backend.cpu.exact import exact_sums
from tileir.backend.cpu.host import Calls, Site
from tileir.backend.cpu.jit import Code, load
from tileir.backend.cpu.pool import processors, share_out
from tileir.backend.cpu.private import Room
from tileir.backend.grids import encoded, extents_of
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
from tileir.ir import Function, Module
from tileir.op import Op

CPU = Target(
    "cpu", 0, shared_bytes=1 << 20, shared_per_processor=1 << 20, threads_per_processor=32,
    blocks_per_processor=1, max_threads=32, mma=frozenset(), ldmatrix=False, cp_async=False,
    redux=False, bf16_arithmetic=False, f8_conversion=False,
)  # fmt: skip
"""One warp in lockstep, whose shared memory is on the stack of its thread."""

_HOST = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_ANYWHERE = (1 << 64) - 1


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
    checked: bool = False
    """Whether accesses are looked at before they are made."""
    private: int = 0
    """Bytes that the lanes of an instance have to themselves."""
    _alone: Any = records.field(factory=threading.Lock, init=False)
    """Held by a launch: its code asks one host."""

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
        extents = extents_of(grid)
        given = [*self._encoded(arguments), *self._limits(ends or {})]
        calls, total, workers = Calls(), prod(extents), threads or processors()
        host = _HOST(lambda site, address: self.sites[site].serve(calls, address))

        def part(first: int, last: int) -> None:
            room = Room(self.private)
            packed = (ctypes.c_uint64 * (len(given) + 1))(*given, room.address)
            self.code.run(packed, first, last, *extents)

        with self._alone:
            self.code.set_host(ctypes.cast(host, ctypes.c_void_p))
            share_out(part, total, workers)
        failure = calls.first_failure()
        if failure is not None:
            raise LaunchError(failure)
        return calls.in_order()

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
    permit: tuple[str, ...] = (), checked: bool = False,
) -> CpuKernel:  # fmt: skip
    """Compile `kernel`, or the only kernel of `module`, for this machine's CPU; `checked`: accesses
    are looked at before they are made.

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
