"""The pipeline from a module to machine code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import attrs

from tileir.analysis.clusters import PERSISTENT
from tileir.backend.compiled_kernel import STAGES, CompiledKernel
from tileir.backend.demand import check_dots, stated_warps
from tileir.backend.legal import within
from tileir.backend.metadata import Metadata, metadata_of
from tileir.backend.nvptx.emit import ROLE, KernelUnit, emit_kernel, join_kernels
from tileir.backend.nvptx.llvm_codegen import level_of, to_ptx
from tileir.backend.options import CodeVariant, Options, llvm_libraries
from tileir.backend.pipeline import AFTER_LAYOUTS, UNTIL_LAYOUTS, Context
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.stage import StageRun, has_op
from tileir.backend.target import Target, target as target_named
from tileir.errors import CompileError, Diagnostic, InfeasibleError, classify_errors
from tileir.ir import Function, Module
from tileir.limits import Limits, check_loops, check_operations, check_tiles, limits
from tileir.process import collector_paused, is_isolated
from tileir.types import shape_of

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.options import WarpSpecializeResult
    from tileir.ops.dot import Dot

__all__ = [
    "STAGES",
    "CompiledKernel",
    "LoweredKernel",
    "Metadata",
    "Options",
    "compile",
    "metadata_of_lowered",
    "run_pipeline",
    "warp_specialized",
]


@collector_paused()
def compile(
    module: Module,
    target: str = "sm_90a",
    options: Options | Mapping[str, Any] | None = None,
    kernel: str | None = None,
    *,
    idle_warps: bool = True,
    isolate: bool | None = None,
    recorder: Any = None,
) -> CompiledKernel:
    """Compile `kernel`, or the only kernel of `module`, for `target`.

    Needs no GPU. With `idle_warps`, a block has as many warps as requested, even if some of them
    only duplicate elements of others. Without it such warps are left out: more blocks are resident,
    and the launcher reads the number from `plan.num_warps`. With `isolate`, code is generated and
    assembled in a separate process (`tileir.backend.isolation`). `recorder`, a
    `tileir.passmanager.Recorder`, verifies and times every pass and calls its observers.

    Raises `CompileError`:

    - `InfeasibleError` if the kernel exceeds a resource (TIR0708) or a limit (TIR1601).
    - `UnsupportedError` for an unknown target (TIR0702), or an op that cannot be lowered for it
      (TIR0706).
    - `DefectError` for a defect of the compiler.
    - `CompileError` itself if the kernel does not exist (TIR0707) or calls code that is not
      permitted (TIR0712).

    Raises `TypeError` if `module` is no module.
    """
    if not isinstance(module, Module):
        raise TypeError(f"`compile` takes a module, not a {type(module).__name__}")
    with classify_errors():
        requested, machine = Options.of(options), target_named(target)
        with limits(Limits.of(dict(requested.limits))):
            lowered = run_pipeline(
                module, machine, requested, kernel, recorder, idle_warps=idle_warps
            )
            return _generate_code(module, machine, lowered, is_isolated(isolate))


def _generate_code(
    module: Module, machine: Target, lowered: LoweredKernel, isolate: bool
) -> CompiledKernel:
    """LLVM IR and PTX of a lowered kernel."""
    last, options = lowered.stages["barriers"], lowered.options
    is_limited = lowered.registers != options.max_registers
    unit = KernelUnit(
        last, lowered.kernel, lowered.memory, lowered.num_warps, lowered.registers,
        options.wait_timeout, options.line_info,
    )  # fmt: skip
    generate = CodeGenerator(unit, machine, options, isolate)
    text, ptx, is_reordered = generate.with_overlap or generate.depth_first
    plan = metadata_of_lowered(lowered, machine)
    level, notes = level_of(text, options.opt_level), lowered.notes
    if level < options.opt_level:
        from tileir.backend.requests import lowered_level  # few kernels need it

        notes = (*notes, *lowered_level(options, level, module.functions[lowered.kernel]))
    return CompiledKernel(
        lowered.stages,
        text,
        ptx,
        plan,
        options.libraries,
        notes,
        is_limited,
        options,
        isolate=isolate,
        recompile=compile,
        generate=generate,
        is_reordered=is_reordered,
        moved_registers=generate.moved_registers,
    )


_OF_LLVM = frozenset({CodeVariant.SCHEDULED, CodeVariant.UNREDUCED})
"""The variants whose LLVM IR is that of `DEPTH_FIRST`: LLVM generates other code from it."""


class GeneratedCode(NamedTuple):
    """LLVM IR and PTX of a kernel."""

    llvm: str
    ptx: str
    is_reordered: bool
    """Whether the instructions are in another order than that of the program."""


@attrs.frozen(slots=False, eq=False)
class CodeGenerator:
    """The code generator of the kernel `unit`. With `isolate`, LLVM runs in a separate process."""

    unit: KernelUnit
    machine: Target
    options: Options
    isolate: bool

    def __call__(self, variant: CodeVariant) -> GeneratedCode:
        """The code of `variant`. It is that of `DEPTH_FIRST`, and LLVM does not run again, if the
        variant changes nothing in this kernel."""
        if variant is CodeVariant.OVERLAPPED:
            return self.with_overlap or self.depth_first
        first = self.depth_first
        if variant is CodeVariant.DEPTH_FIRST:
            return first
        if variant in _OF_LLVM:
            return first._replace(ptx=self._ptx(first.llvm, variant))
        unit = attrs.evolve(self.unit, variant=variant)
        if variant in _OF_OPS:
            unit = _OF_OPS[variant](unit)
            if unit.module is self.unit.module:
                return first
        text, is_reordered = self._emit(unit)
        if text == first.llvm:
            return first
        return GeneratedCode(text, self._ptx(text, variant), is_reordered)

    @cached_property
    def depth_first(self) -> GeneratedCode:
        """The code of `DEPTH_FIRST`."""
        text, is_reordered = self._emit(self.unit)
        return GeneratedCode(text, self._ptx(text, CodeVariant.DEPTH_FIRST), is_reordered)

    @cached_property
    def with_overlap(self) -> GeneratedCode | None:
        """The code of `OVERLAPPED`; None if that changes nothing in this kernel, or if the number
        of registers is not left to ptxas."""
        if self._overlapping is None:
            return None
        text, is_reordered = self._emit(self._overlapping)
        return GeneratedCode(text, self._ptx(text, CodeVariant.OVERLAPPED), is_reordered)

    @cached_property
    def moved_registers(self) -> int | None:
        """The registers of a thread that are alive for longer in `with_overlap` than in
        `depth_first`; None if there is no such code."""
        if self._overlapping is None:
            return None
        name = self.unit.kernel
        own, changed = (u.module.functions[name] for u in (self.unit, self._overlapping))
        return registers_moved(own, changed)

    @cached_property
    def _overlapping(self) -> KernelUnit | None:
        """The kernel that `with_overlap` is generated from; None if there is none."""
        unit, function = self.unit, self.unit.module.functions[self.unit.kernel]
        if unit.registers is not None or self.options.libraries or has_op(function, ROLE):
            return None
        changed = overlapping(unit) if _has_matrix_instructions(function) else unit
        return None if changed is unit else changed

    def _emit(self, unit: KernelUnit) -> tuple[str, bool]:
        """The LLVM IR of `unit`, and whether its instructions are reordered."""
        part = emit_kernel(unit, self.machine, 0)
        return join_kernels([part]), part.reordered

    def _ptx(self, text: str, variant: CodeVariant) -> str:
        """The PTX of the LLVM IR `text` with LLVM's settings for `variant`."""
        libraries, level = llvm_libraries(self.options.libraries), self.options.opt_level
        if not self.isolate:
            return to_ptx(text, self.machine, level, libraries, variant)
        from tileir.backend.isolation import MachineTarget, Task, run

        unit = self.unit
        task = Task(unit.kernel, "code generation", unit.module.functions[unit.kernel].location)
        arguments = text, MachineTarget.of(self.machine), level, libraries
        return run(task, to_ptx, *arguments, variant)


def _has_matrix_instructions(function: Function) -> bool:
    """Whether dots of `function` are computed by `mma` or `wgmma`."""
    dots = [op for op in function.ops if op.multiplies_matrices]
    if not dots:
        return False
    from tileir.backend.layouts.dot_layouts import mma_of  # most kernels have no dots

    return any(op.mnemonic != "dot" or mma_of(op) is not None for op in dots)


def prefetching(unit: KernelUnit) -> KernelUnit:
    """`unit` with the loads of loops one iteration ahead; `unit` itself if there are none that may
    be."""
    from tileir.backend.transforms.prefetch_between_barriers import prefetch_between_barriers

    return _with_kernel(unit, prefetch_between_barriers(unit.module.functions[unit.kernel]))


def recomputing(unit: KernelUnit) -> KernelUnit:
    """`unit` with the indices and addresses of loops of dots computed in each iteration; `unit`
    itself if there are none."""
    from tileir.backend.transforms.rematerialize import rematerialize

    result = rematerialize(unit.module.functions[unit.kernel])
    return _with_kernel(unit, cast(Function, result.ir))


def overlapping(unit: KernelUnit) -> KernelUnit:
    """`unit` with loads between dots issued before, and independent dots started together; `unit`
    itself if there are none."""
    from tileir.backend.transforms.prefetch_between_dots import prefetch_between_dots
    from tileir.backend.transforms.start_dots_together import start_dots_together

    function = prefetch_between_dots(unit.module.functions[unit.kernel])
    return _with_kernel(unit, start_dots_together(function))


def registers_moved(before: Function, after: Function) -> int:
    """The registers of a thread that are alive for longer in `after`, in which ops of `before` have
    moved: the results of loads and dots that come before an op that they followed, in the block
    with most."""
    from tileir.ops.hopper import Wgmma  # most kernels have no dots
    from tileir.ops.memory import Load

    most = 0
    for label, block in before.blocks.items():
        places = {op: place for place, op in enumerate(block.ops)}
        moved, first = 0, len(places)
        for op in reversed(after.blocks[label].ops):
            if first < places[op] and isinstance(op, (Load, Wgmma)):
                moved += _registers_of_thread(op.results[0].type)
            first = min(first, places[op])
        most = max(most, moved)
    return most


def _registers_of_thread(kind: Any) -> int:
    """The registers that a tile with a layout fills in a thread."""
    return -(-kind.layout.size("register") * cast(int, kind.element.bits) // 32)


def _with_kernel(unit: KernelUnit, changed: Function) -> KernelUnit:
    """`unit` with `changed` as its kernel; `unit` itself if that has the same ops."""
    from tileir.backend.stage import with_function

    if changed.blocks == unit.module.functions[unit.kernel].blocks:
        return unit
    module = with_function(unit.module, changed)
    memory = SharedMemoryPlan.with_roles(module, unit.kernel, ())
    return attrs.evolve(unit, module=module, memory=memory)


_OF_OPS = {
    CodeVariant.PREFETCHED: prefetching, CodeVariant.RECOMPUTED: recomputing,
}  # fmt: skip
"""The variants with other ops than `DEPTH_FIRST`, except `OVERLAPPED`."""


@attrs.frozen(eq=False, repr=False)
class LoweredKernel:
    """A kernel before code generation: the module after every stage, the options of these, the plan
    of its shared memory, and the number of warps of a block."""

    stages: Mapping[str, Module]
    kernel: str
    options: Options
    memory: SharedMemoryPlan
    num_warps: int
    notes: tuple[Diagnostic, ...] = ()
    """Remarks of the passes."""
    registers: int | None = None
    """The most a thread may use; None for no limit."""


@collector_paused()
def run_pipeline(
    module: Module, machine: Target, options: Options, kernel: str | None, recorder: Any = None,
    *, idle_warps: bool = True,
) -> LoweredKernel:  # fmt: skip
    """The stages before code generation. Without `idle_warps`, they run again after the layouts
    show that fewer warps suffice. Raises `CompileError` as `compile` does."""
    name = _kernel(module, kernel).name
    check_tiles(module, InfeasibleError)
    check_operations(module, InfeasibleError)
    check_loops(module, InfeasibleError)
    check_dots(module, machine, options.num_warps)
    for shared in range(machine.shared_bytes, _LEAST_FOR_RINGS, -_LESS_FOR_RINGS):
        specialized = _warp_specialize(module, name, machine, options, shared, recorder)
        try:
            return _through_stages(
                module, specialized, machine, options, name, recorder, idle_warps
            )
        except CompileError as error:
            if specialized is None or not specialized.applied or error.code != "TIR0708":
                raise
    return _through_stages(module, None, machine, options, name, recorder, idle_warps)


_LEAST_FOR_RINGS, _LESS_FOR_RINGS = 128 << 10, 32 << 10
"""The shared memory for the ring buffers of a warp-specialized kernel in bytes: all that the target
has, then less by the second number, while it exceeds the first one, until the kernel's other shared
memory fits as well."""


def _through_stages(
    module: Module,
    specialized: WarpSpecializeResult | None,
    machine: Target,
    options: Options,
    name: str,
    recorder: Any,
    idle_warps: bool,
) -> LoweredKernel:
    requested, has_roles = options, specialized is not None and specialized.applied
    if has_roles:
        options = attrs.evolve(options, num_warps=None)
    context = Context(machine, options, name, max_registers=options.max_registers)
    before = module if specialized is None else specialized.module
    run = StageRun(before, name, context, recorder=recorder, roles_of=lambda context: context.roles)
    run.remarks += () if specialized is None else specialized.remarks
    run.through(UNTIL_LAYOUTS)
    if not idle_warps:
        from tileir.backend.layouts.idle_threads import fewest_warps

        warps = fewest_warps(run.function, run.context.num_warps)
        if warps < run.context.num_warps:
            fewer = attrs.evolve(requested, num_warps=warps)
            return run_pipeline(module, machine, fewer, name, recorder)
    run.through(AFTER_LAYOUTS)
    context = run.context
    memory = SharedMemoryPlan.with_roles(run.module, name, tuple(context.roles))
    notes, source = tuple(run.remarks), within(module, name)
    if _has_requests(source, name, requested):
        from tileir.backend.requests import KernelOutcome, ignored_requests

        outcome = KernelOutcome(run.module, name, has_roles, run.remarks, context.prefetched)
        notes = (*notes, *ignored_requests(source, requested, machine, outcome))
    return LoweredKernel(
        {"input": module, **run.snapshots},
        name,
        requested,
        memory,
        context.num_warps,
        notes,
        context.max_registers,
    )


def _has_requests(source: Module, kernel: str, options: Options) -> bool:
    """Whether options, or attributes of the kernel or of a loop, request something that a
    compilation may ignore (`tileir.backend.requests`)."""
    return bool(
        options != Options()
        or source.functions[kernel].attributes
        or any(
            getattr(op, "stages", None) or getattr(op, "unroll", None)
            for function in source.functions.values()
            for op in function.ops
        )
    )


def _warp_specialize(
    module: Module, name: str, machine: Target, options: Options, shared: int, recorder: Any
) -> WarpSpecializeResult | None:
    """Warp-specialize kernel `name` of `module`; None if it is not applicable. The ring buffers
    take up to `shared` bytes of shared memory."""
    attributes = module.functions[name].attributes
    if not (machine.wgmma and machine.tma) or module.stage is not None:
        return None
    if not any(has_op(f, "dot", "dot_scaled") for f in module.functions.values()):
        return None
    if not (
        attributes.get("warp_specialize", True)
        if options.warp_specialize is None
        else options.warp_specialize
    ):
        return None
    from tileir.backend.warp_specialize.options import WarpSpecializeOptions, WarpSpecializeResult

    split = cast(int, options.split_k or attributes.get("split_k", 1))
    multicast = cast(int, options.multicast or attributes.get("multicast", 1))
    if split < 2 and multicast < 2 and (remark := _why_no_roles(module)) is not None:
        return WarpSpecializeResult(module, (remark,))
    from tileir.backend.warp_specialize.driver import warp_specialize

    warps = options.num_warps or stated_warps(module.functions[name])
    persistent = (
        attributes.get(PERSISTENT, True) if options.persistent is None else options.persistent
    )
    pingpong = attributes.get("pingpong", False) if options.pingpong is None else options.pingpong
    request = WarpSpecializeOptions(
        options.ring_stages or options.num_stages or 0, warps, shared, bool(persistent),
        bool(pingpong),
        non_tma_alignments=options.non_tma_alignments,
        ordered_softmax=options.ordered_softmax is not False,
    )  # fmt: skip
    request = attrs.evolve(request, split_k=split, multicast=multicast)
    return warp_specialize(module, name, request, recorder)


def warp_specialized(
    module: Module, target: str, options: Options | Mapping[str, Any], kernel: str
) -> Module | None:
    """The module after the partition into producer and consumer warps that `compile` makes with
    these arguments; None if the kernel is not partitioned. Later stages may need more shared memory
    than the partition leaves; `compile` then uses smaller rings. Raises `CompileError`."""
    with classify_errors():
        machine, requested = target_named(target), Options.of(options)
        specialized = _warp_specialize(
            module, kernel, machine, requested, machine.shared_bytes, None
        )
        return specialized.module if specialized is not None and specialized.applied else None


def _why_no_roles(module: Module) -> Diagnostic | None:
    """A remark (TIR0653) if the kernel cannot be warp-specialized because `wgmma` does not support
    the element types of its first dot; else None."""
    function, *other_functions = module.functions.values()
    dot = next((op for op in function.ops if op.mnemonic == "dot"), None)
    if other_functions or dot is None or has_op(function, "dot_scaled"):
        return None
    from tileir.backend.layouts.wgmma import why_not_elements

    refusal = why_not_elements(cast("Dot", dot))
    if refusal is None or len(shape_of(dot.results[0].type)) != 2:
        return None
    at_dot = attrs.evolve(refusal, location=dot.location)
    return at_dot.remark("TIR0653", "not warp-specialised", function.location)


def _kernel(module: Module, name: str | None) -> Function:
    try:
        return module.kernel(name)
    except KeyError as error:
        raise CompileError(Diagnostic("TIR0707", str(error.args[0]))) from error


def metadata_of_lowered(lowered: LoweredKernel, machine: Target) -> Metadata:
    """The metadata of a lowered kernel for the launcher."""
    kernel, memory = lowered.stages["input"].functions[lowered.kernel], lowered.memory
    prepared = lowered.stages["legal"].functions[lowered.kernel]
    return metadata_of(
        kernel, prepared, lowered.stages["barriers"], machine.name, lowered.num_warps, memory.size,
        memory.dynamic,
    )  # fmt: skip
