"""The result of `kernel.warmup`: the compiled kernel, with its resources, which can be launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs

from tileir import Module
from tileir.executor import Describing, Resources, executor
from tileir.frontends.triton.errors import launch_error


class Attributes(dict[str, Any]):
    """Metadata of a module, with the resources of the compiled kernel as attributes."""

    owner: WarmKernel | None = None

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self._resources().shared

    @property
    def num_warps(self) -> int:
        """Warps of a block."""
        return self._resources().num_warps

    def _resources(self) -> Resources:
        assert self.owner is not None
        return self.owner.resources


class WarmKernel(Module):
    """A module of a kernel for one specialization. `n_regs`, `n_spills` and `metadata.shared` are
    those on the GPU, or on one of compute capability 8.0 if there is none."""

    _launch: Callable[..., Any]
    _constants: dict[str, Any]
    _resources: Resources | None

    @staticmethod
    def of(module: Module, launch: Callable[..., Any], constants: dict[str, Any]) -> WarmKernel:
        """`module`, launched by `launch(*arguments, grid=..., **named)` with `constants` as
        the arguments of their names where these are not given."""
        fields: dict[str, Any] = {f.name: getattr(module, f.name) for f in attrs.fields(Module)}
        attributes = Attributes(module.metadata)
        fields["metadata"] = attributes
        warm_kernel = WarmKernel(**fields)
        for name, value in (("_launch", launch), ("_constants", constants), ("_resources", None)):
            object.__setattr__(warm_kernel, name, value)
        attributes.owner = warm_kernel
        return warm_kernel

    def __reduce__(self) -> Any:
        """Pickling keeps only the module."""
        fields = {f.name: getattr(self, f.name) for f in attrs.fields(Module)}
        return _module, ({**fields, "metadata": dict(self.metadata)},)

    def _init_handles(self) -> None:
        """Compile the kernel."""
        _ = self.resources

    @property
    def resources(self) -> Resources:
        """The resources of the kernel. Raises CompileError, and LaunchError if there is no backend
        for GPUs."""
        if self._resources is None:
            gpu: Any = executor("gpu")
            if not isinstance(gpu, Describing):
                raise launch_error("the executor for GPUs does not report the resources of kernels")
            object.__setattr__(self, "_resources", gpu.resources(self, None))
        return cast(Resources, self._resources)

    @property
    def n_regs(self) -> int:
        """Registers of a thread."""
        return self.resources.registers

    @property
    def n_spills(self) -> int:
        """Spilled bytes of a thread."""
        return self.resources.spills

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for `grid`; arguments as for the kernel, constants may be left out."""

        def launch(*arguments: Any, **keywords: Any) -> Any:
            return self._launch(arguments, {**keywords, "grid": grid}, self._constants)

        return launch


def _module(fields: dict[str, Any]) -> Module:
    return Module(**fields)
