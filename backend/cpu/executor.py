"""Running kernels on this machine's CPU, as the executor `cpu`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tileir import records
from tileir.analysis.cache import cached
from tileir.backend.cpu.compile import CpuKernel, compile as compile_kernel
from tileir.backend.cpu.waiting import may_wait
from tileir.backend.driver.spans import Span
from tileir.backend.executor import expanded, ordered
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.measuring import Candidate


@records.frozen
class CpuExecutor:
    """Native code of this machine's CPU; the default where there is no GPU."""

    name: str = "cpu"

    def takes(self, module: Module, kernel: str | None) -> bool:
        """Whether the kernel can run here: llvmlite is there, this CPU has code for all of its
        ops, and none of its instances may wait for another."""
        if importlib.util.find_spec("llvmlite") is None or may_wait(module):
            return False
        try:
            return bool(_compiled(module, kernel, checked=True).code)
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
        `tileir.backend.cpu.compile`, `threads`, and `output`, a list that printed lines are added
        to.

        Accesses are looked at before they are made (`checked = False`: not, which is faster).
        Raises `CompileError` and `LaunchError`: TIR0713 where an assertion failed, TIR0501 where an
        access would be outside of the array of the parameter that its pointer comes from.
        """
        options.setdefault("checked", True)
        threads, output = options.pop("threads", None), options.pop("output", None)
        compiled = _compiled(module, kernel, **options)
        function = module.functions[compiled.kernel]
        values = expanded(function, ordered(module, compiled.kernel, arguments))
        spans = Span.each(values)
        given = [_passed(spans.get(id(v)), v) for v in values]
        ends = {i: _ends(spans[id(v)]) for i, v in enumerate(values) if id(v) in spans}
        printed = compiled(grid, given, threads, ends)
        for span in spans.values():
            span.write_back()
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
        from tileir.backend.tuning.cpu import CpuMeter  # the tuner, for those who tune
        from tileir.backend.tuning.live import measured_here

        return measured_here(CpuMeter(), candidates, arguments, remember=remember)


def _compiled(module: Module, kernel: str | None, **options: Any) -> CpuKernel:
    """`compile` of `tileir.backend.cpu`, once for a module and options."""
    known, key = _kernels(module), (kernel, *sorted(options.items()))
    if key not in known:
        known[key] = compile_kernel(module, kernel, **options)
    return known[key]


@cached
def _kernels(module: Module) -> dict[Any, CpuKernel]:
    """What has been compiled of a module."""
    return {}


def _ends(span: Span) -> tuple[int, int]:
    first = span.data.ctypes.data
    return first, first + span.data.nbytes


def _passed(span: Span | None, value: Any) -> Any:
    return value if span is None else span.data.ctypes.data + span.offset
