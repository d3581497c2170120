"""Benchmark of the interpreter against plain numpy, and against Triton's interpreter if that is
installed.

    python benchmarks/interpreter.py [--repeats 5] [--out FILE.json]
        [--triton PYTHON [--alternations 3]]

Every kernel is checked against a numpy statement on random inputs before it is timed; a figure is
the median of the repetitions. With `--triton`, the Python at that path, which must have torch and
triton, runs the same kernels, tiles and grids with TRITON_INTERPRET=1, and a ratio is printed. The
two alternate, so that a busy machine slows both. Each checks its own results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

# BLAS with several threads is slower on matrices as small as tiles.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import checks  # noqa: E402
import numpy as np  # noqa: E402 - reads the environment

ROOT = Path(__file__).resolve().parents[1]
ROWS, COLUMNS, WIDTH = 583, 931, 1024
SIZE, TILE, DEPTH = 256, 64, 32


def main() -> None:
    options = _options()
    if options.as_triton:
        sys.stdout.write(json.dumps(_measure(_triton_tasks(), options.repeats)))
        return
    tasks = _tasks()
    results = {"tileir": _measure(tasks, options.repeats), "numpy": _measure(_plain(), 20)}
    if options.triton:
        results["triton"] = _in_triton(options.triton, options.repeats)
        for _ in range(options.alternations - 1):
            _add(results["tileir"], _measure(tasks, options.repeats))
            _add(results["triton"], _in_triton(options.triton, options.repeats))
    _print(results)
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--alternations", type=int, default=3, help="measurements with Triton")
    parser.add_argument("--out")
    parser.add_argument("--triton", metavar="PYTHON")
    parser.add_argument("--as-triton", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(tasks: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = perf_counter()
            task()
            times[name].append(perf_counter() - start)
    return times


def _add(totals: dict[str, list[float]], more: dict[str, list[float]]) -> None:
    for name, times in more.items():
        totals[name].extend(times)


def _inputs() -> tuple[np.ndarray[Any, Any], ...]:
    noise = np.random.default_rng()
    x = noise.standard_normal((ROWS, COLUMNS), np.float32)
    a, b = (noise.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in range(2))
    return x, a, b


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _check(y: Any, c: Any, x: Any, a: Any, b: Any) -> None:
    """Raise an error if results are wrong, so that they are not timed."""
    for result, expected in (
        (y, checks.softmax(x, checks.UNITS["f32"])),
        (c, checks.matmul(a, b, checks.UNITS["f16" if c.dtype == np.float16 else "f32"])),
    ):
        wrong = checks.fault(result, *expected)
        assert wrong is None, wrong


def _plain() -> dict[str, Callable[[], Any]]:
    x, a, b = _inputs()
    return {
        "softmax": lambda: _softmax(x),
        "matmul": lambda: a.astype(np.float32) @ b.astype(np.float32),
    }


def _tasks() -> dict[str, Callable[[], Any]]:
    sys.path.insert(0, str(ROOT / "examples"))
    from matmul_builder import matmul  # type: ignore[import-not-found]
    from softmax_builder import softmax  # type: ignore[import-not-found]

    from tileir import interpret

    x, a, b = _inputs()
    y, c = np.full_like(x, np.nan), np.full((SIZE, SIZE), np.nan, np.float32)
    softmax_module, matmul_module = softmax(WIDTH), matmul(TILE, TILE, DEPTH)

    def run_softmax() -> Any:
        return interpret(softmax_module, "softmax", ROWS, [x, y, COLUMNS, COLUMNS])

    def run_matmul() -> Any:
        return interpret(matmul_module, "matmul", (SIZE // TILE) ** 2, [a, b, c, SIZE, SIZE, SIZE])

    run_softmax(), run_matmul()
    _check(y, c, x, a, b)
    return {"softmax": run_softmax, "matmul": run_matmul}


def _triton_tasks() -> dict[str, Callable[[], Any]]:
    import torch  # type: ignore[import-not-found]
    from triton_kernels import matmul_kernel, softmax_kernel  # type: ignore[import-not-found]

    arrays = x, a, b = _inputs()
    tx, ta, tb = (torch.from_numpy(v) for v in arrays)
    ty, tc = torch.full_like(tx, torch.nan), torch.full((SIZE, SIZE), torch.nan)
    grid = ((SIZE // TILE) ** 2,)

    def run_softmax() -> Any:
        softmax_kernel[(ROWS,)](tx, ty, COLUMNS, COLUMNS, WIDTH)

    def run_matmul() -> Any:
        matmul_kernel[grid](ta, tb, tc, SIZE, SIZE, SIZE, TILE, TILE, DEPTH, 8)

    run_softmax(), run_matmul()
    _check(ty.numpy(), tc.numpy(), x, a, b)
    return {"softmax": run_softmax, "matmul": run_matmul}


def _in_triton(python: str, repeats: int) -> dict[str, list[float]]:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [python, __file__, "--as-triton", "--repeats", str(repeats)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def _print(results: dict[str, dict[str, list[float]]]) -> None:
    medians = {
        library: {k: statistics.median(v) for k, v in t.items()} for library, t in results.items()
    }
    sys.stdout.write(f"{'':10}" + "".join(f"{library + ' ms':>14}" for library in medians) + "\n")
    for task in medians["tileir"]:
        cells = "".join(f"{medians[library][task] * 1e3:14.2f}" for library in medians)
        ratios = [
            f"{medians[library][task] / medians['tileir'][task]:.2f} x {library}'s speed"
            for library in medians
            if library != "tileir"
        ]
        sys.stdout.write(f"{task:10}{cells}   {', '.join(ratios)}\n")


if __name__ == "__main__":
    main()
