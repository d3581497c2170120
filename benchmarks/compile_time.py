"""How long compiling takes, and where it goes.

    python benchmarks/compile_time.py [--out FILE.json] [--triton PYTHON] [--target sm_90]

Needs no GPU. Every figure is the median of several compilations in a warm process, from the
builder's first call to machine code, nothing cached. `--triton` names a Python that has Triton:
its kernels are then compiled for the same target, from its source to machine code, in turns with
ours, and ratios are printed. `growth` is the time for 32,000 ops over that for 4,000.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tileir.backend import Options
from tileir.backend.assembler import assemble
from tileir.backend.compile import staged
from tileir.backend.llvm.emit import emit
from tileir.backend.llvm.optimise import to_ptx
from tileir.backend.target import target as target_named
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module

HERE = Path(__file__).parent
ROUNDS = 7
FRESH = """
import time; start = time.perf_counter()
import compile_time
compile_time.machine_code(compile_time.add(), 4, "{target}")
print(time.perf_counter() - start)
"""


def add(block: int = 1024) -> Module:
    """z = x + y, masked at the end."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("add", x=data, y=data, z=data, n=arg(I32, multiple_of=16)) as (x, y, z, n):
        place = b.program_id(axis=0) * block + b.arange(block)
        mask = place < n
        (z + place).store((x + place).load(mask) + (y + place).load(mask), mask)
    return b.module()


def softmax(block: int = 1024) -> Module:
    """One row of `n` elements per instance."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("softmax", y=data, x=data, n=arg(I32, multiple_of=16)) as (y, x, n):
        column = b.arange(block)
        place = b.program_id(axis=0) * n + column
        value = (x + place).load(column < n, float("-inf"))
        top = (value - value.max(axis=0)).exp(fast="approx")
        total = b.splat(top.sum(axis=0), to=top.type)
        (y + place).store(b.fdiv(top, total, fast="approx"), column < n)
    return b.module()


def matmul(rows: int = 128, columns: int = 128, depth: int = 64) -> Module:
    """c = a b in f16 with sums in f32, masked at every edge."""
    b = Builder()
    data, size = arg(pointer(F16), aligned=16), arg(I32, multiple_of=16)
    out = arg(pointer(F32), aligned=16)
    with b.kernel("matmul", a=data, b=data, c=out, m=size, n=size, k=size) as (x, y, z, m, n, k):
        i = b.program_id(axis=0) * rows + b.arange(rows)
        j = b.program_id(axis=1) * columns + b.arange(columns)
        step, acc = b.arange(depth), b.var(b.zeros((rows, columns)), name="acc")
        with b.for_(0, k, depth) as start:
            along = start + step
            left = (x + i[:, None] * k + along).load((i[:, None] < m) & (along < k), 0.0)
            right = (y + along[:, None] * n + j).load((along[:, None] < k) & (j < n), 0.0)
            acc.set(left.dot(right, acc))
        (z + i[:, None] * n + j).store(acc, (i[:, None] < m) & (j < n))
    return b.module()


def arithmetic(ops: int) -> Module:
    """`ops` additions, products and differences on a tile of 128 elements."""
    chance, b = random.Random(0), Builder()
    with b.kernel("arithmetic", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(128)
        values = [(x + lanes).load(), (x + lanes + 128).load()]
        for _ in range(ops):
            left, right = values[-1], chance.choice(values[-8:])
            values.append(chance.choice((left.__add__, left.__mul__, left.__sub__))(right))
        (y + lanes).store(values[-1])
    return b.module()


def accesses(ops: int) -> Module:
    """Masked loads and stores of many tiles, eleven ops each."""
    b = Builder()
    with b.kernel("accesses", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        lanes = b.arange(128)
        for i in range(ops // 11):
            place = lanes + i * 128
            mask = place < n
            (y + place).store((x + place).load(mask, 0.0) * 2.0, mask)
    return b.module()


def machine_code(module: Module, warps: int, target: str) -> tuple[dict[str, float], Any]:
    """Milliseconds per stage, and what the assembler measured."""
    machine, clock, times = target_named(target), time.perf_counter, dict[str, float]()
    start = clock()
    done = staged(module, machine, Options(num_warps=warps), None)
    times["lower"] = clock() - start
    text = emit(done.stages["barriers"], done.kernel, machine, done.memory, done.num_warps)
    times["emit"] = clock() - start - sum(times.values())
    ptx, _ = to_ptx(text, machine)
    times["llvm"] = clock() - start - sum(times.values())
    assembled = assemble(ptx, done.kernel, machine)
    times["assemble"] = clock() - start - sum(times.values())
    return {name: 1000 * t for name, t in times.items()}, assembled


def once(make: Callable[[], Module], warps: int, target: str) -> dict[str, float]:
    """Milliseconds per stage from the builder on, their sum, and registers."""
    start = time.perf_counter()
    module = make()
    built = 1000 * (time.perf_counter() - start)
    stages, assembled = machine_code(module, warps, target)
    found = {"build": built, **stages}
    return {
        **found, "total": sum(found.values()), "registers": assembled.registers,
        "spills": assembled.spills,
    }  # fmt: skip


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


KERNELS: dict[str, Callable[[], Module]] = {"add": add, "softmax": softmax, "matmul": matmul}


def kernels(target: str, triton: str | None) -> dict[str, Any]:
    """Ours and Triton's in turns, so that a busy machine is busy for both."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in KERNELS}
    theirs: dict[str, list[float]] = {name: [] for name in KERNELS}
    for _ in range(ROUNDS):
        for name, make in KERNELS.items():
            runs[name].append(once(make, 4, target))
        if triton:
            for name, taken in _triton(triton, target).items():
                theirs[name].append(taken)
    found: dict[str, Any] = {name: medians(r) for name, r in runs.items()}
    for name, taken in theirs.items():
        if taken:
            found[name]["triton"] = statistics.median(taken)
            found[name]["ratio"] = found[name]["total"] / found[name]["triton"]
    return found


def _triton(python: str, target: str) -> dict[str, float]:
    command = [python, str(HERE / "compile_time_triton.py"), target.removeprefix("sm_").rstrip("a")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.strip().splitlines()[-1])


def growth(target: str, small: int = 4000, large: int = 32000) -> dict[str, Any]:
    """Stages of programs of `small` and `large` ops, and the ratio of their totals."""
    found: dict[str, Any] = {}
    for make in (arithmetic, accesses):
        runs = {
            ops: medians([once(lambda n=ops, make=make: make(n), 4, target) for _ in range(3)])
            for ops in (small, large)
        }
        ratio = runs[large]["total"] / runs[small]["total"]
        found[make.__name__] = {"ratio": ratio, **{str(n): run for n, run in runs.items()}}
    return found


def fresh(target: str) -> float:
    """Seconds of a first kernel in a fresh process, imports included."""
    command = [sys.executable, "-c", FRESH.format(target=target)]
    runs = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout)
        for _ in range(3)
    ]
    return statistics.median(runs)


def show(name: str, run: dict[str, float]) -> None:
    parts = ("build", "lower", "emit", "llvm", "assemble", "total")
    times = " ".join(f"{run[part]:8.1f}" for part in parts)
    against = f" {run['triton']:8.1f} {run['ratio']:6.2f}" if "triton" in run else ""
    print(f"{name:18} {times}{against}  {run['registers']:.0f} registers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--triton", help="a Python that has Triton")
    parser.add_argument("--target", default="sm_90")
    options = parser.parse_args()
    print(f"{'ms':18}    build    lower     emit     llvm assemble    total   Triton  ratio")
    found: dict[str, Any] = {"kernels": kernels(options.target, options.triton)}
    for name, run in found["kernels"].items():
        show(name, run)
    found["growth"] = growth(options.target)
    for name, runs in found["growth"].items():
        for ops in ("4000", "32000"):
            show(f"{name} {ops}", runs[ops])
        print(f"{name}: 32,000 ops take {runs['ratio']:.2f} times what 4,000 take")
    found["fresh"] = fresh(options.target)
    print(f"first kernel in a fresh process: {found['fresh']:.2f} s")
    if options.out:
        Path(options.out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
