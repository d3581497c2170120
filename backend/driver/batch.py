"""Many kernels in one module of machine code: LLVM and the assembler run once, and one module is
loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from tileir.backend.assembler import Assembled, assemble
from tileir.backend.compile import Metadata, Options, metadata_of_lowered, run_pipeline
from tileir.backend.driver.device import CudaDriver, driver
from tileir.backend.driver.launch import pack
from tileir.backend.nvptx.emit import KernelText, KernelUnit, emit_kernel, join_kernels
from tileir.backend.nvptx.llvm_codegen import to_ptx
from tileir.backend.target import Target, target as target_named
from tileir.errors import TileirError
from tileir.ir import Module

Array = np.ndarray[Any, Any]


@attrs.frozen(slots=False, eq=False)
class Batch:
    """Kernels by name: the plan of each, and the reasons why others were rejected."""

    ptx: str
    target: Target
    plans: Mapping[str, Metadata]
    refused: Mapping[str, TileirError]

    @cached_property
    def machine_code(self) -> Assembled:
        """The machine code of all kernels. Raises `CompileError`."""
        return assemble(self.ptx, "batch", self.target)


def compile_batch(
    modules: Sequence[Module], target: str, options: Sequence[Options] | None = None
) -> Batch:
    """Compile the only kernel of each of `modules`. The names of the kernels must be distinct."""
    machine = target_named(target)
    chosen = options or [Options()] * len(modules)
    parts: list[KernelText] = []
    plans: dict[str, Metadata] = {}
    refused: dict[str, TileirError] = {}
    for module, each in zip(modules, chosen, strict=True):
        name = module.kernel().name
        try:
            done = run_pipeline(module, machine, each, None)
            unit = KernelUnit(
                done.stages["barriers"], name, done.memory, done.num_warps, done.registers
            )
            parts.append(emit_kernel(unit, machine, len(parts)))
        except TileirError as error:
            refused[name] = error
            continue
        plans[name] = metadata_of_lowered(done, machine)
    ptx = to_ptx(join_kernels(parts), machine) if parts else ""
    return Batch(ptx, machine, plans, refused)


@attrs.define(eq=False)
class Loaded:
    """A batch on the GPU."""

    batch: Batch
    cuda: CudaDriver = attrs.field(factory=driver)
    _module: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.cuda.context()
        load = self.cuda.cuda.cuModuleLoadData(self.batch.machine_code.cubin)
        self._module = self.cuda.check(load, "cuModuleLoadData")

    def launch(self, name: str, grid: Sequence[int], arguments: Sequence[Any]) -> None:
        """Run one kernel on copies of numpy arrays, wait, and copy back."""
        plan, buffers = self.batch.plans[name], list[int]()
        values = [
            self._device_buffer(buffers, a) if isinstance(a, np.ndarray) else a for a in arguments
        ]
        try:
            self._run(plan, grid, values)
            for array, address in zip(arguments, values, strict=True):
                if isinstance(array, np.ndarray):
                    contiguous = np.empty(array.shape, array.dtype)
                    self.cuda.to_host(contiguous.ctypes.data, address, contiguous.nbytes)
                    array[...] = contiguous
        finally:
            for address in buffers:
                self.cuda.free(address)

    def _device_buffer(self, buffers: list[int], array: Array) -> int:
        address = self.cuda.allocate(max(array.nbytes, 1))
        buffers.append(address)
        contiguous = np.ascontiguousarray(array)
        self.cuda.to_device(address, contiguous.ctypes.data, contiguous.nbytes)
        return address

    def _run(self, plan: Metadata, grid: Sequence[int], values: Sequence[Any]) -> None:
        name = plan.symbol.encode()
        handle = self.cuda.cuda.cuModuleGetFunction(self._module, name)
        function = self.cuda.check(handle, "cuModuleGetFunction")
        if plan.dynamic:
            self.cuda.allow_shared(function, plan.shared)
        shared = plan.shared if plan.dynamic else 0
        packed = pack(plan.parameters, values)
        self.cuda.launch(function, plan.blocks(grid), plan.num_warps * 32, shared, 0, packed)
        self.cuda.synchronize()
