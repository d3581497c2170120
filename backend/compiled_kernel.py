"""A compiled kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from tileir.backend.metadata import Metadata
from tileir.backend.options import CodeVariant, Options, llvm_libraries, ptx_libraries
from tileir.backend.target import Target, target as target_named
from tileir.errors import CompileError, Diagnostic, Location, classify_errors, escape
from tileir.ir import Module
from tileir.limits import Limits, limits
from tileir.passmanager.registry import remark

if TYPE_CHECKING:
    from tileir.backend.assembler import Assembled
    from tileir.backend.register_limit import RegisterChoice
    from tileir.backend.tma.host_plan import HostPlan

STAGES = (
    "input", "legal", "strip_mined", "pipelined", "halo", "full_tiles", "layouts", "allocated",
    "barriers",
)  # fmt: skip
"""The stages after which the module of a compiled kernel is available."""

_BOUNDED = (".maxnreg", ".minnctapersm", "setmaxnreg")
"""Text in the PTX of kernels whose registers are already bounded."""

_DOTS_OF_WARPS = "mma.sync"
"""Text in the PTX of kernels with dots that single warps compute."""

_DOTS_OF_WARPGROUPS = "wgmma.mma_async"
"""Text in the PTX of kernels with dots that warpgroups compute."""

_LONG = 1 << 17
"""Characters of PTX above which a kernel is assembled once unless it spills: it takes seconds."""


@attrs.frozen(slots=False, eq=False)
class CompiledKernel:
    """A compiled kernel: LLVM IR as generated, PTX, and the cubin on demand.

    `tileir.backend.runtime.format` writes it to bytes and reads it from them.
    """

    stages: Mapping[str, Module]
    """The module after each stage (`STAGES`)."""
    llvm: str
    """The LLVM IR as generated."""
    ptx: str
    """The PTX of the kernel."""
    plan: Metadata
    """`metadata` without the registers and spills, which the assembler determines."""
    libraries: tuple[str, ...] = ()
    """Texts of PTX or LLVM IR with functions that the kernel calls."""
    notes: tuple[Diagnostic, ...] = ()
    """Remarks of the passes."""
    limited: bool = False
    """Whether the compiler has chosen the limit of registers, and drops it if registers are
    spilled."""
    options: Options = attrs.field(factory=Options)
    code: Assembled | None = None
    """`machine_code`, if it is known already."""
    remarked: tuple[Diagnostic, ...] | None = None
    """`remarks`, if they are known already."""
    without_maps: CompiledKernel | None = None
    """`fallback`, if it is known already."""
    isolate: bool = attrs.field(default=False, kw_only=True)
    """Whether the kernel is assembled in a separate process."""
    recompile: Callable[..., CompiledKernel] = attrs.field(kw_only=True)
    """The function that compiles the program with other options when a variant is first launched:
    `tileir.backend.compile`."""

    generate: Callable[[CodeVariant], tuple[str, str, bool]] | None = attrs.field(
        default=None, kw_only=True
    )
    """The function that generates LLVM IR and PTX of a variant; None for a kernel that was
    loaded."""
    is_reordered: bool = attrs.field(default=False, kw_only=True)
    """Whether the instructions of `ptx` are not in the order of the program."""
    moved_registers: int | None = attrs.field(default=None, kw_only=True)
    """If `ptx` is that of the variant `OVERLAPPED`, the registers of a thread that are alive for
    longer than with `DEPTH_FIRST`."""

    def __str__(self) -> str:
        plan = self.plan
        warps = f"{plan.num_warps} warp{'s' * (plan.num_warps != 1)}"
        return (
            f"{escape(plan.kernel)} for {plan.target}: {warps}, "
            f"{plan.shared} bytes of shared memory, {len(self.ptx.splitlines())} lines of PTX"
        )

    def __repr__(self) -> str:
        return f"<compiled {self}>"

    def _repr_html_(self) -> str:
        from tileir.backend.html import kernel_html  # needed only in notebooks

        return kernel_html(self)

    @cached_property
    def optimized_llvm(self) -> str:
        """The optimized LLVM IR from which PTX is generated. It is computed on demand, which needs
        llvmlite."""
        from tileir.backend.nvptx.llvm_codegen import (
            optimized_ir,  # kernels that were read from a file need no LLVM
        )

        machine, level = target_named(self.plan.target), self.options.opt_level
        arguments = self.llvm, machine, level, llvm_libraries(self.libraries)
        if not self.isolate:
            return optimized_ir(*arguments)
        return self._run_isolated("optimisation", optimized_ir, *arguments)

    @cached_property
    def host(self) -> HostPlan | None:
        """The plan of the host for a launch; None if there is none."""
        plans = [str(step.value) for step in self.plan.host_plan if step.kind == "plan"]
        if not plans:
            return None
        from tileir.backend.tma.host_plan import HostPlan  # few kernels have one

        return HostPlan.from_text(plans[0])

    @cached_property
    def fallback(self) -> CompiledKernel | None:
        """The kernel without tensor maps, for arguments that the host plan rejects; None if the
        program itself has tensor maps. Raises `CompileError`."""
        if self.without_maps is not None or self.host is None:
            return self.without_maps
        return self._variant(warp_specialize=False)

    def non_tma_variant(self, units: tuple[int, ...]) -> CompiledKernel | None:
        """The variant of the kernel for tensors that tensor maps cannot describe.

        `units` are the alignments that `HostPlan.non_tma_alignments` returns. The variant is
        compiled on first use; it is None if the kernel is not warp-specialized, or compiled
        without such variants. Raises `CompileError`.
        """
        if units not in self._non_tma_variants:
            self._non_tma_variants[units] = self._compile_non_tma(units)
        return self._non_tma_variants[units]

    @cached_property
    def _non_tma_variants(self) -> dict[tuple[int, ...], CompiledKernel | None]:
        return {}

    def _compile_non_tma(self, units: tuple[int, ...]) -> CompiledKernel | None:
        if self.options.non_tma_alignments or not self.options.non_tma_variants:
            return None
        variant = self._variant(non_tma_alignments=units)
        return None if variant is None or variant.host is None else variant

    def split_k_variant(self, ranks: int) -> CompiledKernel | None:
        """The variant of the kernel with split-K over the `ranks` blocks of a cluster.

        The variant is compiled on first use; it is None if the dots cannot be split. Raises
        `CompileError`.
        """
        if ranks not in self._split_k_variants:
            variant = self._variant(split_k=ranks)
            divided = variant is not None and variant.plan.cluster[0] == ranks
            self._split_k_variants[ranks] = variant if divided else None
        return self._split_k_variants[ranks]

    @cached_property
    def _split_k_variants(self) -> dict[int, CompiledKernel | None]:
        return {}

    def _variant(self, **options: Any) -> CompiledKernel | None:
        """The program compiled with `options` in place of its own; None if the source module is not
        available. Raises `CompileError`."""
        source = self.stages.get("input")
        if source is None or source.stage is not None:
            return None
        chosen, name = attrs.evolve(self.options, **options), self.plan.kernel
        return self.recompile(source, self.plan.target, chosen, name, isolate=self.isolate)

    @cached_property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """Remarks (severity `REMARK`), each with its location: those of passes, those about memory
        accesses of the kernel, and those about spills of its machine code."""
        if self.remarked is not None:
            return self.remarked
        # imported on demand, so that compilation does not pay for it
        from tileir.backend.remarks import access_remarks

        laid_out = self.stages["layouts"].functions[self.plan.kernel]
        return tuple(
            dict.fromkeys((*self.notes, *access_remarks(laid_out), *self._spill_remarks()))
        )

    def _spill_remarks(self) -> Iterator[Diagnostic]:
        """Yield a remark about spilled registers (TIR0759), if an assembler is installed that
        counts them."""
        try:
            code = self.machine_code
        except CompileError:
            return
        if code.spills:
            message = f"{code.spills} bytes of registers are spilled by each thread"
            message += f", which has {code.registers}: use smaller tiles or more warps"
            yield remark("TIR0759", message, self._place)

    def tir_at(self, stage: str) -> Module:
        """Return the module after `stage`, one of `STAGES`. Raises KeyError."""
        return self.stages[stage]

    @cached_property
    def machine_code(self) -> Assembled:
        """The machine code and its resources. Raises `CompileError`."""
        if self.code is not None:
            return self.code
        with classify_errors():
            return self._assemble()

    def _assemble(self) -> Assembled:
        code = self._assembled_from(self.ptx)
        if code.spills and self.limited:
            return self._assembled_from(re.sub(r"\.maxnreg \d+", "", self.ptx))
        return self._best_of_bounds(code)

    def _best_of_bounds(self, code: Assembled) -> Assembled:
        """`code`, or machine code that is estimated to be faster: of the same PTX with another
        register limit, or of another variant of the code (`tileir.backend.register_limit`)."""
        last = self.stages.get("barriers")
        bounded = any(word in self.ptx for word in _BOUNDED)
        unlikely = not code.spills and (bounded or len(self.ptx) > _LONG)
        if unlikely or last is None or self.libraries:
            return code
        from tileir.backend.ptxas import ptxas

        if ptxas() is None:
            return code
        from tileir.analysis.divided_loops import divides_its_loops, is_persistent
        from tileir.analysis.loops import loops
        from tileir.backend.gpu_models import machine_of
        from tileir.backend.register_limit import RegisterChoice, is_recurrence

        plan, shared = self.plan, max(self.plan.shared, code.shared)
        warpgroups = _DOTS_OF_WARPGROUPS in self.ptx
        dots, function = warpgroups or _DOTS_OF_WARPS in self.ptx, last.functions[plan.kernel]
        alone = is_persistent(function) if dots else divides_its_loops(function)
        alone = alone or is_recurrence(function, 32 * plan.num_warps)
        machine = machine_of(plan.target)
        choice = RegisterChoice(machine, plan.num_warps, shared, alone, dots, bounded, warpgroups)
        best = choice.best(self.ptx, code, self._assembled_from)
        if best.spills and not code.spills:  # around loops: a variant without would gain less
            return best
        if self.generate is None:
            return best
        if self.moved_registers is not None:
            if best is not code or not choice.may_be_smaller(code, self.moved_registers):
                return best
            separate = self._depth_first()
            other = separate._assembled_from(separate.ptx)
            is_better = choice.better_overlapped(other, code) is other
            return separate._best_of_bounds(other) if is_better else code
        has_loops = bool(loops(function).by_header)
        variants = self._variants(has_loops, dots, bounded)
        if best is not code and not best.spills:
            # A limit has gained: other orders gain more only with fewer of the registers that it
            # has added.
            limit = choice.variant_limit(CodeVariant.UNREDUCED, best)
            has_added = limit is not None and limit > code.registers
            kept = (
                CodeVariant.PREFETCHED, CodeVariant.RECOMPUTED, *[CodeVariant.UNREDUCED] * has_added
            )  # fmt: skip
            variants = [variant for variant in variants if variant in kept]
        # All variants that may spill less are compared before one is assembled.
        groups = [tuple(variants)] if best.spills else [(variant,) for variant in variants]
        for group in groups:
            better = self._better_of(choice, best, group)
            if better is not best:
                return better
        return best

    def _depth_first(self) -> CompiledKernel:
        """The kernel with the code of `DEPTH_FIRST`."""
        assert self.generate is not None
        llvm, ptx, is_reordered = self.generate(CodeVariant.DEPTH_FIRST)
        return attrs.evolve(
            self, llvm=llvm, ptx=ptx, is_reordered=is_reordered, moved_registers=None
        )

    def _variants(self, has_loops: bool, dots: bool, bounded: bool) -> list[CodeVariant]:
        """The variants of this kernel, except `OVERLAPPED`, first those that gain most."""
        from tileir.backend.register_limit import steps_addresses

        applicable = {
            CodeVariant.RECOMPUTED: has_loops and not bounded and _DOTS_OF_WARPS in self.ptx,
            CodeVariant.PREFETCHED: has_loops and not bounded,
            CodeVariant.ALTERNATING: not dots,
            CodeVariant.PROGRAM_ORDER: self.is_reordered,
            CodeVariant.UNREDUCED: has_loops and steps_addresses(self.ptx),
            CodeVariant.SCHEDULED: True,
        }
        return [variant for variant, applies in applicable.items() if applies]

    def _better_of(
        self, choice: RegisterChoice, best: Assembled, variants: tuple[CodeVariant, ...]
    ) -> Assembled:
        """The better one of `best` and the code of the likeliest of `variants`."""
        assert self.generate is not None
        worthwhile = [v for v in variants if choice.may_gain(v, best)]
        texts = {variant: self.generate(variant)[1] for variant in worthwhile}
        likely = choice.likeliest(self.ptx, texts, best)
        return best if likely is None else choice.of_variant(likely, best, self._assembled_from)

    def _assembled_from(self, ptx: str) -> Assembled:
        from tileir.backend.assembler import assemble

        machine = target_named(self.plan.target)
        arguments = ptx, self.plan.kernel, machine, ptx_libraries(self.libraries)
        try:
            if not self.isolate:
                return assemble(*arguments)
            return self._run_isolated("assembly", assemble, *arguments)
        except CompileError as error:
            if error.code != "TIR0705" or not self._has_code_of_others:
                raise
            message = (
                f"the assembler refuses code that was permitted: {error.diagnostics[0].message}"
            )
            raise CompileError(Diagnostic("TIR0719", message, self._place)) from error

    def _run_isolated(self, stage: str, function: Any, *arguments: Any) -> Any:
        """The result of `function` on `arguments` in another process, to which the target is sent
        as a `MachineTarget`."""
        from tileir.backend.isolation import MachineTarget, Task, run

        arguments = tuple(MachineTarget.of(x) if isinstance(x, Target) else x for x in arguments)
        with limits(Limits.of(dict(self.options.limits))):
            return run(Task(self.plan.kernel, stage, self._place), function, *arguments)

    @property
    def _has_code_of_others(self) -> bool:
        from tileir.backend.legal import brings_code

        source = self.stages.get("input")
        functions = () if source is None else source.functions.values()
        return bool(self.libraries) or any(brings_code(op) for f in functions for op in f.ops)

    @property
    def _place(self) -> Location | None:
        """The location of the kernel's definition, if it is known."""
        source = self.stages.get("input")
        return None if source is None else source.functions[self.plan.kernel].location

    @property
    def cubin(self) -> bytes:
        """The machine code. Raises `CompileError` if nvJitLink is missing or rejects the code."""
        return self.machine_code.cubin

    @cached_property
    def metadata(self) -> Metadata:
        """The interface of the kernel, with its registers and spills. Raises `CompileError` as
        `cubin` does."""
        code = self.machine_code
        return attrs.evolve(
            self.plan, registers=code.registers, spills=code.spills, stack=code.stack
        )
