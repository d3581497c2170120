"""Benchmark of matmuls with `wgmma` and TMA against cuBLAS (through torch) for many shapes, on one
GPU in one run.

    python benchmarks/matmul_shapes.py [--out FILE.json] [--groups square,skinny] [--seconds 500]
    python benchmarks/matmul_shapes.py --groups odd --ways NN,NT

The kernels of tileir are the ordinary program `tileir.testing.kernels.matmul`: pointers, masks, a
loop and a dot. Every tile shape is compiled once and checked at small sizes with partial tiles at
every edge. At each size the result is checked; outputs are poisoned before. `timing.py` describes
the measurement. No tensor map can describe the rows of most matrices of the group `odd`. With
`--watch`, a barrier wait of more than 1.5 s ends the kernel with an error.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import checks
import timing
import torch
from matmul_tiles import (
    GROUPS,
    ODD,
    TILES,
    Problem,
    Tile,
    options_of,
    predicted_seconds,
    program,
    tiles_of,
)

import tileir.backend
from tileir.backend.driver.launch import LoadedKernel
from tileir.builder import BF16, F16

TYPES_16_BITS = {"f16": (F16, torch.float16, 2**-11), "bf16": (BF16, torch.bfloat16, 2**-8)}
"""The element type, the same in torch, and its unit roundoff."""

TYPES_OTHER = {
    "f8": (torch.float8_e4m3fn, torch.bfloat16),
    "i8": (torch.int8, torch.int32),
    "tf32": (torch.float32, torch.float32),
}
"""Types of operands and results in torch; operand B is [n, k], as the instructions require."""


SMALL = ((1, 8, 8), (64, 64, 64), (72, 200, 136), (130, 264, 520), (400, 528, 720))


def compile_tiles(problem: Problem, tiles: Iterable[Tile], watch: bool) -> dict[Tile, LoadedKernel]:
    """The kernels by tile. Tiles that do not compile are printed and left out."""

    def one(tile: Tile) -> Any:
        module = program(problem, tile)
        options = attrs.evolve(options_of(tile), wait_timeout=watch)
        begun = time.perf_counter()
        try:
            kernel = tileir.backend.compile(module, "sm_90a", options)
            used = kernel.metadata
        except Exception as error:
            return tile, None, f"{type(error).__name__}: {error}"[:300]
        took = time.perf_counter() - begun
        return (
            tile,
            kernel,
            (f"{used.registers} registers {used.spills} spilled {used.shared} shared {took:.2f} s"),
        )

    kernels: dict[Tile, LoadedKernel] = {}
    with ThreadPoolExecutor(8) as pool:
        for tile, kernel, text in pool.map(one, tiles):
            print(f"{problem} {tile!s:24} {text}", flush=True)
            if kernel is not None:
                kernels[tile] = LoadedKernel(kernel)
    return kernels


def compile_non_tma_variants(
    problem: Problem, kernels: dict[Tile, LoadedKernel], size: tuple[int, int, int]
) -> None:
    """Compile the kernels for the row alignments of a size that TMA does not support."""
    m, n, k = size
    shapes = ((m, k), (n, k) if problem.transposed else (k, n), (m, n))
    wide = sum(32 * rows * columns for rows, columns in shapes)
    numbers = (1 << 30, (1 << 30) + wide, (1 << 30) + 2 * wide, m, n, k, 1, 1, 1)

    def one(kernel: LoadedKernel) -> None:
        host = kernel.compiled.host
        if host is None or host.map_values(numbers[: host.arguments]) is not None:
            return
        kernel.non_tma_variant(host.non_tma_alignments(numbers[: host.arguments])).compiled.metadata  # noqa: B018

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, kernels.values()))


def ours(kernel: LoadedKernel, tile: Tile, size: tuple[int, int, int]) -> Callable[..., None]:
    """A function of (a, b, c) that launches `kernel`."""
    m, n, k = size
    launch = kernel[tile.grid(m, n)]
    return lambda a, b, c: launch(a, b, c, m, n, k, stream=torch.cuda.current_stream().cuda_stream)


def inputs(problem: Problem, size: tuple[int, int, int]) -> tuple[torch.Tensor, ...]:
    """Random operands and a poisoned result."""
    m, n, k = size
    if problem.kind in TYPES_OTHER:
        return _others(problem, size)
    dtype = TYPES_16_BITS[problem.kind][1]
    shapes = ((m, k), (n, k) if problem.transposed else (k, n))
    a, b = (torch.randn(s, device="cuda").to(dtype) for s in shapes)
    return a, b, torch.full((m, n), math.nan, device="cuda", dtype=dtype)


def _others(problem: Problem, size: tuple[int, int, int]) -> tuple[torch.Tensor, ...]:
    dtype, result = TYPES_OTHER[problem.kind]
    m, n, k = size
    if problem.kind == "i8":
        a, b = (torch.randint(-128, 128, s, device="cuda", dtype=dtype) for s in ((m, k), (n, k)))
    else:
        a, b = (torch.randn(s, device="cuda").to(dtype) for s in ((m, k), (n, k)))
    return a, b, torch.empty((m, n), device="cuda", dtype=result)


def peer(problem: Problem) -> Callable[..., Any]:
    """cuBLAS, through torch: a function of (a, b, c)."""
    if problem.kind == "f8":
        one = torch.ones((), device="cuda")
        return lambda a, b, c: torch._scaled_mm(
            a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=c
        )
    if problem.kind == "i8":
        return lambda a, b, c: torch._int_mm(a, b.T, out=c)
    torch.backends.cuda.matmul.allow_tf32 = problem.kind == "tf32"
    if problem.transposed:
        return lambda a, b, c: torch.mm(a, b.T, out=c)
    return lambda a, b, c: torch.mm(a, b, out=c)


def wrong(call: Callable[..., None], data: Any, expected: Any) -> str | None:
    """The error of the result of `call`, or None."""
    a, b, c = data
    c.fill_(-1 if c.dtype is torch.int32 else math.nan)
    try:
        call(a, b, c)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    rows, columns, exact, bound = expected
    if c.is_floating_point() and c.isnan().any():
        return "elements are not written"
    return checks.fault(c[rows][:, columns], exact, bound)


def exact(problem: Problem, a: torch.Tensor, b: torch.Tensor) -> Any:
    """Sampled rows and columns, the exact matmul there, and the error bound: operands of tf32 lose
    their last bits, and accumulators of 8-bit floats have 14 bits."""
    kind, rows = problem.kind, checks.sample(len(a))
    operand = b if problem.transposed or kind in TYPES_OTHER else b.T
    columns = checks.sample(len(operand), seed=1)
    unit = checks.UNITS[{"f8": "bf16", "tf32": "f32"}.get(kind, kind)]
    inner = {"i8": 0.0, "f8": checks.F8_ACCUMULATED}.get(kind, checks.ACCUMULATED)
    lost = 2 * checks.UNITS["tf32"] if kind == "tf32" else 0.0
    pair = checks.matmul(
        a.float()[rows], checks.host(operand.float()[columns]).T, unit, inner, lost
    )
    return rows, columns, *pair


def row(
    problem: Problem, size: tuple[int, int, int], kernels: dict[Tile, LoadedKernel]
) -> dict[str, Any]:
    """One row of the table."""
    torch.manual_seed(sum(size))
    data = inputs(problem, size)
    expected = exact(problem, data[0], data[1])
    calls = {str(tile): ours(kernel, tile, size) for tile, kernel in kernels.items()}
    calls["cublas"] = peer(problem)
    failed = {
        name: why
        for name, call in calls.items()
        if (why := wrong(call, data, expected)) is not None
    }
    del expected
    # cuBLAS is timed even if its 16-bit partial results exceed the bound; the table shows it.
    times = timing.measure(
        {n: c for n, c in calls.items() if n not in failed or n == "cublas"}, data
    )
    mine = {n: t for n, t in times.items() if n != "cublas"}
    best = min(mine, key=mine.__getitem__, default=None)
    ratio = times["cublas"] / mine[best] if best else None
    flops = 2 * math.prod(size) / times["cublas"] / 1e6
    shown = f"{ratio:.3f} by {best}" if best else "none right"
    cublas = f"cublas {times['cublas']:9.1f} us {flops:6.0f} TFLOP/s"
    print(f"{problem} {size!s:22} {cublas}, ours {shown}", flush=True)
    for name, why in failed.items():
        print(f"  wrong: {name}: {why}", flush=True)
    named = {str(tile): tile for tile in kernels if str(tile) in mine}
    chosen = min(named, key=lambda n: predicted_seconds(problem, named[n], size), default=None)
    ours_unmeasured = times["cublas"] / mine[chosen] if chosen else None
    if chosen:
        print(f"  the model chooses {chosen}: {ours_unmeasured:.3f}", flush=True)
    return {
        "problem": str(problem), "size": size, "us": times, "best": best, "ratio": ratio,
        "chosen": chosen, "ratio of the chosen": ours_unmeasured, "wrong": failed,
    }  # fmt: skip


def right_at_small_sizes(
    problem: Problem, kernels: dict[Tile, LoadedKernel]
) -> dict[Tile, LoadedKernel]:
    """The kernels whose results at small sizes are correct. The errors of the others are
    printed."""
    right = dict(kernels)
    for size in SMALL:
        data = inputs(problem, size)
        expected = exact(problem, data[0], data[1])
        for tile, kernel in list(right.items()):
            why = wrong(ours(kernel, tile, size), data, expected)
            if why is not None:
                print(f"{problem} {tile} at {size}: {why}", flush=True)
                del right[tile]
    return right


def main() -> int:
    """Measure and print. Returns 1 if a kernel is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--groups", default="square")
    parser.add_argument("--kinds", default="f16")
    parser.add_argument("--ways", default="NN")
    parser.add_argument("--tiles", type=int, default=len(TILES), help="only so many tile shapes")
    parser.add_argument("--only", default="", help="tiles whose names have one of these, by commas")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--watch", action="store_true")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    rows: list[dict[str, Any]] = []
    count = 0
    for kind in options.kinds.split(","):
        for way in options.ways.split(","):
            problem = Problem(kind, way == "NT" or kind in TYPES_OTHER)
            tiles = ODD if options.groups == "odd" else tiles_of(kind)
            named = [t for t in tiles if any(x in str(t) for x in options.only.split(","))]
            kernels = compile_tiles(problem, named[: options.tiles], options.watch)
            count += len(kernels)
            kernels = right_at_small_sizes(problem, kernels)
            count -= len(kernels)
            for size in (s for g in options.groups.split(",") for s in GROUPS[g]):
                if time.monotonic() < end:
                    compile_non_tma_variants(problem, kernels, size)
                    rows.append(row(problem, size, kernels))
                    if options.out:
                        results = {"device": device(), "rows": rows}
                        Path(options.out).write_text(json.dumps(results, indent=1))
    return int(bool(count))


def device() -> dict[str, str]:
    """The GPU, the versions and the commit."""
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
    )
    return {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "cuda": str(torch.version.cuda), "commit": commit.stdout.strip(),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
