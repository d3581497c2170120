"""Stages in order, as kernels and their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from tileir.builder.builder import Builder
from tileir.builder.contraction.fusion import fuse
from tileir.builder.contraction.kernel import grid_of, kernel, tensors_of
from tileir.builder.contraction.stage import ComputeStage, Tiling
from tileir.builder.contraction.terms import Tensor
from tileir.builder.contraction.tile_sizes import tiling
from tileir.builder.contraction.two_step_reduction import split_reduction
from tileir.executor import executor, on_host
from tileir.ir import Module
from tileir.types import BF16, I1, Element, Scalar


@attrs.frozen
class KernelLaunch:
    """A launch: a kernel, its grid, and the tensors that are its arguments."""

    kernel: str
    grid: int
    tensors: tuple[Tensor, ...]


@attrs.frozen(slots=False, eq=False)
class Program:
    """Stages in dependence order, and the tensors that are the results.

    `tilings` gives the tilings of some stages by their outputs. For the other stages a tiling is
    chosen, and a reduction that would occupy only few program instances is split. `fuse` inlines
    stages that need no memory of their own.
    """

    stages: tuple[ComputeStage, ...]
    outputs: tuple[Tensor, ...]
    tilings: Mapping[Tensor, Tiling] = attrs.field(factory=dict[Tensor, Tiling])
    fuse: bool = True

    @cached_property
    def kernels(self) -> tuple[ComputeStage, ...]:
        """The stages that become kernels, in order."""
        stages = fuse(self.stages, self.outputs) if self.fuse else self.stages
        parts = ((s,) if s.output in self.tilings else split_reduction(s) for s in stages)
        return tuple(stage for part in parts for stage in part)

    @cached_property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """The launches of the program, in order."""
        return self._launches_and_module[1]

    @cached_property
    def module(self) -> Module:
        """All kernels. Raises BuildError."""
        return self._launches_and_module[0]

    @cached_property
    def _launches_and_module(self) -> tuple[Module, tuple[KernelLaunch, ...]]:
        b = Builder(locations=False)
        launches: list[KernelLaunch] = []
        for number, stage in enumerate(self.kernels):
            if 0 in stage.output.shape:
                continue
            chosen = self.tilings.get(stage.output) or tiling(stage)
            name = f"k{number}_{stage.output.name}"
            kernel(b, name, stage, chosen)
            launches.append(KernelLaunch(name, grid_of(chosen), tensors_of(stage)))
        return b.module(), tuple(launches)

    def run(
        self,
        inputs: Mapping[Tensor, Any],
        on: str | None = None,
        **options: Any,
    ) -> dict[Tensor, Any]:
        """Run the program and return its outputs.

        Arguments are arrays and numbers by tensor; missing tensors are allocated. Arrays must not
        overlap. `on` is the executor; without it, the program runs on the CPU, or else in the
        interpreter. Raises TileirError.
        """
        arrays = dict(inputs)
        for launch in self.launches:
            for tensor in launch.tensors:
                if tensor not in arrays:
                    arrays[tensor] = np.zeros(tensor.shape, dtype_of(tensor.element))
            arguments = [arrays[tensor] for tensor in launch.tensors]
            where = executor(on or on_host(self.module, launch.kernel))
            where.launch(self.module, launch.kernel, (launch.grid,), arguments, **options)
        for tensor in self.outputs:
            arrays.setdefault(tensor, np.zeros(tensor.shape, dtype_of(tensor.element)))
        return {tensor: arrays[tensor] for tensor in self.outputs}


def dtype_of(element: Element) -> np.dtype[Any]:
    """Return the numpy type of arrays of `element`."""
    assert isinstance(element, Scalar)
    if element is I1:
        return np.dtype(np.bool_)
    if element is BF16:
        import ml_dtypes  # only where there are such arrays

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(f"{'float' if element.is_float else 'int'}{element.bits}")


def temporaries(program: Program, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tensors between kernels, which are neither inputs nor outputs."""
    tensors = dict.fromkeys(t for launch in program.launches for t in launch.tensors)
    return tuple(t for t in tensors if t not in inputs and t not in program.outputs)
