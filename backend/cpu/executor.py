"""Running kernels on this machine's CPU, as the executor `cpu`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.backend.cpu.compile import CpuKernel, compile as compile_kernel
from tileir.backend.driver.spans import Span
from tileir.backend.executor import expanded, ordered
from tileir.ir import Module


@attrs.frozen
class CpuExecutor:
    """Native code of this machine's CPU; the default where there is no GPU."""

    name: str = "cpu"

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> CpuKernel:
        """Compile `kernel` and run it on all processors. Options are those of
        `tileir.backend.cpu.compile`, `threads`, and `output`, a list that printed lines are added
        to.

        Raises `CompileError` and `LaunchError`. What reads or writes outside of its arrays is not
        noticed, as for any native code.
        """
        threads, output = options.pop("threads", None), options.pop("output", None)
        compiled = compile_kernel(module, kernel, **options)
        function = module.functions[compiled.kernel]
        values = expanded(function, ordered(module, compiled.kernel, arguments))
        spans = {id(v): Span.of(v) for v in values if isinstance(v, np.ndarray)}
        given = [_passed(spans.get(id(v)), v) for v in values]
        printed = compiled(grid, given, threads)
        for span in spans.values():
            span.write_back()
        if output is None:
            sys.stdout.write("".join(line + "\n" for line in printed))
        else:
            output += printed
        return compiled


def _passed(span: Span | None, value: Any) -> Any:
    return value if span is None else span.data.ctypes.data + span.offset
