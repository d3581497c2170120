"""Compile time, by stage."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from compile_time_kernels import KERNELS, LONG

from tileir.backend import CompiledKernel, Options
from tileir.backend.compile import compile as compile_module, metadata_of_lowered, run_pipeline
from tileir.backend.nvptx.emit import KernelUnit, emit
from tileir.backend.nvptx.llvm_codegen import to_ptx
from tileir.backend.target import target as target_named
from tileir.ir import Module
from tileir.process import collector_paused

HERE = Path(__file__).parent
PEERS = ("triton", "tilelang")
PARTS = ("build", "lower", "emit", "llvm", "assemble")
FRESH = """
import sys; sys.path.insert(0, {here!r})
from compile_time_kernels import add
from tileir.backend import compile
assert compile(add(), {target!r}).cubin
"""


def seconds() -> float:
    """Processor time in seconds of this process and its finished children."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


@collector_paused()
def once(
    make: Callable[[], Module], target: str, options: Options | None = None
) -> dict[str, float]:
    """Milliseconds per stage, starting with the builder; their sum; wall-clock milliseconds; and
    registers."""
    machine, times, start = target_named(target), [seconds()], time.perf_counter()
    module = make()
    times.append(seconds())
    done = run_pipeline(module, machine, options or Options(), None)
    times.append(seconds())
    last, limit = done.stages["barriers"], done.registers
    text = emit(KernelUnit(last, done.kernel, done.memory, done.num_warps, limit), machine)
    times.append(seconds())
    ptx = to_ptx(text, machine)
    times.append(seconds())
    plan, limited = metadata_of_lowered(done, machine), limit is not None
    kernel = CompiledKernel(done.stages, text, ptx, plan, limited=limited, recompile=compile_module)
    machine_code = kernel.machine_code
    times.append(seconds())
    parts = (1000 * (b - a) for a, b in itertools.pairwise(times))
    return {
        **dict(zip(PARTS, parts, strict=True)), "total": 1000 * (times[-1] - times[0]),
        "clock": 1000 * (time.perf_counter() - start), "registers": machine_code.registers,
        "spills": machine_code.spills,
    }  # fmt: skip


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(run[name] for run in runs) for name in runs[0]}


def kernels(target: str, peers: Mapping[str, str], repeats: int) -> dict[str, Any]:
    """The times of tileir and of the peers, interleaved, so that a busy machine affects all of
    them."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in KERNELS}
    theirs: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for make in KERNELS.values():
        once(make, target)
    for _ in range(repeats):
        once(KERNELS["add"], target)  # a warm-up, which the peers' processes also do
        for name, make in KERNELS.items():
            runs[name].append(once(make, target))
        for peer, python in peers.items():
            for name, milliseconds in _peer(peer, python, target).items():
                theirs[peer, name].append(milliseconds)
    results: dict[str, Any] = {name: medians(r) for name, r in runs.items()}
    for peer, kernel in itertools.product(peers, KERNELS):
        milliseconds = results[kernel][peer] = medians(theirs[peer, kernel])
        milliseconds["ratio"] = results[kernel]["total"] / milliseconds["total"]
        milliseconds["clock ratio"] = results[kernel]["clock"] / milliseconds["clock"]
    return results


def _command(peer: str, python: str, target: str) -> list[str]:
    return [python, str(HERE / f"compile_time_{peer}.py"), target.removeprefix("sm_").rstrip("a")]


def _peer(peer: str, python: str, target: str) -> dict[str, dict[str, float]]:
    ran = subprocess.run(
        _command(peer, python, target), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(ran.stdout.strip().splitlines()[-1])


def growth(target: str, shapes: list[str], small: int = 4000, large: int = 32000) -> dict[str, Any]:
    """Stages of programs of `small` and `large` ops, and the ratio of their totals."""
    results: dict[str, Any] = {}
    four = Options(num_warps=4)
    for name in shapes:
        runs = {
            ops: least([once(partial(LONG[name], ops), target, four) for _ in range(3)])
            for ops in (small, large)
        }
        ratio = runs[large]["total"] / runs[small]["total"]
        results[name] = {"ratio": ratio, **{str(n): run for n, run in runs.items()}}
        for ops in (small, large):
            show(f"{name} {ops}", runs[ops])
        print(f"{name}: {large} ops take {ratio:.2f} times what {small} take", flush=True)
    return results


def fresh(target: str, peers: Mapping[str, str], repeats: int) -> dict[str, float]:
    """Processor and wall-clock seconds of a process that compiles its first kernel, including
    start-up and imports, for tileir and the peers, interleaved."""
    commands = {"tileir": [sys.executable, "-c", FRESH.format(here=str(HERE), target=target)]}
    for peer, python in peers.items():
        commands[peer] = [*_command(peer, python, target), "--first"]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            runs[name].append(_process(command))
    results = {f"{n} {k}": v for n, r in runs.items() for k, v in medians(r[1:]).items()}
    for peer in peers:
        results[f"{peer} ratio"] = results["tileir total"] / results[f"{peer} total"]
    return results


def _process(command: list[str]) -> dict[str, float]:
    """The seconds that a command takes, with its modules compiled to bytecode as usual."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start, used = time.perf_counter(), seconds()
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return {"total": seconds() - used, "clock": time.perf_counter() - start}


def show(name: str, run: dict[str, Any]) -> None:
    times = " ".join(f"{run[part]:8.1f}" for part in (*PARTS, "total", "clock"))
    peers = ((peer, run[peer]) for peer in PEERS if peer in run)
    text = "".join(
        f"  {peer} {figures['total']:.1f}, {figures['ratio']:.3f}" for peer, figures in peers
    )
    print(f"{name:18} {times}  {run['registers']:.0f} registers{text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    for peer in PEERS:
        parser.add_argument(f"--{peer}", help=f"a Python that has it, to compare with {peer}")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeats", type=int, default=15, help="compilations of each kernel")
    parser.add_argument(
        "--growth", action="append", choices=[*LONG, "none"], help="shapes of long programs: all"
    )
    options = parser.parse_args()
    peers = {peer: python for peer in PEERS if (python := getattr(options, peer))}
    heads = " ".join(f"{part:>8}" for part in (*PARTS, "total", "clock"))
    print(f"{'ms':18} {heads}")
    results: dict[str, Any] = {"kernels": kernels(options.target, peers, options.repeats)}
    for name, run in results["kernels"].items():
        show(name, run)
    results["fresh"] = fresh(options.target, peers, options.repeats)
    print(f"first kernel in a fresh process, s: {results['fresh']}")
    shapes = options.growth or [*LONG]
    results["growth"] = growth(options.target, [name for name in shapes if name in LONG])
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
