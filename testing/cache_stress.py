"""Stress test of the cache: many processes compile the same kernels with one cache, and are killed
at random.

    python -m tileir.testing.cache_stress [--kernels 200] [--processes 8] [--kills 40] [--gpu]

Each process compiles the kernels in a different order through the cache and checks the results:
with `--gpu` by launching them, else by comparing the machine code with that of other processes and
of a compiler without a cache. The exit status is 1 if a result is wrong, an entry is corrupt, or a
kernel was compiled twice although no process was killed while compiling it.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.backend.compile import compile as compile_module
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.options import Options
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disk_store import DiskStore
from tileir.backend.runtime.format import loads
from tileir.builder import I32, Builder, pointer
from tileir.ir import Module

_SIZE = 1000


@attrs.frozen
class StressSettings:
    """The settings of a run: the numbers of the command line, and the folder of the cache."""

    folder: Path
    kernels: int = 200
    processes: int = 8
    kills: int = 40
    seed: int = 0
    gpu: bool = False
    target: str = "sm_90a"


@attrs.define
class StressReport:
    """The result of a run: compilations started, processes killed, and all errors."""

    begun: int = 0
    killed: int = 0
    checked: int = 0
    seconds: float = 0.0
    wrong: list[str] = attrs.field(factory=list[str])

    def __str__(self) -> str:
        text = (
            f"{self.checked} results checked, {self.begun} compilations, {self.killed} processes "
            f"killed, {self.seconds:.1f} s, {len(self.wrong)} wrong"
        )
        return "\n".join((text, *self.wrong[:20]))


def kernel(number: int) -> Module:
    """A kernel that computes y = x (2 number + 1) + number, for integers."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32), n=I32) as (x, y, n):
        at = b.program_id(axis=0) * 256 + b.arange(256)
        value = (x + at).load(at < n, 0)
        (y + at).store(value * (2 * number + 1) + number, at < n)
    return b.module()


def run(plan: StressSettings) -> StressReport:
    """Run processes until each kernel was checked by as many processes as there are and all kills
    are done. Returns the report."""
    start, report, rng = time.perf_counter(), StressReport(), random.Random(plan.seed)
    alive: list[Any] = []
    left, kills, number = plan.processes, plan.kills, 0
    while left or alive or kills:
        left = left or int(not alive)
        while left and len(alive) < plan.processes:
            alive.append(_start(plan, number))
            left, number = left - 1, number + 1
        time.sleep(rng.uniform(0.0, 0.03))
        if kills and alive and rng.random() < 0.5:
            victim = alive.pop(rng.randrange(len(alive)))
            if _kill(victim):
                report.killed, kills, left = report.killed + 1, kills - 1, left + 1
            else:
                alive.append(victim)
        for process in [p for p in alive if not p.is_alive()]:
            alive.remove(process)
            process.join()
            if process.exitcode:
                report.wrong.append(f"a process ends with {process.exitcode}")
    _judge(plan, report)
    report.seconds = time.perf_counter() - start
    return report


def _start(plan: StressSettings, number: int) -> Any:
    context: Any = multiprocessing.get_context("spawn" if plan.gpu else "fork")
    process = context.Process(target=_work, args=(plan, number))
    process.start()
    return process


def _kill(process: Any) -> bool:
    """Kill a process; return whether it was still running."""
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def _work(plan: StressSettings, number: int) -> None:
    """The program of one process."""
    rng = random.Random(plan.seed * 1000 + number)

    def make(module: Module, target: str, options: Options, kernel: str | None) -> CompiledKernel:
        _log(plan, f"begin {module.metadata['number']} {os.getpid()}")
        return compile_module(module, target, options, kernel)

    cache = Cache(DiskStore(plan.folder / "kernels"), make)
    for index in rng.sample(range(plan.kernels), plan.kernels):
        result = cache.compile(_module(index), plan.target)
        if plan.gpu:
            _launch(result, index)
        _log(plan, f"got {index} {hashlib.sha256(result.cubin).hexdigest()}")


def _module(index: int) -> Module:
    return kernel(index).evolve(metadata={"number": index})


def _launch(compiled_kernel: CompiledKernel, index: int) -> None:
    from tileir.backend.driver.device import driver
    from tileir.backend.driver.launch import LoadedKernel

    cuda = driver()
    cuda.context()
    x = np.arange(_SIZE, dtype=np.int32)
    y = np.zeros_like(x)
    addresses = [cuda.allocate(x.nbytes) for _ in range(2)]
    cuda.to_device(addresses[0], x.ctypes.data, x.nbytes)
    LoadedKernel(compiled_kernel)[-(-_SIZE // 256)](*addresses, _SIZE)
    cuda.synchronize()
    cuda.to_host(y.ctypes.data, addresses[1], y.nbytes)
    for address in addresses:
        cuda.free(address)
    if not np.array_equal(y, x * (2 * index + 1) + index):
        raise AssertionError(f"kernel {index} gives a wrong result")


def _log(plan: StressSettings, line: str) -> None:
    """Append a line to the log. A single write to a file that is opened for appending does not mix
    with the writes of others."""
    handle = os.open(plan.folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def _judge(plan: StressSettings, report: StressReport) -> None:
    begun: dict[str, list[str]] = defaultdict(list)
    got: dict[str, set[str]] = defaultdict(set)
    for word, index, what in _lines(plan):
        if word == "begin":
            begun[index].append(what)
        else:
            got[index].add(what)
            report.checked += 1
    report.begun = sum(map(len, begun.values()))
    repeated = report.begun - len(begun)
    if repeated > report.killed:
        report.wrong.append(f"{repeated} compilations beyond the first, {report.killed} killed")
    for index, pids in begun.items():
        if len(set(pids)) != len(pids):
            report.wrong.append(f"kernel {index} was compiled twice by one process")
    report.wrong += list(_wrong_code(plan, got))
    report.wrong += list(_wrong_entries(plan))


def _lines(plan: StressSettings) -> Iterator[tuple[str, str, str]]:
    for line in (plan.folder / "log").read_text().splitlines():
        word, index, what = line.split()
        yield word, index, what


def _wrong_code(plan: StressSettings, got: dict[str, set[str]]) -> Iterator[str]:
    for index in range(plan.kernels):
        code = compile_module(_module(index), plan.target).cubin
        if got[str(index)] != {hashlib.sha256(code).hexdigest()}:
            yield f"kernel {index} has other machine code in some process"


def _wrong_entries(plan: StressSettings) -> Iterator[str]:
    store = DiskStore(plan.folder / "kernels")
    keys = list(store.keys())
    for key in keys:
        data = store.get(key)
        if data is None or not loads(data).cubin:
            yield f"entry {key} is corrupt"
    if len(keys) != plan.kernels:
        yield f"{len(keys)} entries for {plan.kernels} kernels"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(description="Processes that share a cache, killed at random.")
    for name, value in (("kernels", 200), ("processes", 8), ("kills", 40), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--gpu", action="store_true", help="launch each kernel and check it")
    parser.add_argument("--target", default="sm_90a")
    options = vars(parser.parse_args(arguments))
    with tempfile.TemporaryDirectory() as folder:
        report = run(StressSettings(folder=Path(folder), **options))
    sys.stdout.write(f"{report}\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
