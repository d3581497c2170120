"""The pipeline from a module to machine code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileir import records
from tileir.backend.compiled import STAGES, Compiled
from tileir.backend.concerned import (
    pipelined,
    planned,
    recompute,
    register_limit,
    rotated,
    staged_windows,
    strip_mine,
    strips,
    uniform_steps,
    with_roles,
)
from tileir.backend.crew import Crew
from tileir.backend.demand import check_dots, check_registers
from tileir.backend.isolation import Machine, Task, run
from tileir.backend.layouts.anchors import Anchors
from tileir.backend.layouts.assignment import assign_layouts
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.layouts.running_max import running_max
from tileir.backend.legal import check_legal, within
from tileir.backend.llvm.emit import Unit, emit
from tileir.backend.llvm.optimise import level_of, to_ptx
from tileir.backend.memory.barriers import synchronised
from tileir.backend.memory.scratch import Plan
from tileir.backend.metadata import Metadata, metadata_of
from tileir.backend.options import Options
from tileir.backend.outcome import typed
from tileir.backend.permission import check_permitted
from tileir.backend.prepare import prepare
from tileir.backend.requests import Made, lowered_level, unfollowed
from tileir.backend.roles.wanted import Front, Wanted
from tileir.backend.target import Target, target as target_named
from tileir.backend.vectorize import vectorize
from tileir.backend.warps import check_warps, choose_warps, chosen_warps
from tileir.collector import collector_paused
from tileir.errors import CompileError, Diagnostic, InfeasibleError
from tileir.ir import Function, Module
from tileir.isolating import chosen
from tileir.limits import Limits, check_tiles, limits
from tileir.passmanager.registry import Outcome

__all__ = ["STAGES", "Compiled", "Metadata", "Options", "Staged", "compile", "metadata", "staged"]


@collector_paused()
def compile(
    module: Module,
    target: str = "sm_90a",
    options: Options | Mapping[str, Any] | None = None,
    kernel: str | None = None,
    *,
    isolate: bool | None = None,
) -> Compiled:
    """Compile `kernel`, or the only kernel of `module`, for `target`; with `isolate`, code is
    generated and assembled in a process of its own (`tileir.backend.isolation`).

    Needs no GPU. Raises `CompileError`: `InfeasibleError` for a resource (TIR0708) or a limit
    (TIR1601) it exceeds, `UnsupportedError` for an unknown target (TIR0702) or an op that cannot
    be lowered for it (TIR0706), `DefectError` for a defect of the compiler, and plain for a kernel
    that is not there (TIR0707) or code that is not permitted (TIR0712); `TypeError` for what is no
    module.
    """
    if not isinstance(module, Module):
        raise TypeError(f"a module is compiled, and not a {type(module).__name__}")
    with typed():
        asked = Options.of(options)
        with limits(Limits.of(dict(asked.limits))):
            return _compiled(module, target_named(target), asked, kernel, chosen(isolate))


def _compiled(
    module: Module, machine: Target, options: Options, kernel: str | None, isolate: bool
) -> Compiled:
    done = staged(module, machine, options, kernel)
    last, limited = done.stages["barriers"], done.registers != options.registers
    unit = Unit(
        last, done.kernel, done.memory, done.num_warps, done.registers, options.watch_waits,
        options.lines,
    )  # fmt: skip
    text = emit(unit, machine)
    task = Task(done.kernel, "code generation", module.functions[done.kernel].location)
    if isolate:
        ptx = run(task, to_ptx, text, Machine.of(machine), options.optimize)
    else:
        ptx = to_ptx(text, machine, options.optimize)
    plan = metadata(done, machine)
    level = level_of(text, options.optimize)
    notes = (*done.notes, *lowered_level(options, level, module.functions[done.kernel]))
    return Compiled(
        done.stages, text, ptx, plan, options.libraries, notes, limited, options,
        isolate=isolate,
    )  # fmt: skip


@records.frozen(eq=False)
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
    name = _kernel(module, kernel).name
    check_tiles(module, InfeasibleError)
    check_dots(module, machine, options.num_warps)
    for room in _ROOMS:
        started = _started(module, name, machine, options, room)
        try:
            return _through_stages(module, started, machine, options, name)
        except CompileError as error:
            if not started.made or error.code != "TIR0708":
                raise
    return _through_stages(module, Front(module), machine, options, name)


_ROOMS = (227 << 10, 195 << 10, 163 << 10, 131 << 10)
"""Bytes of shared memory for what roles share, the first that leaves enough for what else of a
kernel passes through shared memory."""


def _through_stages(
    module: Module, started: Front, machine: Target, options: Options, name: str
) -> Staged:
    notes, asked = list(started.remarks), options
    if started.made:
        options = records.evolve(options, num_warps=None)
    prepared = prepare(started.module, name)
    check_permitted(within(prepared, name), options.permit)
    check_legal(prepared, name, machine)
    crew = Crew.of(prepared, prepared.functions[name])
    mined = strip_mine(prepared.functions[name], options.num_warps or 0)
    stripped = _result(mined, notes)
    outcome, registers, prefetched = _pipelined(stripped, options, machine)
    pipelined = _result(outcome, notes)
    windows = _result(staged_windows(pipelined), notes) if options.windows else pipelined
    num_warps = options.num_warps or choose_warps(pipelined, machine)
    check_warps(pipelined, num_warps, machine.max_warps)
    _check_registers(pipelined, options.registers, machine)
    check_registers(windows, num_warps, machine)
    notes += chosen_warps(pipelined, num_warps, options.num_warps)
    function = _result(vectorize(windows, threads=num_warps * machine.lanes), notes)
    if registers is not None and registers < machine.max_registers:
        function = cast(Function, recompute(function).ir)
    vectorized = crew.vectorized(machine)
    contiguity = Contiguity(function)
    laid_out = assign_layouts(function, Anchors(function, contiguity, num_warps))
    laid_out = running_max(laid_out)
    laid_out = laid_out.evolve(attributes={**laid_out.attributes, "num_warps": num_warps})
    arranged = vectorized.laid_out()
    allocated, placed = arranged.allotted(laid_out, machine)
    waiting, ordered = rotated(synchronised(allocated)), placed.synchronised()
    stages = {
        "input": module,
        "prepared": prepared,
        "strips": strips(prepared.with_functions({**prepared.functions, name: stripped})),
        "pipelined": _marked(prepared, pipelined, "pipelined", num_warps),
        "windows": _marked(prepared, windows, "windows", num_warps),
        "vectorized": _marked(vectorized.within(prepared), function, "vectorized", num_warps),
        "layouts": _marked(arranged.within(prepared), laid_out, "layouts", num_warps),
        "allocated": _marked(placed.within(prepared), allocated, "allocated", num_warps),
        "barriers": planned(
            _marked(ordered.within(prepared), waiting, "barriers", num_warps), name
        ),
    }
    done = Made(stages["barriers"], name, started.made, notes, prefetched)
    notes += unfollowed(within(module, name), asked, machine, done)
    return Staged(stages, name, ordered.plan(waiting), num_warps, tuple(notes), registers)


def _started(module: Module, name: str, machine: Target, options: Options, room: int) -> Front:
    """The module with the kernel's roles, where it has them, which share `room` bytes."""
    said = module.functions[name].attributes
    if not (machine.wgmma and machine.tma) or module.stage is not None:
        return Front(module)
    if not (said.get("roles", True) if options.roles is None else options.roles):
        return Front(module)
    asked = said.get("num_warps", 0)
    warps = options.num_warps or (asked if isinstance(asked, int) else 0)
    many = not said.get("once", False) if options.persistent is None else options.persistent
    turns = said.get("pingpong", False) if options.pingpong is None else options.pingpong
    wanted = Wanted(
        options.stages or 0, warps, room, many, bool(turns),
        unmapped=options.unmapped, turns=options.turns is not False,
    )  # fmt: skip
    split = cast(int, options.split or said.get("split", 1))
    multicast = cast(int, options.multicast or said.get("multicast", 1))
    return with_roles(module, name, records.evolve(wanted, split=split, multicast=multicast))


def _result(outcome: Outcome, notes: list[Diagnostic]) -> Function:
    """The function that a pass gave, its remarks noted."""
    notes += outcome.remarks
    assert isinstance(outcome.ir, Function)
    return outcome.ir


def _pipelined(
    function: Function, options: Options, machine: Target
) -> tuple[Outcome, int | None, bool]:
    """Loads that feed dots as asynchronous copies, the most registers of a thread, and whether
    fragments are read ahead where the options ask for it; half of shared memory for their buffers,
    so that two blocks run side by side, where the options do not say how many slots."""
    stages, shared = options.stages or 0, machine.shared_bytes // 2
    moved = cast(Function, uniform_steps(function).ir)
    if options.prefetch is None and options.registers is None:
        plain = pipelined(moved, stages, shared, False)
        warps = options.num_warps or choose_warps(function, machine)
        limit = register_limit(cast(Function, plain.ir), warps, machine)
        if limit is not None:
            return plain, limit, False
    found = pipelined(moved, stages, shared, options.prefetch is not False)
    ahead = False
    if options.prefetch:  # asked for: what is the same without was not followed
        plain = pipelined(moved, stages, shared, False)
        ahead = _size(found) != _size(plain)
    return found, options.registers, ahead


def _size(outcome: Outcome) -> int:
    return sum(1 for _ in cast(Function, outcome.ir).ops)


def _kernel(module: Module, name: str | None) -> Function:
    try:
        return module.kernel(name)
    except KeyError as error:
        raise CompileError(Diagnostic("TIR0707", str(error.args[0]))) from error


def _marked(module: Module, function: Function, stage: str, num_warps: int) -> Module:
    marked = function.evolve(attributes={**function.attributes, "num_warps": num_warps})
    functions = {**module.functions, function.name: marked}
    return module.evolve(functions=functions, stage=stage)


def _check_registers(function: Function, registers: int | None, machine: Target) -> None:
    if registers is not None and not _FEWEST <= registers <= machine.max_registers:
        message = f"registers must be in {_FEWEST} to {machine.max_registers}, not {registers}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


_FEWEST = 32
"""Registers that every instruction can do with."""


def metadata(done: Staged, machine: Target) -> Metadata:
    """What a launcher needs of a kernel that was staged."""
    kernel, memory = done.stages["input"].functions[done.kernel], done.memory
    prepared = done.stages["prepared"].functions[done.kernel]
    return metadata_of(
        kernel, prepared, done.stages["barriers"], machine.name, done.num_warps, memory.size,
        memory.dynamic,
    )  # fmt: skip
