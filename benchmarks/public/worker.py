"""A process of `measure.py`, in which one compiler builds all kernels of Triton.

worker.py build NAME...       compiles the kernels of cases into Triton's cache; needs no GPU
worker.py warm NAME...        the same by running them, for torch.compile
worker.py run DIRECTORY       for each name on the standard input, runs the case and writes what
                              it finds to DIRECTORY/NUMBER.json; for `graphs`, times the short
                              kernels of the last case in graphs
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import graphs

SAMPLED = 1 << 17
"""Elements of a result that the other compiler's are compared with."""
FLUSHED = 256 << 20
"""Bytes written before a run, so that nothing of its data is in the L2 cache."""
ASLEEP = 1_500_000
"""Cycles that the GPU sleeps before a kernel that an autotuner times: longer than a launch."""


def build(names: list[str]) -> None:
    from collect import few_configurations, time_limit
    from fake_gpu import fake_gpu

    with fake_gpu():
        few_configurations(int(os.environ["PUBLIC_CONFIGS"]))
        from cases import all_cases

        cases = all_cases()
        for name in names:
            try:
                with time_limit(60):
                    cases[name]("cuda").run()
            except Exception as error:
                print(
                    f"building {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr
                )


def warm(names: list[str]) -> None:
    """Compile cases by running them once on the GPU."""
    import torch  # type: ignore[import-not-found]
    from cases import all_cases
    from collect import time_limit

    few_settings()
    cases = all_cases()
    for name in names:
        try:
            with time_limit(60):
                cases[name]("cuda").run()
        except Exception as error:
            print(f"warming {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        torch._dynamo.reset()


def few_settings() -> None:
    """Autotuners try few configurations, and torch.compile launches kernels as Triton does."""
    import torch._inductor.config as inductor  # type: ignore[import-not-found]
    from collect import few_configurations

    few_configurations(int(os.environ["PUBLIC_CONFIGS"]))
    time_kernels_alone()
    for setting in ("use_static_cuda_launcher", "use_static_triton_launcher"):
        if hasattr(inductor, setting):
            setattr(inductor, setting, False)
    inductor.autotune_local_cache = False  # times of the processes that share a GPU to warm caches


def time_kernels_alone() -> None:
    """Autotuners choose by the time of the kernels alone. Their own timers record an event before
    and after a launch. Where the launch takes longer than what the GPU does meanwhile, they time
    the launch, and the configuration of a short kernel is chosen by chance."""
    import triton.testing  # type: ignore[import-not-found]
    from torch._inductor.runtime.benchmarking import (  # type: ignore[import-not-found]
        InductorBenchmarker,
    )

    def do_bench(call, *_, quantiles=None, return_mode="mean", **__):
        times = times_on_device(call)
        median = statistics.median(times)
        return [median] * len(quantiles) if quantiles else times if return_mode == "all" else median

    def benchmark_gpu(_benchmarker, call, *_, return_mode="min", **__):
        times = times_on_device(call)
        return times if return_mode == "all" else statistics.median(times)

    triton.testing.do_bench = do_bench
    InductorBenchmarker.benchmark_gpu = benchmark_gpu


def times_on_device(call, repetitions: int = 7) -> list[float]:
    """Milliseconds of the kernels of a call, each time with a cold L2 cache. The GPU sleeps while
    the processor launches them."""
    import torch  # type: ignore[import-not-found]

    call()
    buffer = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in "se"] for _ in range(repetitions)]
    for start, end in pairs:
        buffer.fill_(1)
        torch.cuda._sleep(ASLEEP)
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


class Launched:
    """The kernels that are launched while `watching`, by name. A `recorder` launches them."""

    def __init__(self) -> None:
        from triton.compiler.compiler import CompiledKernel  # type: ignore[import-not-found]

        self.kernels: dict[str, dict[str, Any]] = {}
        self.watching = False
        self.recorder: Any = None
        own, calls = CompiledKernel.run.fget, {}

        def run(kernel):
            launch = own(kernel)
            if id(launch) not in calls:
                calls[id(launch)] = launch, self.notes_launches(kernel, launch)
            return calls[id(launch)][1]

        CompiledKernel.run = property(run)

    def notes_launches(self, kernel, launch):
        """`launch`, which notes the kernel while `watching`."""

        def call(*arguments):
            if self.watching:
                self.kernels[kernel.name] = describe(kernel)
            if self.recorder is not None:
                return self.recorder.launch(kernel, launch, arguments)
            return launch(*arguments)

        return call


def describe(kernel) -> dict[str, Any]:
    """The resources of a compiled kernel, and the number of instructions of its PTX."""
    from compile import accesses

    metadata = kernel.metadata
    return {
        "compiled_by": str(getattr(metadata, "compiled_by", "") or "triton").split()[0],
        "reason": str(getattr(metadata, "tileir_reason", ""))[:300],
        "maps": bool(getattr(metadata, "tileir_tensor_maps", None)),
        "registers": kernel.n_regs, "spills": kernel.n_spills, "warps": metadata.num_warps,
        "stages": metadata.num_stages, "shared": metadata.shared, **accesses(kernel.asm["ptx"]),
    }  # fmt: skip


def run(directory: Path) -> None:
    """Run the cases whose names come in."""
    import torch  # type: ignore[import-not-found]

    few_settings()
    launched = Launched()
    from cases import all_cases

    cases = all_cases()
    buffer = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
    short = ShortKernels(launched)
    (directory / "ready").write_text("")
    for number, line in enumerate(sys.stdin):
        name = line.strip()
        row: dict[str, Any] = {"case": name}
        begin = time.perf_counter()
        try:
            if name == graphs.TIME_GRAPHS:
                row |= short.times()
            else:
                short.forget()
                path = directory / f"{number}.pt"
                short.keep(measure_case(row, cases[name], launched, buffer, path), row["kernels"])
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:500]
            if name == graphs.TIME_GRAPHS:
                torch.cuda.synchronize()  # ends a process for which the GPU has stopped working
        row["seconds"] = round(time.perf_counter() - begin, 2)
        partial = directory / f"{number}.partial"
        partial.write_text(json.dumps(row))
        partial.rename(directory / f"{number}.json")
        if not short.expected:
            short.forget()


class ShortKernels:
    """The short kernels of the last case. The program is kept until they are timed first."""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self.step: Any = None
        self.expected: dict[str, int] = {}
        """The launches of each in a call."""
        self.graphs: graphs.Graphs | None = None

    def forget(self) -> None:
        """Free the memory of the last case."""
        import torch  # type: ignore[import-not-found]

        self.step, self.expected, self.graphs = None, {}, None
        torch._dynamo.reset()
        torch.cuda.empty_cache()

    def keep(self, step, kernels: list[dict[str, Any]]) -> None:
        self.expected = {k["kernel"]: k["launches"] for k in kernels if graphs.is_short(k)}
        self.step = step

    def times(self) -> dict[str, Any]:
        """The times of `Graphs.times`. The first call runs the program."""
        if self.graphs is None:
            if self.step is None:
                raise LookupError("there is no case with short kernels")
            recorder = graphs.Recorder(self.expected, graphs.Cuda(ASLEEP))
            step, self.step = self.step, None
            self.launched.recorder = recorder
            try:
                step.run()
                recorder.device.check()
            finally:
                self.launched.recorder = None
            self.graphs = graphs.Graphs(recorder)
        return self.graphs.times()


def measure_case(row, make, launched, buffer, path: Path):
    """Fill `row` with what a case computes and how long its kernels take. Returns its step."""
    import torch  # type: ignore[import-not-found]
    from cases import tensors

    torch.manual_seed(zlib.crc32(row["case"].encode()))
    step = make("cuda")
    torch.manual_seed(1)
    begin = time.perf_counter()
    results = tensors(step.run())
    torch.cuda.synchronize()
    row["first_s"] = round(time.perf_counter() - begin, 3)
    results = [t.detach().clone() for t in results]
    torch.save([sample(t) for t in results], path)
    if step.reference is not None:
        torch.manual_seed(1)
        row["errors"] = [
            error(f, w) for f, w in zip(results, tensors(step.reference()), strict=True)
        ]
    del results
    launched.kernels.clear()
    launched.watching = True
    step.run()
    launched.watching = False
    times = profile_kernels(step.run, buffer)
    row["kernels"] = [
        {
            "kernel": name, "us": round(statistics.median(us), 2),
            "iqr_us": round(graphs.spread(us), 2), "launches": count, **launched.kernels[name],
        }
        for name, (us, count) in times.items()
        if name in launched.kernels
    ]  # fmt: skip
    others = (statistics.median(us) for n, (us, _) in times.items() if n not in launched.kernels)
    row["other_us"] = round(sum(others), 2)
    row["host_us"] = round(host(step.run), 1)
    return step


def sample(tensor):
    """Evenly spaced elements, and how many are not finite."""
    flat = tensor.reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLED)].float().cpu(), tensor.numel()


def error(actual, expected) -> float:
    """The largest error, relative to the size of the expected values: their root mean
    square, or the value itself where it is larger."""
    import torch  # type: ignore[import-not-found]

    f, w = actual.double(), expected.double()
    if f.shape != w.shape:
        return float("inf")
    same = (f == w) | (f.isnan() & w.isnan())
    scale = torch.maximum(w.abs(), w.nan_to_num(0, 0, 0).square().mean().sqrt()) + 1e-30
    return (
        float(torch.where(same, torch.zeros_like(f), (f - w).abs() / scale).nan_to_num(1e30).max())
        if f.numel()
        else 0.0
    )


_MANY = 1000
"""Kernels in some calls that are too many to be profiled more often."""


def profile_kernels(call, buffer) -> dict[str, tuple[list[float], int]]:
    """Microseconds of each kernel in each of some calls with a cold L2 cache, and how often it is
    launched in one. There are more calls if a kernel is short: its time varies from launch to
    launch by a tenth and more."""
    runs = _profile(call, buffer, 5)
    names = {name: None for one in runs for name in one}
    times = [t for one in runs for kernels in one.values() for t in kernels]
    if times and min(times) < graphs.SHORT and len(times) < _MANY:
        runs += _profile(call, buffer, 20)
    return {
        name: (
            [sum(one.get(name, [0.0])) for one in runs],
            round(statistics.median(len(one.get(name, [])) for one in runs)),
        )
        for name in names
    }


def _profile(call, buffer, repetitions: int) -> list[dict[str, list[float]]]:
    """For each call, microseconds of the launches of each kernel, by its name."""
    import torch  # type: ignore[import-not-found]
    from torch.profiler import ProfilerActivity, profile  # type: ignore[import-not-found]

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled:
        for _ in range(repetitions):
            buffer.fill_(1)
            call()
        torch.cuda.synchronize()
    events = [e for e in profiled.events() if "cuda" in str(e.device_type).lower()]
    events.sort(key=lambda e: e.time_range.start)
    runs: list[dict[str, list[float]]] = []
    for e in events:
        if "FillFunctor" in e.name and e.time_range.elapsed_us() > 50 and "char" in e.name:
            runs.append({})
        elif runs:
            runs[-1].setdefault(e.name, []).append(float(e.time_range.elapsed_us()))
    return runs


def host(call, repetitions: int = 5) -> float:
    """Microseconds of this processor's time for a call that waits for nothing."""
    import torch  # type: ignore[import-not-found]

    results = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        results.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    return min(results) * 1e6


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build(sys.argv[2:])
    elif sys.argv[1] == "warm":
        warm(sys.argv[2:])
    else:
        run(Path(sys.argv[2]))
