"""Running kernels on this machine's CPU, as the executor `cpu`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.analysis import memoize
from tileir.backend.array_spans import ArraySpan
from tileir.backend.cpu.compile import COMPILING, CpuKernel, compile as compile_kernel
from tileir.backend.cpu.spin_waits import may_spin_wait
from tileir.backend.launch_arguments import by_position, expand_descriptors, extents_of
from tileir.errors import InfeasibleError, TileirError
from tileir.ir import Module
from tileir.limits import current
from tileir.measuring import Candidate


@attrs.frozen
class CpuExecutor:
    """The executor `cpu`: native code of this machine's CPU. It is the default if there is no
    GPU."""

    name: str = "cpu"

    def takes(self, module: Module, kernel: str | None) -> bool:
        """Whether the kernel can run here: llvmlite is installed, the CPU target supports all ops,
        and no instance may wait for another one. True for a kernel that exceeds a limit: its launch
        raises the error."""
        if importlib.util.find_spec("llvmlite") is None or may_spin_wait(module):
            return False
        try:
            return bool(_compile_cached(module, kernel).code)
        except InfeasibleError:
            return True
        except TileirError:
            return False

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> CpuKernel:
        """Compile `kernel` and run it on all processors. Options are those of
        `tileir.backend.cpu.compile`; `threads`, `memory` and `time_limit`, as for `CpuKernel`; and
        `output`, a list to which printed lines are appended. Arrays are read and written in place,
        except those that are not aligned to their elements: the elements that the kernel changed
        are copied back.

        Accesses are checked before they are made, unless `checked` is False, which is faster.
        Raises `CompileError`, and `LaunchError` as `CpuKernel` does.
        """
        threads, output = options.pop("threads", None), options.pop("output", None)
        launching = {n: options.pop(n) for n in ("memory", "time_limit") if n in options}
        extents = extents_of(grid)
        compiled = _compile_cached(module, kernel, **options)
        function = module.functions[compiled.kernel]
        values = expand_descriptors(function, by_position(module, compiled.kernel, arguments))
        spans = ArraySpan.each(v for v in values if _is_copied(v, compiled.checked))
        passed = [spans[id(v)].elements if id(v) in spans else v for v in values]
        printed = compiled(extents, passed, threads, **launching)
        ArraySpan.write_back(spans.values())
        if output is None:
            sys.stdout.write("".join(line + "\n" for line in printed))
        else:
            output += printed
        return compiled

    def measure(
        self,
        candidates: Sequence[Candidate],
        arguments: Mapping[str, Any],
        *,
        remember: bool = False,
    ) -> list[float | TileirError]:
        """Seconds of each candidate by the host's clock (`tileir.measuring`)."""
        from tileir.backend.cpu.meter import CpuMeter  # imported only for tuning
        from tileir.backend.measurement.at_launch import measured_here

        return measured_here(CpuMeter(), candidates, arguments, remember=remember)


def _compile_cached(module: Module, kernel: str | None, **options: Any) -> CpuKernel:
    """`compile` of `tileir.backend.cpu`, cached by module, limits and options."""
    kernels, key = _kernels(module), (kernel, current(), *sorted(options.items()))
    if key not in kernels:
        with COMPILING:
            if key not in kernels:
                kernels[key] = compile_kernel(module, kernel, **options)
    return kernels[key]


@memoize
def _kernels(module: Module) -> dict[Any, CpuKernel]:
    """The compiled kernels of a module."""
    return {}


def _is_copied(value: Any, checked: bool) -> bool:
    """Whether a launch works on a copy of `value`: an array with misaligned elements, or a
    read-only one if accesses are not checked."""
    if not isinstance(value, np.ndarray):
        return False
    return not value.flags.aligned or not (checked or value.flags.writeable)
