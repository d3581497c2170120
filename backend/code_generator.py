"""Generation of the code of a kernel, and of its variants: LLVM IR and PTX."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import attrs

from tileir.backend.nvptx.emit import KernelUnit, emit_kernel, join_kernels
from tileir.backend.nvptx.llvm_codegen import to_ptx
from tileir.backend.options import CodeVariant, Options, llvm_libraries
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.target import Target

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
        first = self.depth_first
        if variant is CodeVariant.DEPTH_FIRST:
            return first
        if variant in _OF_LLVM:
            return first._replace(ptx=self._ptx(first.llvm, variant))
        unit = attrs.evolve(self.unit, variant=variant)
        if variant is CodeVariant.PREFETCHED:
            unit = prefetching(unit)
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


def prefetching(unit: KernelUnit) -> KernelUnit:
    """`unit` with the loads of loops one iteration ahead; `unit` itself if there are none that may
    be."""
    from tileir.backend.stage import with_function
    from tileir.backend.transforms.prefetch_between_barriers import prefetch_between_barriers

    function = unit.module.functions[unit.kernel]
    changed = prefetch_between_barriers(function)
    if changed.blocks == function.blocks:
        return unit
    module = with_function(unit.module, changed)
    memory = SharedMemoryPlan.with_roles(module, unit.kernel, ())
    return attrs.evolve(unit, module=module, memory=memory)
