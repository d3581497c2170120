"""The meter of GPUs: one process per device, timing by events, a cold L2 cache."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.backend.array_spans import ArraySpan
from tileir.backend.compile import CompiledKernel, LoweredKernel, Options, compile, run_pipeline  # noqa: A004
from tileir.backend.driver.device import driver
from tileir.backend.driver.gpu import gpu_target
from tileir.backend.driver.launch import LoadedKernel, StridedTensor
from tileir.backend.driver.timing import Stopwatch
from tileir.backend.legalize.link_inline import legalize
from tileir.backend.measurement.job import Job
from tileir.backend.measurement.meter import Artifact, Device, Survey
from tileir.backend.performance_model.cost import estimate, machine_of
from tileir.backend.performance_model.resource_use import use_of
from tileir.backend.performance_model.work import work_of
from tileir.backend.runtime.cache import Cache
from tileir.backend.target import target as target_named
from tileir.backend.tuning.launch_variant import Units, launched_variant


@attrs.frozen
class GpuMeter:
    """The GPUs of this machine as devices for measurements.

    - `target` is the target of the code. It is required if the machine has no GPU.
    - `processors` is the number of multiprocessors for the cost model, if the machine has no GPU.
    - `seconds` bounds the launches of a candidate.
    - `cached` stores machine code, so that launches after tuning need not compile.
    """

    target: str
    processors: int | None = None
    seconds: float = 0.2
    alone: bool = False
    needs_isolation: bool = True
    cached: bool = False

    @staticmethod
    def here() -> GpuMeter:
        """Return the meter for the GPUs of this machine. Raises `LaunchError` (TIR0711) if there is
        none."""
        return GpuMeter(gpu_target())

    def device(self) -> Device:
        """The name and the driver of the first GPU; no context is created on it."""
        cuda = driver()
        first = cuda.check(cuda.cuda.cuDeviceGet(0), "cuDeviceGet")
        name = cuda.check(cuda.cuda.cuDeviceGetName(128, first), "cuDeviceGetName")
        version = cuda.check(cuda.cuda.cuDriverGetVersion(), "cuDriverGetVersion")
        return Device(name.split(b"\0")[0].decode(), f"{version // 1000}.{version % 1000 // 10}")

    def places(self) -> Sequence[Mapping[str, str]]:
        """The visible GPUs of the same model as the first one."""
        cuda = driver()
        count = cuda.check(cuda.cuda.cuDeviceGetCount(), "cuDeviceGetCount")
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = visible.split(",") if visible else [str(i) for i in range(count)]
        names = [
            cuda.check(cuda.cuda.cuDeviceGetName(128, i), "cuDeviceGetName") for i in range(count)
        ]
        same = [i for i in range(count) if names[i] == names[0]]
        return [{"CUDA_VISIBLE_DEVICES": devices[i]} for i in same]

    def survey(
        self, job: Job, numbers: Mapping[str, int], footprint: float | None = None
    ) -> Survey:
        """Run the stages of the backend up to code generation, and predict the time."""
        module, machine = job.module(), target_named(self.target)
        options = Options.of(job.options)

        def make(units: Units) -> LoweredKernel:
            return run_pipeline(
                module, machine, attrs.evolve(options, non_tma_alignments=units), job.kernel
            )

        estimates = launched_variant(make, numbers)
        done = estimates.staged
        portable = legalize(module, done.kernel).functions[done.kernel]
        work = work_of(portable, job.grid, numbers)
        use = use_of(done, machine, work, estimates.maps)
        instances = int(np.prod(job.grid))
        machine_here = machine_of(self.target, self.processors)
        size = estimates.footprint if footprint is None else footprint
        return Survey(work, use, estimate(work, use, instances, machine_here, size))

    def compile(self, job: Job) -> Artifact:
        """Return the cubin."""
        start = time.perf_counter()
        module = job.module()
        make = Cache.usual().compile if self.cached else compile
        kernel = make(module, self.target, Options.of(job.options), job.kernel)
        plan, machine_code = kernel.metadata, kernel.machine_code
        bare = attrs.evolve(
            kernel,
            stages={"input": module},
            llvm="",
            ptx="",
            plan=plan,
            notes=(),
            code=machine_code,
            remarked=(),
            generate=None,
        )
        digest = hashlib.sha256(machine_code.cubin).hexdigest()[:20]
        return Artifact(
            bare, digest, plan.registers, plan.spills, plan.shared, time.perf_counter() - start
        )

    def open(self, inputs: Mapping[str, Any]) -> GpuSession:
        """Copy the arguments to the device. Raises `LaunchError`."""
        return GpuSession.on_device(inputs, self.seconds)


@attrs.frozen(eq=False)
class GpuSession:
    """A GPU with a kernel's arguments. Host arrays are copied to it; arrays on the GPU are used
    directly, and not copied back."""

    inputs: Mapping[str, Any]
    spans: Mapping[str, ArraySpan]
    addresses: Mapping[str, int]
    watch: Stopwatch
    budget: float

    @staticmethod
    def on_device(inputs: Mapping[str, Any], budget: float) -> GpuSession:
        """Copies of the arrays among `inputs`."""
        cuda = driver()
        cuda.context()
        each = ArraySpan.each(inputs.values())
        spans = {k: each[id(v)] for k, v in inputs.items() if id(v) in each}
        places = {id(s.data): s.data.nbytes for s in spans.values()}
        places = {k: cuda.allocate(max(size, 1)) for k, size in places.items()}
        addresses = {k: places[id(s.data)] for k, s in spans.items()}
        session = GpuSession(inputs, spans, addresses, Stopwatch.make(), budget)
        session.reset(spans)
        return session

    def reset(self, names: Collection[str]) -> None:
        """Restore the initial contents of arrays."""
        for name in names:
            span = self.spans[name]
            driver().to_device(self.addresses[name], span.data.ctypes.data, span.data.nbytes)

    def seconds(self, artifact: Artifact, grid: Sequence[int], launches: int) -> list[float]:
        """Seconds by events, the L2 cold."""
        launch, arguments = self._ready(artifact.code, grid)
        return self.watch.seconds(lambda: launch(*arguments), launches, self.budget)

    def results(self, artifact: Artifact, grid: Sequence[int]) -> dict[str, Any]:
        """The host arrays after one launch."""
        written = self._written_arrays(artifact.code)
        self.reset(written)
        launch, arguments = self._ready(artifact.code, grid)
        launch(*arguments)
        driver().synchronize()
        return {
            name: self._read(name, span) if name in written else span.elements
            for name, span in self.spans.items()
        }

    def _written_arrays(self, code: CompiledKernel) -> list[str]:
        return [
            p.name for p in code.plan.parameters
            if p.name in self.spans and (p.writes or p.atomics or p.escapes)
        ]  # fmt: skip

    def close(self) -> None:
        """Free the copies."""
        self.watch.close()
        for address in set(self.addresses.values()):
            driver().free(address)

    def _read(self, name: str, span: ArraySpan) -> Any:
        data = np.empty_like(span.data)
        driver().to_host(data.ctypes.data, self.addresses[name], data.nbytes)
        return attrs.evolve(span, data=data).elements

    def _ready(self, code: CompiledKernel, grid: Sequence[int]) -> tuple[Any, list[Any]]:
        """The launch, and its arguments."""
        values = [
            self._value(p.name, p.type.startswith("tensor_desc")) for p in code.plan.parameters
        ]
        return LoadedKernel(code)[tuple(grid)], values

    def _value(self, name: str, described: bool) -> Any:
        span, value = self.spans.get(name), self.inputs[name]
        if span is None:
            return value
        address = self.addresses[name] + span.offset
        if not described:
            return address
        return StridedTensor(
            address, value.shape, tuple(s // value.itemsize for s in value.strides)
        )
