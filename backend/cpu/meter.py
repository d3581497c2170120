"""Measuring on this machine's CPU, by the executor `cpu`."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tileir.backend import cpu
from tileir.backend.array_spans import ArraySpan
from tileir.backend.cpu.compile import CpuKernel, compile  # noqa: A004
from tileir.backend.cpu.thread_pool import processors
from tileir.backend.launch_arguments import by_position, expand_descriptors
from tileir.backend.legalize.link_inline import legalize
from tileir.backend.measurement.job import Job
from tileir.backend.measurement.meter import Artifact, Device, Survey
from tileir.backend.performance_model.work import work_of
from tileir.ir import Module


@attrs.frozen
class CpuMeter:
    """The CPU as a device for measurements.

    `threads` is the number of threads; None for one per processor. `seconds` is the time limit for
    the launches of a candidate. There is no cost model for CPUs.
    """

    threads: int | None = None
    seconds: float = 0.5
    alone: bool = True
    needs_isolation: bool = True

    def device(self) -> Device:
        """The name of the processor with the number of threads, and a digest of the code
        generator."""
        name = f"{_processor()} x{self.threads or processors()}"
        return Device(name, f"{platform.system()} {_sources()}")

    def places(self) -> Sequence[Mapping[str, str]]:
        """A single place, since measurements in parallel would compete for processors."""
        return [{}]

    def survey(
        self, job: Job, numbers: Mapping[str, int], footprint: float | None = None
    ) -> Survey:
        """Return the estimated work of a candidate, without a prediction of its time."""
        module = job.module()
        name = module.kernel(job.kernel).name
        return Survey(work_of(legalize(module, name).functions[name], job.grid, numbers))

    def compile(self, job: Job) -> Artifact:
        """Generate LLVM IR, which reports infeasible candidates. The machine code is generated in
        the process that runs it."""
        start, module = time.perf_counter(), job.module()
        kernel = compile(module, job.kernel, **job.options)
        digest = hashlib.sha256(kernel.llvm.encode()).hexdigest()[:20]
        code = (module, kernel.kernel, dict(job.options))
        return Artifact(code, digest, compiling=time.perf_counter() - start)

    def open(self, inputs: Mapping[str, Any]) -> CpuSession:
        """Copy the arguments, and return a session on the copies."""
        return CpuSession(inputs, self.threads, self.seconds)


@attrs.frozen(eq=False)
class CpuSession:
    """The CPU with the arguments of a kernel."""

    inputs: Mapping[str, Any]
    threads: int | None
    budget: float
    _ready: dict[str, CpuKernel] = attrs.field(init=False, factory=dict)

    def seconds(self, artifact: Artifact, grid: Sequence[int], launches: int) -> list[float]:
        """Seconds of each launch, after one launch that is not counted."""
        kernel, values, _ = self._prepare(artifact)
        first = self._time(kernel, grid, values)
        count = max(min(launches, 3), min(launches, int(self.budget / max(first, 1e-7))))
        return [self._time(kernel, grid, values) for _ in range(count)]

    def results(self, artifact: Artifact, grid: Sequence[int]) -> dict[str, Any]:
        """Every array after one launch."""
        kernel, values, spans = self._prepare(artifact)
        kernel(tuple(grid), values, self.threads)
        return {name: span.elements for name, span in spans.items()}

    def close(self) -> None:
        """Drop the loaded code."""
        self._ready.clear()

    def _time(self, kernel: CpuKernel, grid: Sequence[int], values: Sequence[Any]) -> float:
        start = time.perf_counter()
        kernel(tuple(grid), values, self.threads)
        return time.perf_counter() - start

    def _prepare(self, artifact: Artifact) -> tuple[CpuKernel, list[Any], dict[str, ArraySpan]]:
        """The kernel, its arguments as arrays and numbers, and their backing memory."""
        module, name, options = artifact.code
        kernel = self._kernel(artifact.digest, module, name, options)
        by_array = ArraySpan.each(self.inputs.values())
        spans = {k: by_array[id(v)] for k, v in self.inputs.items() if id(v) in by_array}
        function = module.functions[name]
        mine = {str(p.name): self.inputs[str(p.name)] for p in function.parameters}
        passed = expand_descriptors(function, by_position(module, name, mine))
        values = [by_array[id(v)].elements if id(v) in by_array else v for v in passed]
        return kernel, values, spans

    def _kernel(self, digest: str, module: Module, name: str, options: Any) -> CpuKernel:
        if digest not in self._ready:
            self._ready.clear()
            self._ready[digest] = compile(module, name, **options)
        return self._ready[digest]


def _processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _sources() -> str:
    """A digest of the sources that only the CPU target uses."""
    digest = hashlib.sha256()
    for path in sorted(Path(cpu.__path__[0]).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
