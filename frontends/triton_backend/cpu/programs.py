"""A kernel that Triton has loaded, and what runs it: native code, the interpreter, or the machine
of threads (SIMT)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import attrs

from tileir.backend.cpu.compile import CpuKernel, compile as compile_for_cpu
from tileir.backend.cpu.regions import Bounds, MemoryRegion
from tileir.backend.cpu.spin_waits import may_spin_wait
from tileir.backend.launch_arguments import extents_of
from tileir.backend.runtime.disk_store import DiskStore, cache_folder
from tileir.effects import Effects
from tileir.errors import CompileError, Diagnostic, InfeasibleError, LaunchError, TileirError
from tileir.executor import executor
from tileir.frontends.triton_backend.cpu.arguments import ANYWHERE, Memory, Reader, array_of, reader
from tileir.frontends.triton_backend.cpu.findings import record_finding, record_kernel
from tileir.frontends.triton_backend.descriptors import (
    descriptor_places,
    places_padded_with_nan,
    with_made_descriptors,
)
from tileir.interp import Within
from tileir.ir import Module
from tileir.ops.program import GRID_LIMITS
from tileir.textual import parse, print_module
from tileir.types import Pointer, element_of
from tileir_triton.settings import CPU_MODES, cpu_mode

Extents = tuple[int, int, int]
Launch = Callable[[Extents, Sequence[Any]], None]


@attrs.frozen(slots=False, eq=False)
class CpuProgram:
    """The kernel `name` of a module, given as text."""

    name: str
    text: str

    @staticmethod
    def from_binary(name: str, binary: bytes) -> CpuProgram:
        """The kernel `name` from the output of the stage `tir`."""
        return CpuProgram(name, binary.decode())

    @cached_property
    def module(self) -> Module:
        """The module."""
        return parse(self.text, f"{self.name}.tir")

    @cached_property
    def launch(self) -> Launch:
        """Run the kernel on a grid, with the values of its parameters, on the executor that
        TILEIR_TRITON_CPU selected at the first launch. Raises TileirError."""
        mode = cpu_mode() or "native"
        if mode not in CPU_MODES:
            message = f"TILEIR_TRITON_CPU is one of {', '.join((*CPU_MODES, 'off'))}, not {mode}"
            raise LaunchError(Diagnostic("TIR0539", message))
        native = self._native() if mode == "native" else None
        plain = native or self._through("interpreter" if mode == "native" else mode)
        if not descriptor_places(self._parameters):
            return plain

        def launch(grid: Extents, values: Sequence[Any]) -> None:
            places = frozenset(places_padded_with_nan(self._parameters, values))
            (self._with_nan_padding(places).launch if places else plain)(grid, values)

        return launch

    def _with_nan_padding(self, places: frozenset[int]) -> CpuProgram:
        """The program where the descriptors at `places` have NaN outside of their tensors."""
        if places not in self._variants:
            module = with_made_descriptors(self.module, self.name, places, nan=places)
            self._variants[places] = CpuProgram(self.name, print_module(module))
        return self._variants[places]

    @cached_property
    def _variants(self) -> dict[frozenset[int], CpuProgram]:
        return {}

    def _native(self) -> Launch | None:
        """Native code; None where instances wait for each other, or this CPU has no code for an op:
        the interpreter runs these. Raises InfeasibleError for what exceeds a limit."""
        if may_spin_wait(self.module):
            return None
        try:
            kernel = compile_for_cpu(self.module, self.name, store=_store())
        except InfeasibleError:
            raise
        except CompileError:
            return None
        return _launch_of(kernel, [reader(p) for p in self._parameters])

    @property
    def _parameters(self) -> Sequence[Any]:
        return self.module.functions[self.name].parameters

    def _through(self, mode: str) -> Launch:
        """The executor `mode`, which looks for what a program does wrong."""
        record_kernel(self.name)
        runner, parameters = executor(mode), self._parameters
        threads = mode == "simt"

        def launch(grid: Extents, values: Sequence[Any]) -> None:
            arguments = [array_of(p, value) for p, value in zip(parameters, values, strict=True)]
            printed: list[str] = []
            options: dict[str, Any] = (
                {"warp_specialize": False, "permit": ("inline_asm",), "output": printed}
                if threads
                else {}
            )
            try:
                report = runner.launch(self.module, self.name, grid, arguments, **options)
            except TileirError as error:
                unwritten = [
                    str(p.name)
                    for p, a in zip(parameters, arguments, strict=True)
                    if isinstance(a, Within) and a.unwritten is not None
                ]
                record_finding(self.name, mode, error, unwritten)
                raise
            _say(printed if threads else report.printed)

        return launch


def _store() -> DiskStore | None:
    """The user's cache folder, unless TILEIR_CACHE is `off`."""
    return None if os.environ.get("TILEIR_CACHE") == "off" else DiskStore(cache_folder() / "cpu")


def _launch_of(kernel: CpuKernel, readers: Sequence[Reader]) -> Launch:
    run, cache = kernel.run, _BoundsCache(kernel, _computes_addresses(kernel.module))
    most_x, most_y, most_z = GRID_LIMITS

    def launch(grid: Extents, values: Sequence[Any]) -> None:
        x, y, z = grid
        if not (0 <= x <= most_x and 0 <= y <= most_y and 0 <= z <= most_z):
            extents_of(grid)  # raises LaunchError
        words: list[int] = []
        memory: list[Memory | None] = []
        for read, value in zip(readers, values, strict=True):
            read(value, words, memory)
        printed = run(grid, words, cache.bounds(tuple(memory)))
        if printed:
            _say(printed)

    return launch


def _computes_addresses(module: Module) -> bool:
    """Whether a pointer comes from memory or a number: it may point into memory that is no
    argument's, as in tables of addresses of tensors."""
    return any(
        isinstance(element_of(result.type), Pointer)
        for function in module.functions.values()
        for op in function.ops
        for result in op.results
        if Effects.READ in op.effects or not any(map(_is_pointer, op.inputs))
    )


def _is_pointer(operand: Any) -> bool:
    return isinstance(element_of(operand.type), Pointer)


class _BoundsCache:
    """The bounds of the last launch of `kernel`, which the next one often has. `anywhere`: its
    pointers of unknown origin have no bounds."""

    def __init__(self, kernel: CpuKernel, anywhere: bool) -> None:
        self.kernel = kernel
        self.more = (MemoryRegion.anywhere("memory"),) if anywhere else ()
        self.last: tuple[Any, Bounds] | None = None

    def bounds(self, memory: tuple[Memory | None, ...]) -> Bounds:
        """The bounds of a launch whose arguments have that memory."""
        last = self.last
        if last is not None and last[0] == memory:
            return last[1]
        regions = [None if m is None else _region(*m) for m in memory]
        bounds = self.kernel.bounds_of(regions, self.more)
        self.last = memory, bounds
        return bounds


def _region(name: str, first: int, end: int) -> MemoryRegion:
    return (
        MemoryRegion.anywhere(name) if end == ANYWHERE else MemoryRegion(name, first, end - first)
    )


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
