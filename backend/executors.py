"""The executors `gpu` and `simt` (`tileir.executor`): they run kernels through this backend, on a
GPU or thread by thread on the CPU. Arrays are numpy's and are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from tileir.backend.array_spans import ArraySpan
from tileir.backend.compile import CompiledKernel, LoweredKernel, Options, run_pipeline
from tileir.backend.driver.device import driver
from tileir.backend.driver.gpu import gpu, gpu_target
from tileir.backend.driver.launch import LoadedKernel, StridedTensor
from tileir.backend.driver.launch_plan import as_number, plan_launch
from tileir.backend.launch_arguments import (
    by_position,
    encode_argument,
    expand_descriptors,
    extents_of,
    measures_of,
)
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disjoint import version_for
from tileir.backend.runtime.frontend_calls import FrontendKernels
from tileir.backend.runtime.jit import Jit, LaunchPlace
from tileir.backend.target import Target, target
from tileir.errors import LaunchError, TileirError
from tileir.executor import Dispatch, Done, KernelCall, Resources
from tileir.ir import Module
from tileir.measuring import Candidate

if TYPE_CHECKING:
    from tileir.backend.tma.host_plan import HostPlan


@attrs.frozen
class GpuExecutor:
    """The executor `gpu`."""

    name: str = "gpu"

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> CompiledKernel:
        """Copy arrays to the GPU, run `kernel`, wait, copy back. Options are those of `compile`,
        and `isolate`.

        Raises `CompileError` and `LaunchError`.
        """
        chosen = options.pop("target", None) or gpu_target()
        isolate = options.pop("isolate", None)
        compiled = Cache.usual().compile(
            module, chosen, Options.of(options), kernel, isolate=isolate
        )
        values = by_position(module, compiled.plan.kernel, arguments)
        cuda = driver()
        cuda.context()
        with ExitStack() as stack:
            copies = _on_gpu(stack, ArraySpan.each(values))
            described = [t.startswith("tensor_desc") for t in compiled.plan.arguments]
            passed = [
                _device_argument(copies.get(id(v)), v, d)
                for v, d in zip(values, described, strict=True)
            ]
            LoadedKernel(compiled)[grid](*passed)
            cuda.synchronize()
            for copy in copies.values():
                copy.read()
            ArraySpan.write_back(copy.span for copy in copies.values())
        return compiled

    def dispatch(
        self,
        resolve: Callable[[Any, tuple[Any, ...], dict[str, Any]], KernelCall | Done],
        positional: Sequence[str],
    ) -> Dispatch:
        """A dispatcher of calls on arrays of GPUs (see `tileir.executor.Dispatching`). Raises
        `LaunchError` (TIR0711) if there is no GPU."""
        return gpu_calls().dispatch(resolve, positional)

    def resources(self, module: Module, kernel: str | None, **options: Any) -> Resources:
        """The resources of `kernel` on the GPU, or on one of compute capability 8.0 if there is
        none. Raises `CompileError`."""
        try:
            chosen = gpu_target()
        except LaunchError:
            chosen = "sm_80"
        compiled = Cache.usual().compile(module, chosen, Options.of(options), kernel)
        plan = compiled.metadata
        return Resources(plan.registers or 0, plan.spills or 0, plan.shared, plan.num_warps)

    def wait(self) -> None:
        """Wait until all work of this thread's GPU is complete; return at once if the thread has
        not used a GPU. Raises `LaunchError` (TIR0711) for failures on the GPU."""
        cuda = driver()
        if int(cuda.check(cuda.cuda.cuCtxGetCurrent(), "cuCtxGetCurrent")):
            cuda.synchronize()

    def measure(
        self,
        candidates: Sequence[Candidate],
        arguments: Mapping[str, Any],
        *,
        remember: bool = False,
    ) -> list[float | TileirError]:
        """Seconds of each candidate, by the GPU's clock and with a cold L2 cache
        (`tileir.measuring`)."""
        from tileir.backend.measurement.at_launch import measured_here
        from tileir.backend.tuning.gpu import GpuMeter  # needed only for tuning

        launched = [
            attrs.evolve(c, module=version_for(c.module, c.kernel, arguments)) for c in candidates
        ]
        meter = attrs.evolve(GpuMeter.here(), cached=True)  # the fastest candidate is launched next
        return measured_here(meter, launched, arguments, remember=remember)


@cache
def gpu_calls() -> FrontendKernels:
    """Calls of kernels on the current GPU, compiled through the user's cache. Raises `LaunchError`
    (TIR0711) where there is no driver."""
    return FrontendKernels(gpu(), gpu_target(), LoadedKernel, Cache.usual())


def _device_argument(copy: _DeviceCopy | None, value: Any, described: bool) -> Any:
    """The argument in the form that the kernel takes: the address of the copy on the GPU, or the
    value itself."""
    if copy is None:
        return value
    return StridedTensor(copy.pointer, *measures_of(value)) if described else copy.pointer


@attrs.frozen
class SimtExecutor:
    """The executor `simt`: it runs the lowering of a kernel for all threads of a block in numpy,
    without a GPU."""

    name: str = "simt"

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> dict[str, int]:
        """Run the lowering rules of `kernel` for every thread, and return counts of what they did.

        - `seed` selects the order of warp roles and of asynchronous copies.
        - `blocks` is the number of blocks of a persistent kernel that run at once.
        - `time_limit` is in seconds.
        - `allow_races` ignores unordered accesses of two program instances.
        - `output` is a list to which printed lines are added.
        - An argument may be `tileir.interp.Within`: its pointer may reach the memory around it.
        - `counts` collects the memory accesses of each op (`tileir.backend.simt.counts.Counts`).

        Arguments that the host plan rejects are passed to the kernel without tensor maps, as on a
        GPU.

        Raises `CompileError`. Raises `LaunchError` for an error of the program, with the location
        of the op: TIR0501 for an access out of bounds, TIR0502 for a misaligned one, TIR0713 for a
        failed assertion. Raises AssertionError for a defect of the lowering: a race in shared
        memory, or a read of uninitialized shared memory.
        """
        from tileir.backend.simt import barrier_removal, machine as simt
        from tileir.backend.simt.faults import FaultError

        machine = target(options.pop("target", None) or "sm_90")
        output, counts = options.pop("output", None), options.pop("counts", None)
        options.pop("isolate", None)  # code generation is not needed
        seed, blocks = options.pop("seed", 0), options.pop("blocks", 2)
        allow_races = options.pop("allow_races", False)
        time_limit = options.pop("time_limit", None)
        extents: tuple[int, ...] = extents_of(grid)
        done = _lower(module, machine, kernel, options)
        function = module.functions[done.kernel]
        placed = by_position(module, done.kernel, arguments)
        from tileir.interp import Within  # a GPU needs no interpreter

        around = [value.memory for value in placed if isinstance(value, Within)]
        positional = [value.array if isinstance(value, Within) else value for value in placed]
        for parameter, value in zip(function.parameters, positional, strict=True):
            if not isinstance(value, np.ndarray):
                encode_argument(parameter, value)
        values = expand_descriptors(function, positional)
        if not module.stage:
            done, extents, values = planned_launch(
                module, machine, done, options, extents, values, blocks
            )
        lowered = done.stages["barriers"]
        make = simt.SimtThread if counts is None else barrier_removal.counting(counts)
        try:
            return simt.run(
                lowered, done.kernel, extents, values, machine, done.memory, done.num_warps,
                output, make, seed=seed, allow_races=allow_races, time_limit=time_limit,
                around=around,
            )  # fmt: skip
        except FaultError as error:
            raise LaunchError(error.diagnostic) from error


def planned_launch(
    module: Module, machine: Target, done: LoweredKernel, options: dict[str, Any],
    grid: tuple[int, ...], values: list[Any], blocks: int,
) -> tuple[LoweredKernel, tuple[int, ...], list[Any]]:  # fmt: skip
    """The launch that a launcher would perform for `done`, compiled with `options`, and the
    arguments `values`: the kernel for their alignments, its grid and its arguments. `blocks` is the
    number of blocks that run at once."""
    host = host_plan(done)
    if host is None:
        return done, grid, values
    spans, kernel = ArraySpan.each(values), done.kernel
    numbers = [_number(i, v, spans.get(id(v))) for i, v in enumerate(values)]
    if options.get("split_k") == 0:
        ranks = _ranks(module, done, machine, grid, numbers)
        shared = _lower(module, machine, kernel, {**options, "split_k": ranks})
        if (planned := host_plan(shared)) is not None:
            done, host = shared, planned
    plan = plan_launch(host, grid, numbers, blocks)
    units = None if plan else host.non_tma_alignments((*numbers, 1, 1, 1)[: host.arguments])
    if units is not None and options.get("non_tma_variants", True):
        done = _lower(module, machine, kernel, {**options, "non_tma_alignments": units})
        host = host_plan(done)
        plan = host and plan_launch(host, grid, numbers, blocks)
    if plan is None:
        return _lower(module, machine, kernel, {**options, "warp_specialize": False}), grid, values
    return done, plan.grid, [*values, *plan.extents]


def _lower(
    module: Module, machine: Target, kernel: str | None, options: dict[str, Any]
) -> LoweredKernel:
    return run_pipeline(module, machine, Options.of(options), kernel)


def _ranks(
    module: Module,
    done: LoweredKernel,
    machine: Target,
    grid: Sequence[int],
    numbers: Sequence[int],
) -> int:
    """The split-K factor that a launcher would choose."""
    from tileir.backend.compile import metadata_of_lowered
    from tileir.backend.performance_model.choose_split_k import best_ranks
    from tileir.backend.performance_model.cost import machine_of

    processors = machine_of(machine.name).processors
    return best_ranks(module, metadata_of_lowered(done, machine), grid, numbers, processors)


def host_plan(done: LoweredKernel) -> HostPlan | None:
    """The host plan of the kernel; None if the host computes nothing."""
    text = done.stages["barriers"].metadata.get("host.plan0")
    if text is None:
        return None
    from tileir.backend.tma.host_plan import HostPlan  # few kernels have a plan

    return HostPlan.from_text(str(text))


def _number(index: int, value: Any, span: ArraySpan | None) -> int:
    """An argument as host plans take it. An array is represented by an address that is aligned as
    its memory is."""
    return as_number(value) if span is None else (index + 1 << 40) + span.offset


@attrs.frozen(eq=False)
class _DeviceCopy:
    """A copy of the memory of a host array, on the GPU at `address`."""

    span: ArraySpan
    address: int

    @property
    def pointer(self) -> int:
        """The address of the array's first element."""
        return self.address + self.span.offset

    def read(self) -> None:
        """Copy the memory of the GPU to the span."""
        driver().to_host(self.span.data.ctypes.data, self.address, self.span.data.nbytes)


def _on_gpu(stack: ExitStack, spans: Mapping[int, ArraySpan]) -> dict[int, _DeviceCopy]:
    """Copies of memory on the GPU, freed with `stack`."""
    cuda = driver()
    addresses: dict[int, int] = {}
    for span in spans.values():
        if id(span.data) not in addresses:
            address = addresses[id(span.data)] = cuda.allocate(max(span.data.nbytes, 1))
            stack.callback(cuda.free, address)
            cuda.to_device(address, span.data.ctypes.data, span.data.nbytes)
    return {key: _DeviceCopy(span, addresses[id(span.data)]) for key, span in spans.items()}


def jit(module: Module, kernel: str | None = None, **options: Any) -> Jit:
    """Return the kernel of `module` called `kernel`, or the only one, as a `Jit` to be launched on
    GPUs.

    Options are those of the compiler, and the keywords of `Jit`. Raises CompileError and KeyError.
    """
    own = {n: options.pop(n) for n in ("do_not_specialize", "target", "cache") if n in options}
    return Jit(module, kernel, options, place=gpu_place, **own)


def gpu_place() -> LaunchPlace:
    """The GPUs of this machine. Raises `LaunchError` (TIR0711) where there is no driver."""
    return LaunchPlace(gpu(), gpu_target(), LoadedKernel)
