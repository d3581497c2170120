"""A process of `torch_compile.py`, in which one compiler builds all kernels of Triton.

torch_compile_worker.py list                   prints the names of the programs
torch_compile_worker.py check LOG END FILE     runs those tasks of FILE that no other process has
                                               taken, and appends a line for each to LOG; waits for
                                               FILE
torch_compile_worker.py time FOLDER            builds the task of a line of the standard input, or
                                               times the last one, on a core, where the line is
                                               `go CORE`; answers each line by FOLDER/NUMBER.json

A task is `PROGRAM MODE`.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204

from __future__ import annotations

import faulthandler
import json
import os
import statistics
import sys
import time
import traceback
import zlib
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

DEVICE = os.environ.get("COMPILED_DEVICE", "cuda")
WORK, COMPILER = Path(os.environ["COMPILED_WORK"]), os.environ["COMPILED_BY"]
LIMIT = int(os.environ.get("COMPILED_LIMIT", "90"))
TASKS = "/proc/self/task"
"""The threads of this process, on Linux."""


def programs() -> dict[str, Any]:
    """The programs: cases `inductor/*`; on the CPU, with smaller numbers."""
    from cases import CASES

    if DEVICE == "cpu":
        from small import load_small

        load_small("cases_inductor")
    else:
        import cases_inductor  # noqa: F401  # its import adds them
    return {name: make for name, make in CASES.items() if name.startswith("inductor/")}


@contextmanager
def built_as(mode: str, name: str):
    """torch.compile builds programs in a mode; `plain` not at all."""
    import torch  # type: ignore[import-not-found]
    import torch._inductor.config as config  # type: ignore[import-not-found]
    from torch_compile import is_training

    own = torch.compile
    searched = torch._inductor.list_mode_options("max-autotune")
    if is_training(name):
        searched["coordinate_descent_tuning"] = False
    options: dict[str, dict[str, Any]] = {
        "default": {}, "graphs": {"mode": "reduce-overhead"}, "dynamic": {"dynamic": True},
        "autotune": {"options": searched},
    }  # fmt: skip

    def build(function, **stated):
        if mode == "plain":
            return function
        if mode == "package":
            return Package(function, WORK / f"{COMPILER}.{name.replace('/', '.')}.pt2")
        call = own(function, **{**stated, **options[mode]})

        def step(*arguments):
            torch.compiler.cudagraph_mark_step_begin()
            return call(*arguments)

        return step if mode in ("graphs", "autotune") else call

    settings: dict[str, Any] = {"fallback_random": name != "inductor/dropout_add"}
    if DEVICE == "cpu":
        settings["cpu_backend"] = "triton"
    if mode == "package":
        settings |= {f"aot_inductor.{k}": v for k, v in quick_package(config).items()}
    elif mode == "autotune" and is_training(name):
        settings["compile_threads"] = 8
    with config.patch(settings), mock.patch.object(torch, "compile", build), few_candidates():
        yield


def quick_package(config) -> dict[str, Any]:
    """Settings of AOTInductor that this release of torch has, with which C++ compilers take least
    time and memory. Precompiled headers take more of both than a program saves."""
    quick = {
        "compile_wrapper_opt_level": "O0", "precompile_headers": False,
        "enable_frame_pointer": False, "enable_line_tables": False,
    }  # fmt: skip
    return {k: v for k, v in quick.items() if hasattr(config.aot_inductor, k)}


CANDIDATES = 2
"""Kernels that max-autotune tries for a matmul, in addition to those of libraries."""


@contextmanager
def few_candidates(count: int = CANDIDATES):
    """Inductor tries so many of its Triton kernels for each matmul or convolution."""
    import torch._inductor.select_algorithm as algorithms  # type: ignore[import-not-found]

    kind = algorithms.AlgorithmSelectorCache
    own = kind.__call__

    def call(self, name, choices, *rest, **named):
        templates = [c for c in choices if isinstance(c, algorithms.TritonTemplateCaller)]
        kept = {id(c) for c in evenly_spaced(templates, count)}
        kept |= {id(c) for c in choices} - {id(c) for c in templates}
        return own(self, name, [c for c in choices if id(c) in kept], *rest, **named)

    with mock.patch.object(kind, "__call__", call):
        yield


def evenly_spaced(items: list[Any], count: int) -> list[Any]:
    """At most `count` of the items, the first one among them."""
    return items[:: max(1, -(-len(items) // count))]


class Package:
    """A function as AOTInductor compiles it: it is exported at its first call, and loaded from a
    file by every process that finds the file."""

    def __init__(self, function, path: Path) -> None:
        self.function, self.path, self.loaded = function, path, None

    def __call__(self, *arguments):
        import torch  # type: ignore[import-not-found]
        from torch._inductor import (  # type: ignore[import-not-found]
            aoti_compile_and_package,
            aoti_load_package,
        )

        if self.loaded is None:
            if not self.path.exists():
                module = module_of(self.function)
                with torch.no_grad():
                    program = torch.export.export(module, arguments)
                    partial = self.path.with_suffix(f".{os.getpid()}.pt2")
                    aoti_compile_and_package(program, package_path=str(partial))
                partial.rename(self.path)
            self.loaded = aoti_load_package(str(self.path))
        return self.loaded(*arguments)


def module_of(function):
    import torch  # type: ignore[import-not-found]

    class Module(torch.nn.Module):
        def forward(self, *arguments):
            return function(*arguments)

    return Module()


def with_seed(name: str, call):
    import torch  # type: ignore[import-not-found]

    torch.manual_seed(zlib.crc32(name.encode()))
    return call()


def synchronize() -> None:
    if DEVICE == "cuda":
        import torch  # type: ignore[import-not-found]

        torch.cuda.synchronize()


# Checking -----------------------------------------------------------------------------------------


def check_all(log: Path, end: float, task_file: Path) -> int:
    """Run the tasks that no other process has taken. 3 where the GPU reports an error for every
    later call."""
    import torch  # type: ignore[import-not-found]
    from collect import time_limit
    from torch_compile import BEGAN

    makers = programs()
    while not task_file.exists():
        time.sleep(0.05)
    for task in task_file.read_text().splitlines():
        lock = WORK / f"claims_{COMPILER}" / task.replace("/", ".").replace(" ", ".")
        if time.time() > end - 3:
            break
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        write(log, {"task": task, "outcome": "failed", "reason": BEGAN})
        name, mode = task.split()
        before = len(records())
        try:
            with time_limit(LIMIT), built_as(mode, name):
                row = check(name, mode, makers[name])
        except Exception as error:
            row = {
                "outcome": "failed", "reason": f"{type(error).__name__}: {error}"[:600],
                "where": traceback.format_exc().splitlines()[-7:],
            }  # fmt: skip
        built = records()[before:]
        row["kernels"] = len(built)
        row["by_triton"] = [
            f"{r.kernel}: {r.reason[:300]}" for r in built if r.compiler != "tileir"
        ]
        write(log, {"task": task, **row})
        try:
            torch._dynamo.reset()
            synchronize()
            if DEVICE == "cuda":
                torch.cuda.empty_cache()  # other processes share the GPU
        except RuntimeError:
            return 3
    return 0


def records() -> list[Any]:
    """The kernels that tileir's hook has seen in this process."""
    if COMPILER != "tileir":
        return []
    import tileir.frontends.triton_backend as backend

    return list(backend.report().records)


def check(name: str, mode: str, make) -> dict[str, Any]:
    """Compare the results of a program at its first and third call with torch."""
    import torch  # type: ignore[import-not-found]
    from cases import tensors
    from on_cpu import verdict
    from worker import sample

    step = with_seed(name, lambda: make(DEVICE))
    begin = time.perf_counter()
    results = copies(with_seed(name, step.run))
    synchronize()
    row: dict[str, Any] = {"first_s": round(time.perf_counter() - begin, 3)}
    for _ in range(2):  # CUDA graphs are recorded at the second call, and played at the third
        results = copies(with_seed(name, step.run))
    path = WORK / f"{COMPILER}.{name.replace('/', '.')}.{mode}.pt"
    torch.save([sample(t)[0] for t in results], path)
    row["results"] = str(path)
    if step.reference is None:
        return {**row, "outcome": "right" if all_finite(results) else "wrong"}
    with built_as("plain", name):
        plain_step = with_seed(name, lambda: make(DEVICE))
        plain = copies(with_seed(name, plain_step.run))
    result = verdict(results, plain, step.exactly)
    if result["outcome"] == "wrong":
        exact = copies(tensors(step.reference()))
        result = {**verdict(results, exact, step.exactly, plain), "torch": result["errors"]}
    return {**row, **result}


def copies(results) -> list[Any]:
    from cases import tensors

    return [t.detach().clone() for t in tensors(results)]


def all_finite(results) -> bool:
    return all(bool(t.isfinite().all()) for t in results if t.is_floating_point())


def write(log: Path, row: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")


# Timing -------------------------------------------------------------------------------------------


def time_all(folder: Path) -> int:
    """Follow the standard input. A `Timed` is built by one line, and timed by those that follow."""
    import torch  # type: ignore[import-not-found]

    makers = programs()
    torch.empty(1, device=DEVICE)
    timed = Timed(makers)
    for number, line in enumerate(sys.stdin):
        try:
            first, second = line.split()
            row = timed.measure(int(second)) if first == "go" else timed.build(first, second)
        except Exception as error:
            row = {"untimed": f"{type(error).__name__}: {error}"[:300]}
        partial = folder / f"{number}.partial"
        partial.write_text(json.dumps(row))
        partial.rename(folder / f"{number}.json")
    return 0


class Timed:
    """The program that a process times."""

    def __init__(self, makers: dict[str, Any]) -> None:
        self.makers, self.step, self.name, self.mode = makers, None, "", ""

    def build(self, name: str, mode: str) -> dict[str, Any]:
        """Build a program, in place of the last one."""
        import torch  # type: ignore[import-not-found]

        self.step, self.name, self.mode = None, name, mode
        torch._dynamo.reset()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        with built_as(mode, name):
            self.step = with_seed(name, lambda: self.makers[name](DEVICE))
            for _ in range(3):
                self.step.run()
        synchronize()
        return {}

    def measure(self, core: int) -> dict[str, Any]:
        """Microseconds of a call among others, on a core; in the first mode also of the kernels by
        Triton in one with a cold L2 cache, and of all other kernels."""
        import torch  # type: ignore[import-not-found]
        from worker import profile_kernels

        assert self.step is not None
        run = self.step.run
        with built_as(self.mode, self.name):
            with on_core(core):
                row: dict[str, Any] = {"call_us": round(call_microseconds(run), 2)}
            if DEVICE != "cuda" or self.mode != "default":
                return row
            buffer = torch.empty(256 << 20, dtype=torch.int8, device=DEVICE)
            times = profile_kernels(run, buffer)
        mine = {k: us for k, (us, _) in times.items() if k.startswith("triton_")}
        others = sum(us for k, (us, _) in times.items() if k not in mine)
        return {
            **row, "kernels_us": round(sum(mine.values()), 2), "other_us": round(others, 2),
            "by_kernel_us": {k: round(us, 2) for k, us in mine.items()},
        }  # fmt: skip


@contextmanager
def on_core(core: int):
    """Run all threads of this process on a core: also the one in which autograd computes gradients,
    which would else run on any other."""
    cores = {int(thread): os.sched_getaffinity(int(thread)) for thread in os.listdir(TASKS)}
    for thread in cores:
        move(thread, {core})
    try:
        yield
    finally:
        for thread, before in cores.items():
            move(thread, before)


def move(thread: int, cores: set[int]) -> None:
    """Let a thread run on `cores`, if it still exists."""
    with suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cores)


def call_microseconds(call, seconds: float = 0.15) -> float:
    """The median of batches of calls that follow each other."""
    synchronize()
    begin = time.perf_counter()
    call()
    synchronize()
    one = time.perf_counter() - begin
    count = max(1, min(50, int(seconds / 7 / max(one, 1e-6))))
    batches: list[float] = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        synchronize()
        batches.append((time.perf_counter() - begin) / count)
    return statistics.median(batches) * 1e6


def main() -> int:
    verb, *rest = sys.argv[1:]
    faulthandler.enable()  # what ends a process is in the output
    with ExitStack() as stack:
        if DEVICE == "cpu":
            from on_cpu import inductor_for_triton

            stack.enter_context(inductor_for_triton())
        if verb == "list":
            print("\n".join(programs()))
            return 0
        if verb == "check":
            return check_all(Path(rest[0]), float(rest[1]), Path(rest[2]))
        return time_all(Path(rest[0]))


if __name__ == "__main__":
    sys.exit(main())
