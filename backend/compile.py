"""The pipeline from a module to machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import attrs

from tileir.backend.assembler import Assembled, assemble
from tileir.backend.collector import collector_paused
from tileir.backend.layouts.anchors import Anchors
from tileir.backend.layouts.assignment import assign_layouts
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.llvm.emit import Unit, emit
from tileir.backend.llvm.optimise import to_ptx
from tileir.backend.memory.allocation import allotted
from tileir.backend.memory.barriers import synchronised
from tileir.backend.memory.scratch import Plan
from tileir.backend.permission import check_permitted
from tileir.backend.pipeline.async_pipeline import pipelined
from tileir.backend.pipeline.occupancy import register_limit
from tileir.backend.pipeline.recompute import recompute
from tileir.backend.pipeline.uniform_steps import uniform_steps
from tileir.backend.prepare import prepare
from tileir.backend.remarks import chosen_warps, described
from tileir.backend.strip.mine import strip_mine
from tileir.backend.target import Target, target as target_named
from tileir.backend.vectorize import vectorize
from tileir.backend.warps import choose_warps
from tileir.backend.windows.stage_windows import staged_windows
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.passmanager.registry import Outcome

STAGES = (
    "input", "prepared", "strips", "pipelined", "windows", "vectorized", "layouts", "allocated",
    "barriers",
)  # fmt: skip
"""The stages at which a compiled module can be looked at."""


@attrs.frozen
class Options:
    """`num_warps`: warps per block, None to choose from the tiles. `optimize`: LLVM's level, 0
    to 3. `stages`: slots of the buffers of a pipelined loop that does not say itself, 1 for no
    pipelining, None to choose. `prefetch`: fragments of its dot are read a step ahead.
    `registers`: the most a thread may use, so that more blocks run side by side. Where both are
    None they are chosen: a limit under which another block has room, as long as nothing is spilled,
    else fragments ahead and no limit. `windows`: windows of one buffer that overlap are staged in
    shared memory once.
    `permit`: `inline_asm`, and `extern` for functions of `libraries`, which are texts of PTX."""

    num_warps: int | None = None
    optimize: int = 3
    stages: int | None = None
    prefetch: bool | None = None
    windows: bool = True
    registers: int | None = None
    permit: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@attrs.frozen
class Metadata:
    """What a launcher needs: the kernel's name, warps per block, bytes of shared memory (`dynamic`
    if it must be asked for at launch), and the type of each argument."""

    kernel: str
    target: str
    num_warps: int
    shared: int
    dynamic: bool
    arguments: tuple[str, ...]
    registers: int | None = None
    spills: int | None = None


@attrs.frozen(slots=False, eq=False)
class Compiled:
    """A kernel, compiled: LLVM IR as generated and `optimized`, PTX, and on demand the cubin."""

    stages: Mapping[str, Module]
    llvm: str
    optimized: str
    ptx: str
    plan: Metadata
    libraries: tuple[str, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    """What passes remarked as they ran."""
    limited: bool = False
    """Whether the limit of registers was chosen here, and goes where it would spill."""

    @cached_property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """What was done with each line and why not better: passes' own remarks, then how the
        kernel accesses memory, each at its place in the source (severity `REMARK`)."""
        laid_out = self.stages["layouts"].functions[self.plan.kernel]
        return tuple(dict.fromkeys((*self.notes, *described(laid_out))))

    def tir_at(self, stage: str) -> Module:
        """The module after `stage`, one of `STAGES`. Raises KeyError."""
        return self.stages[stage]

    @cached_property
    def assembled(self) -> Assembled:
        """Machine code and what it uses. Raises `CompileError`."""
        machine = target_named(self.plan.target)
        found = assemble(self.ptx, self.plan.kernel, machine, self.libraries)
        if found.spills and self.limited:
            unlimited = re.sub(r"\.maxnreg \d+", "", self.ptx)
            return assemble(unlimited, self.plan.kernel, machine, self.libraries)
        return found

    @property
    def cubin(self) -> bytes:
        """The machine code. Raises `CompileError` where nvJitLink is missing or refuses."""
        return self.assembled.cubin

    @property
    def metadata(self) -> Metadata:
        """The plan, with registers and spilled bytes per thread as assembled."""
        found = self.assembled
        return attrs.evolve(self.plan, registers=found.registers, spills=found.spills)


@collector_paused()
def compile(
    module: Module,
    target: str = "sm_90a",
    options: Options | Mapping[str, Any] | None = None,
    kernel: str | None = None,
) -> Compiled:
    """Compile `kernel`, or the only kernel of `module`, for `target`.

    Raises `CompileError`: TIR0702 for an unknown target, TIR0706 for an op it cannot be lowered
    for, TIR0707 for a kernel that is not there, TIR0708 for a resource it exceeds.
    """
    machine = target_named(target)
    chosen = options if isinstance(options, Options) else Options(**(options or {}))
    done = staged(module, machine, chosen, kernel)
    last, limited = done.stages["barriers"], done.registers != chosen.registers
    text = emit(Unit(last, done.kernel, done.memory, done.num_warps, done.registers), machine)
    ptx, optimized = to_ptx(text, machine, chosen.optimize)
    plan = metadata(done, machine)
    return Compiled(done.stages, text, optimized, ptx, plan, chosen.libraries, done.notes, limited)


@attrs.frozen(eq=False)
class Staged:
    """A kernel before code is written: the module after every stage, the plan of its shared
    memory, and the warps of a block."""

    stages: Mapping[str, Module]
    kernel: str
    memory: Plan
    num_warps: int
    notes: tuple[Diagnostic, ...] = ()
    """What passes remarked as they ran."""
    registers: int | None = None
    """The most a thread may use; None for no limit."""


@collector_paused()
def staged(module: Module, machine: Target, options: Options, kernel: str | None) -> Staged:
    """The stages up to where code is written. Raises `CompileError` as `compile` does."""
    name, notes = _kernel(module, kernel).name, list[Diagnostic]()
    prepared = prepare(module, name)
    check_permitted(prepared.functions[name], options.permit)
    mined = strip_mine(prepared.functions[name], warps=options.num_warps or 0)
    stripped = _result(mined, notes)
    outcome, registers = _pipelined(stripped, options, machine)
    pipelined = _result(outcome, notes)
    windows = _result(staged_windows(pipelined), notes) if options.windows else pipelined
    num_warps = options.num_warps or choose_warps(pipelined, machine)
    _check_warps(pipelined, num_warps, machine)
    _check_registers(pipelined, options.registers, machine)
    notes += chosen_warps(pipelined, num_warps, options.num_warps)
    function = _result(vectorize(windows, threads=num_warps * machine.lanes), notes)
    if registers is not None and registers < machine.max_registers:
        function = cast(Function, recompute(function).ir)
    contiguity = Contiguity.of(function)
    laid_out = assign_layouts(function, Anchors(function, contiguity, num_warps))
    laid_out = laid_out.evolve(attributes={**laid_out.attributes, "num_warps": num_warps})
    allocated = allotted(laid_out, machine.shared_bytes)
    waiting = synchronised(allocated)
    stages = {
        "input": module,
        "prepared": prepared,
        "strips": prepared.with_functions({**prepared.functions, name: stripped}),
        "pipelined": _marked(prepared, pipelined, "pipelined", num_warps),
        "windows": _marked(prepared, windows, "windows", num_warps),
        "vectorized": _marked(prepared, function, "vectorized", num_warps),
        "layouts": _marked(prepared, laid_out, "layouts", num_warps),
        "allocated": _marked(prepared, allocated, "allocated", num_warps),
        "barriers": _marked(prepared, waiting, "barriers", num_warps),
    }
    return Staged(stages, name, Plan.of(waiting), num_warps, tuple(notes), registers)


def _result(outcome: Outcome, notes: list[Diagnostic]) -> Function:
    """The function that a pass gave, its remarks noted."""
    notes += outcome.remarks
    assert isinstance(outcome.ir, Function)
    return outcome.ir


def _pipelined(function: Function, options: Options, machine: Target) -> tuple[Outcome, int | None]:
    """Loads that feed dots as asynchronous copies, and the most registers of a thread; half of
    shared memory for their buffers, so that two blocks run side by side, where the options do not
    say how many slots."""
    stages, shared = options.stages or 0, machine.shared_bytes // 2
    moved = cast(Function, uniform_steps(function).ir)
    if options.prefetch is None and options.registers is None:
        plain = pipelined(moved, stages, shared, False)
        warps = options.num_warps or choose_warps(function, machine)
        limit = register_limit(cast(Function, plain.ir), warps, machine)
        if limit is not None:
            return plain, limit
    return pipelined(moved, stages, shared, options.prefetch is not False), options.registers


def _kernel(module: Module, name: str | None) -> Function:
    try:
        return module.kernel(name)
    except KeyError as error:
        raise CompileError(Diagnostic("TIR0707", str(error.args[0]))) from error


def _marked(module: Module, function: Function, stage: str, num_warps: int) -> Module:
    marked = function.evolve(attributes={**function.attributes, "num_warps": num_warps})
    functions = {**module.functions, function.name: marked}
    return module.evolve(functions=functions, stage=stage)


def _check_warps(function: Function, num_warps: int, machine: Target) -> None:
    most = machine.max_threads // machine.lanes
    if not 1 <= num_warps <= most:
        message = f"num_warps must be in 1 to {most}, not {num_warps}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


def _check_registers(function: Function, registers: int | None, machine: Target) -> None:
    if registers is not None and not _FEWEST <= registers <= machine.max_registers:
        message = f"registers must be in {_FEWEST} to {machine.max_registers}, not {registers}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


_FEWEST = 32
"""Registers that every instruction can do with."""


def metadata(done: Staged, machine: Target) -> Metadata:
    """What a launcher needs of a kernel that was staged."""
    function, memory = done.stages["input"].functions[done.kernel], done.memory
    arguments = tuple(str(p.type) for p in function.parameters)
    return Metadata(
        function.name, machine.name, done.num_warps, memory.size, memory.dynamic, arguments
    )
