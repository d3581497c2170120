"""Benchmark of kernels as native code of this machine's CPU against numpy, both on all processors.

    python benchmarks/cpu.py [--repeats 9] [--out FILE.json]

Softmax, layer normalization and GELU of f32 are compared with the numpy statements that a user
would write, and a matmul with numpy's BLAS. Every result is checked before it is timed. tileir and
numpy alternate, so that a busy machine slows both, and a figure is the median of the repetitions.
Both write to outputs that are already allocated. A pause and an untimed run precede each timed run,
since threads of OpenBLAS spin for some time after a matmul and would take a processor from the next
run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import attrs
import checks
import numpy as np

from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.builder import F32, I32, Builder, pointer
from tileir.ir import Module

Array = np.ndarray[Any, Any]
_PAUSE = 0.3
"""Seconds after which idle threads of OpenBLAS no longer spin."""


@attrs.frozen(eq=False)
class Task:
    """A kernel and the same in numpy: `ours` and `theirs` fill the output and return it."""

    name: str
    ours: Callable[[], Array]
    theirs: Callable[[], Array]
    tolerance: float


def _launch(module: Module, grid: tuple[int, ...], *arguments: Any) -> Callable[[], Array]:
    kernel = compile_kernel(module)

    def run() -> Array:
        kernel(grid, arguments)
        return arguments[0]

    return run


def _softmax(rows: int, columns: int) -> Task:
    b = Builder()
    with b.kernel("softmax", y=pointer(F32), x=pointer(F32), n=I32) as (y, x, n):
        at = b.program_id(axis=0) * n
        v = (x + at + b.arange(columns)).load()
        e = b.exp(v - b.reduce(v, axis=0, combiner="fmaxnum"))
        (y + at + b.arange(columns)).store(e / b.reduce(e, axis=0, combiner="fadd"))
    x = np.random.default_rng(1).standard_normal((rows, columns), np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)

    def theirs() -> Array:
        np.exp(x - x.max(1, keepdims=True), out=z)
        np.divide(z, z.sum(1, keepdims=True), out=z)
        return z

    name = f"softmax {rows}x{columns}"
    return Task(name, _launch(b.module(), (rows,), y, x, columns), theirs, 1e-6)


def _layer_norm(rows: int, columns: int) -> Task:
    b = Builder()
    kinds = dict.fromkeys(("y", "x", "w", "c"), pointer(F32))
    with b.kernel("layer_norm", **kinds, n=I32) as (y, x, w, c, n):
        at, place = b.program_id(axis=0) * n, b.arange(columns)
        v = (x + at + place).load()
        moved = v - b.reduce(v, axis=0, combiner="fadd") * (1.0 / columns)
        variance = b.reduce(moved * moved, axis=0, combiner="fadd") * (1.0 / columns)
        (y + at + place).store(
            moved * b.rsqrt(variance + 1e-5) * (w + place).load() + (c + place).load()
        )
    random = np.random.default_rng(2)
    x = random.standard_normal((rows, columns), np.float32)
    w, c = (random.standard_normal(columns, np.float32) for _ in range(2))
    y, z = np.zeros_like(x), np.zeros_like(x)

    def theirs() -> Array:
        moved = x - x.mean(1, keepdims=True)
        variance = (moved * moved).mean(1, keepdims=True)
        np.multiply(moved, 1 / np.sqrt(variance + np.float32(1e-5)), out=z)
        np.add(np.multiply(z, w, out=z), c, out=z)
        return z

    name = f"layer norm {rows}x{columns}"
    return Task(name, _launch(b.module(), (rows,), y, x, w, c, columns), theirs, 1e-5)


def _gelu(size: int, block: int) -> Task:
    b = Builder()
    with b.kernel("gelu", y=pointer(F32), x=pointer(F32)) as (y, x):
        at = b.program_id(axis=0) * block
        v = (x + at + b.arange(block)).load()
        inner = (v + v * v * v * 0.044715) * 0.7978845608028654
        (y + at + b.arange(block)).store(v * 0.5 * (b.tanh(inner) + 1.0))
    x = np.random.default_rng(3).standard_normal(size, np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)

    def theirs() -> Array:
        inner = (x + x * x * x * np.float32(0.044715)) * np.float32(0.7978845608028654)
        np.multiply(x * np.float32(0.5), np.tanh(inner) + np.float32(1), out=z)
        return z

    return Task(f"gelu {size}", _launch(b.module(), (size // block,), y, x), theirs, 1e-6)


def _matmul(n: int, tile: tuple[int, int, int]) -> Task:
    rows, columns, depth = tile
    b = Builder()
    kinds = dict.fromkeys(("c", "a", "b"), pointer(F32))
    with b.kernel("matmul", **kinds, n=I32) as (z, x, y, size):
        i = b.program_id(axis=0) * rows + b.arange(rows)[:, None]
        j = b.program_id(axis=1) * columns + b.arange(columns)[None, :]
        k = b.arange(depth)
        total = b.var(b.full((rows, columns), 0.0, F32))
        with b.for_(0, size, depth) as start:
            left = (x + (i * size + (start + k)[None, :])).load()
            right = (y + ((start + k)[:, None] * size + j)).load()
            total.set(b.dot(left, right, total.get()))
        (z + (i * size + j)).store(total.get())
    random = np.random.default_rng(4)
    x, y = (random.standard_normal((n, n), np.float32) for _ in range(2))
    z, expected = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    grid = (n // rows, n // columns)
    return Task(
        f"matmul {n}", _launch(b.module(), grid, z, x, y, n),
        lambda: np.matmul(x, y, out=expected), 1e-3,
    )  # fmt: skip


def _measure(task: Task, repeats: int) -> dict[str, Any]:
    result = task.ours()
    some, expected = checks.some_rows(result, task.theirs())
    wrong = checks.fault(some, *checks.near(expected, task.tolerance))
    assert wrong is None and np.isfinite(result).all(), (task.name, wrong)
    times: dict[str, list[float]] = {"ours": [], "numpy": []}
    for _ in range(repeats):
        for name, run in (("ours", task.ours), ("numpy", task.theirs)):
            sleep(_PAUSE)
            run()
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
    medians = {name: statistics.median(runs) for name, runs in times.items()}
    return {**medians, "ratio": medians["numpy"] / medians["ours"]}


def main() -> None:
    """Measure and print; write JSON if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tasks = (
        _softmax(4096, 1024), _softmax(1024, 8192), _layer_norm(4096, 1024), _gelu(1 << 22, 1024),
        _matmul(512, (64, 64, 64)), _matmul(1024, (64, 128, 64)), _matmul(2048, (64, 128, 64)),
    )  # fmt: skip
    rows = {task.name: _measure(task, options.repeats) for task in tasks}
    for name, row in rows.items():
        times = "  ".join(f"{row[k] * 1e3:8.2f} ms" for k in ("ours", "numpy"))
        sys.stdout.write(f"{name:24s} {times}  {row['ratio']:.2f}\n")
    if options.out:
        machine = {"cpu": platform.processor(), "processors": os.cpu_count(),
                   "numpy": np.__version__, "python": platform.python_version()}  # fmt: skip
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
