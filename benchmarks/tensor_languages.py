"""Benchmark of unscheduled programs of Tile, Tensor Comprehensions and TE against cuBLAS and cuDNN
(torch).

    python benchmarks/tensor_languages.py [--out FILE.json]
    python benchmarks/tensor_languages.py --write

A matmul of 4096³ in f16, NN and (as in the paper's Listing 2) NT, and a 3x3 convolution of f16
images with channels last and zero padding: task 2 of Table 1 (MAPL 2019), 4 images of 56x56 with
128 channels to 256. The kernels are those that the frontends generate without a schedule. `--write`
writes them to `benchmarks/tensor_languages_modules`. The measurement reads them from there, so it
needs no parser of the languages. Every result is checked; outputs are poisoned before. `timing.py`
describes the measurement.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checks
import numpy as np

FOLDER = Path(__file__).parent / "tensor_languages_modules"

N = 4096
BATCH, SIZE, CHANNELS, OUTPUTS = 4, 56, 128, 256

SHAPES = {
    "matmul": ((N, N), (N, N), (N, N)),
    "matmul_nt": ((N, N), (N, N), (N, N)),
    "conv3x3": (
        (BATCH, SIZE, SIZE, CHANNELS),
        (3, 3, CHANNELS, OUTPUTS),
        (BATCH, SIZE, SIZE, OUTPUTS),
    ),
}
FLOPS = {
    "matmul": 2 * N**3,
    "matmul_nt": 2 * N**3,
    "conv3x3": 2 * BATCH * SIZE * SIZE * OUTPUTS * 9 * CHANNELS,
}

TILE = {
    "matmul": "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
    "matmul_nt": "function (A[I, K], B[J, K]) -> (C) { C[i, j: I, J] = +(A[i, k] * B[j, k]); }",
    "conv3x3": """function (I[N, H, W, C], K[R, S, C, D]) -> (O) {
      O[n, y, x, d: N, H, W, D] = +(I[n, y + r - 1, x + s - 1, c] * K[r, s, c, d]);
    }""",
}
COMPREHENSIONS = """
def matmul(half(M, K) A, half(K, N) B) -> (C) { C(i, j) +=! A(i, k) * B(k, j) }
def matmul_nt(half(I, K) A, half(J, K) B) -> (C) { C(i, j) +=! A(i, k) * B(j, k) }
def conv3x3(half(N, H, W, C) I, half(R, S, C, D) K) -> (O) {
  O(n, y, x, d) +=! (y + r >= 1 && y + r - 1 < H && x + s >= 1 && x + s - 1 < W
                     ? I(n, y + r - 1, x + s - 1, c) : 0) * K(r, s, c, d)
  where y in 0:H, x in 0:W
}
"""

# Kernels ----------------------------------------------------------------------------------------


def programs() -> dict[str, Any]:
    """Compiled functions by language and task, of the frontends."""
    from tileir.builder import F16
    from tileir.frontends import tensor_comprehensions, tile

    functions: dict[str, Any] = {}
    comprehensions = tensor_comprehensions.parse(COMPREHENSIONS)
    for task, (a, b, _) in SHAPES.items():
        functions[f"tile_{task}"] = tile.parse(TILE[task]).compile((F16, a), (F16, b))
        functions[f"tc_{task}"] = comprehensions[task].compile((F16, a), (F16, b))
        functions[f"te_{task}"] = expression(task)
    return functions


def expression(task: str) -> Any:
    """A task as a tensor expression, without a schedule."""
    from tileir.frontends import te

    a, b = (te.placeholder(s, "float16", n) for s, n in zip(SHAPES[task][:2], "AB", strict=True))
    if task == "conv3x3":
        wide = te.compute(
            (BATCH, SIZE + 2, SIZE + 2, CHANNELS),
            lambda n, y, x, c: te.if_then_else(
                te.all(y >= 1, y - 1 < SIZE, x >= 1, x - 1 < SIZE), a[n, y - 1, x - 1, c], 0.0
            ),
            "wide",
        )
        axes = [te.reduce_axis((0, n), v) for n, v in ((3, "r"), (3, "s"), (CHANNELS, "c"))]
        r, s, c = axes
        out = te.compute(
            SHAPES[task][2],
            lambda n, y, x, d: te.sum(wide[n, y + r, x + s, c] * b[r, s, c, d], axis=axes),
            "O",
        )
    else:
        k = te.reduce_axis((0, N), "k")
        right = (lambda j: b[j, k]) if task == "matmul_nt" else (lambda j: b[k, j])
        out = te.compute((N, N), lambda i, j: te.sum(a[i, k] * right(j), axis=k), "C")
    return te.build(te.create_schedule(out), [a, b, out])


def texts() -> dict[str, str]:
    """The modules of all programs, and how their kernels are launched, by file name."""
    from tileir.textual.printer import print_module

    results: dict[str, str] = {}
    launches: dict[str, Any] = {}
    for name, function in programs().items():
        (launch,) = function.program.launches
        text = print_module(function.module)
        results[f"{name}.tir"] = re.sub(r' loc\("[^"]*":\d+:\d+\)', "", text)
        launches[name] = {"kernel": launch.kernel, "grid": launch.grid}
    results["launches.json"] = json.dumps(launches, indent=1, sort_keys=True) + "\n"
    return results


# Measurement ------------------------------------------------------------------------------------


def ours(task: str) -> dict[str, Callable[..., Any]]:
    """Functions that launch the kernels of tileir on two operands and an output, by language."""
    import torch

    import tileir.backend
    from tileir.backend.driver.launch import LoadedKernel
    from tileir.backend.executors import gpu_target
    from tileir.textual import parse

    launches, results = json.loads((FOLDER / "launches.json").read_text()), {}
    stream = torch.cuda.current_stream().cuda_stream
    for language in ("tile", "tc", "te"):
        name = f"{language}_{task}"
        module = parse((FOLDER / f"{name}.tir").read_text(), f"{name}.tir")
        compiled = tileir.backend.compile(module, gpu_target(), {})
        used = compiled.metadata
        print(f"{name:15} {used.registers} registers {used.spills} spilled {used.shared} shared")
        launch = LoadedKernel(compiled)[(launches[name]["grid"],)]
        results[language] = lambda a, b, c, go=launch, on=stream: go(a, b, c, stream=on)
    return results


def peer(task: str) -> Callable[..., Any]:
    """The result of torch: cuBLAS, or cuDNN on channels last."""
    import torch

    if task == "matmul":
        return lambda a, b, c: torch.mm(a, b, out=c)
    if task == "matmul_nt":
        return lambda a, b, c: torch.mm(a, b.T, out=c)
    torch.backends.cudnn.benchmark = True
    cached: dict[int, Any] = {}

    def convolve(a: Any, b: Any, c: Any) -> None:
        if id(b) not in cached:  # the layout of the weights is converted before the measurement
            weights = b.permute(3, 2, 0, 1)
            cached[id(b)] = weights.contiguous(memory_format=torch.channels_last)
        output = torch.nn.functional.conv2d(a.permute(0, 3, 1, 2), cached[id(b)], padding=1)
        cached["out"] = output.permute(0, 2, 3, 1)  # type: ignore[index]

    convolve.out = cached  # type: ignore[attr-defined]
    return convolve


def exact(task: str, a: Any, b: Any) -> Any:
    """An index of sampled rows, or pixels, and there the result and how far one may be off."""
    unit = checks.UNITS["f16"]
    if task.startswith("matmul"):
        rows, columns = checks.sample(len(a)), checks.sample(SHAPES[task][2][1], seed=1)
        operand = b[columns].T if task == "matmul_nt" else b[:, columns]
        place = np.ix_(rows, columns)
        return place, *checks.matmul(a[rows], operand, unit)
    images, h, w, _ = a.shape
    places = list(itertools.product(range(images), checks.sample(h, 8), checks.sample(w, 8)))
    index = tuple(map(list, zip(*places, strict=True)))
    return index, *checks.convolution(a, b, places, unit)


def wrong(task: str, call: Callable[..., Any], data: Any, expected: Any) -> str | None:
    """The error of the result of `call`, or None."""
    import torch

    a, b, c = data
    c.fill_(math.nan)
    call(a, b, c)
    torch.cuda.synchronize()
    result = getattr(call, "out", {}).get("out", c)
    if result.isnan().any():
        return "elements are not written"
    places, value, bound = expected
    return checks.fault(result[places], value, bound)


def row(task: str) -> dict[str, Any]:
    """One row of the table."""
    import timing
    import torch

    torch.manual_seed(len(task))
    a, b = (torch.randn(s, device="cuda").half() for s in SHAPES[task][:2])
    data = (a, b, torch.empty(SHAPES[task][2], dtype=torch.float16, device="cuda"))
    calls = {**ours(task), "torch": peer(task)}
    expected = exact(task, a, b)
    failed = {n: w for n, c in calls.items() if (w := wrong(task, c, data, expected)) is not None}
    right = {n: c for n, c in calls.items() if n not in failed or n == "torch"}
    times = timing.measure(right, data)
    shown = ", ".join(
        f"{name} {us:.1f} us {FLOPS[task] / us / 1e6:.0f} TFLOP/s {times['torch'] / us:.3f}"
        for name, us in times.items()
    )
    print(f"{task}: {shown}", *(f"WRONG {n}: {w}" for n, w in failed.items()), flush=True)
    ratios = {n: times["torch"] / t for n, t in times.items()}
    return {"task": task, "us": times, "ratio": ratios, "wrong": failed}


def main() -> int:
    """Measure and print, or write the modules. Returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--write", action="store_true", help="write the modules, and measure none")
    options = parser.parse_args()
    if options.write:
        FOLDER.mkdir(exist_ok=True)
        for name, text in texts().items():
            (FOLDER / name).write_text(text)
        return 0
    rows = [row(task) for task in SHAPES]
    if options.out:
        import torch

        head = ("git", "rev-parse", "--short", "HEAD")
        commit = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
        versions = {"torch": torch.__version__, "commit": commit}
        content = {"gpu": torch.cuda.get_device_name(), **versions, "rows": rows}
        Path(options.out).write_text(json.dumps(content, indent=1) + "\n")
    return int(any(n != "torch" for line in rows for n in line["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
