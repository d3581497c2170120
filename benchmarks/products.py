"""Matrix products by warpgroups and tensor maps against cuBLAS (through torch), one GPU, one run.

    python benchmarks/products.py [--out FILE.json] [--groups square,skinny] [--seconds 500]
    python benchmarks/products.py --groups odd --ways NN,NT     rows that no tensor map can have

Our kernels are the ordinary program `tileir.testing.kernels.matmul`: pointers, masks, a loop and a
dot. Every tile shape is compiled once, checked at small sizes with every edge, and at each size
against torch in f32 with the result poisoned before; `timing.py` says how variants are timed.
`--watch`: waits that last over 1.5 s end the kernel with an error.
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
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import timing
import torch

import tileir.backend
from tileir import records
from tileir.backend import Options
from tileir.backend.compile import staged
from tileir.backend.driver.launch import Kernel
from tileir.backend.prepare import prepare
from tileir.backend.target import target as target_named
from tileir.backend.tuning.cost import estimate, machine_of
from tileir.backend.tuning.use import use_of
from tileir.backend.tuning.work import work_of
from tileir.builder import BF16, F8E4M3, F16, F32, I8, I32
from tileir.testing.kernels import matmul

BUDGET = {"f16": (F16, torch.float16, 2**-11), "bf16": (BF16, torch.bfloat16, 2**-8)}
"""Factors, as torch has them, and the unit of rounding of results that are the same."""

OTHERS = {
    "f8": ((F8E4M3, F32, BF16), torch.float8_e4m3fn, torch.bfloat16),
    "i8": ((I8, I32, I32), torch.int8, torch.int32),
    "tf32": ((F32, F32, F32), torch.float32, torch.float32),
}
"""Types of factors, sums and results, as torch has factors and results; second factors are [n, k],
as these products want them."""


class Tile(NamedTuple):
    """Extents of a tile, warps that multiply (0 to choose), slots (0: as many as fit), whether
    blocks work for many tiles, whether two warpgroups take them in turns, blocks of a cluster
    that share a tile's depth (0: left to the launcher), or load for each other, and whether the
    grid is `flat`."""

    m: int
    n: int
    k: int
    warps: int = 0
    slots: int = 0
    persistent: bool = True
    pingpong: bool = False
    split: int = 1
    multicast: int = 1
    flat: bool = False

    def __str__(self) -> str:
        way = " turns" if self.pingpong else "" if self.persistent else " once"
        shared = {0: " as launched", 1: ""}.get(self.split, f" by {self.split}")
        cast = "" if self.multicast == 1 else f" multicast {self.multicast}"
        flat = " flat" if self.flat else ""
        return f"{self.m}x{self.n}x{self.k} w{self.warps} s{self.slots}{way}{shared}{cast}{flat}"

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Of instances for a result of `m` x `n`."""
        tiles = -(-m // self.m), -(-n // self.n)
        return tiles if self.flat else (math.prod(tiles), 1)


def _flat(*extents: int, split: int = 1, slots: int = 0) -> Tile:
    return Tile(*extents, slots=slots, persistent=False, split=split, flat=True)


TILES = (
    Tile(128, 256, 64), Tile(128, 192, 64), Tile(128, 128, 64), Tile(256, 128, 64, 8),
    Tile(128, 64, 64), Tile(64, 128, 64), Tile(64, 64, 64), Tile(64, 64, 128),
    Tile(128, 256, 64, persistent=False), Tile(128, 128, 64, persistent=False),
    Tile(64, 128, 64, persistent=False), Tile(64, 64, 64, persistent=False),
    Tile(64, 32, 128, persistent=False), Tile(64, 16, 128, persistent=False),
    Tile(192, 144, 64, persistent=False), Tile(192, 160, 64), Tile(128, 176, 64),
    Tile(64, 96, 64, persistent=False), Tile(128, 192, 64, persistent=False), Tile(64, 256, 64),
    Tile(128, 200, 64, persistent=False), Tile(128, 120, 64, persistent=False), Tile(128, 224, 64),
    Tile(128, 224, 64, persistent=False),
    Tile(128, 128, 64, pingpong=True), Tile(64, 256, 64, pingpong=True),
    Tile(64, 128, 64, pingpong=True), Tile(64, 64, 64, pingpong=True),
    Tile(64, 192, 64, pingpong=True), Tile(128, 160, 64, pingpong=True),
    *(Tile(64, 16, 128, persistent=False, split=s) for s in (4, 8)),
    *(Tile(64, 32, 128, persistent=False, split=s) for s in (4, 8)),
    *(Tile(64, 16, 128, persistent=False, split=s, slots=n) for s, n in ((2, 0), (4, 4), (8, 2))),
    *(Tile(64, 32, 128, persistent=False, split=s, slots=n) for s, n in ((2, 7), (4, 2))),
    *(Tile(64, 64, 64, persistent=False, split=s) for s in (2, 4, 8)),
    *(Tile(64, 64, 64, persistent=False, split=s, slots=4) for s in (4, 8)),
    *(Tile(64, 128, 64, persistent=False, split=s) for s in (2, 4)),
    *(Tile(128, 64, 64, persistent=False, split=s) for s in (2, 4)),
    *(Tile(128, 128, 64, persistent=False, split=s) for s in (2, 4)), Tile(64, 64, 64, split=4),
    Tile(64, 64, 64, split=0), Tile(128, 128, 64, split=0),
    _flat(64, 16, 128), _flat(64, 32, 128), _flat(64, 64, 128), _flat(64, 128, 64),
    _flat(128, 64, 64), _flat(128, 256, 64), _flat(128, 128, 64),
    _flat(64, 16, 128, split=8, slots=2), _flat(64, 16, 128, split=2), _flat(64, 32, 128, split=4),
    *(Tile(128, n, 64, multicast=r) for n in (256, 192, 128) for r in (2, 4)),
    *(Tile(m, n, 64, pingpong=True, multicast=2) for m, n in ((128, 128), (128, 160), (64, 256))),
)  # fmt: skip

ODD = (
    Tile(128, 256, 64), Tile(128, 192, 64), Tile(128, 128, 64), Tile(64, 256, 64),
    Tile(128, 200, 64), Tile(128, 200, 64, persistent=False), Tile(128, 176, 64), Tile(64, 128, 64),
    Tile(192, 160, 64), Tile(128, 160, 64, persistent=False), Tile(64, 64, 64, persistent=False),
    Tile(64, 128, 64, persistent=False), Tile(40, 64, 64, persistent=False), Tile(40, 128, 64),
    Tile(40, 64, 128, persistent=False), Tile(40, 128, 64, persistent=False),
    Tile(64, 72, 64, persistent=False), Tile(64, 72, 128, persistent=False), Tile(40, 128, 128),
)  # fmt: skip
"""Tiles for the group `odd`, which is compiled once more for every way that rows are aligned."""

GROUPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "square": tuple((n, n, n) for n in (512, 1024, 2048, 4096, 8192)),
    "skinny": tuple((1760, n, 1760) for n in (16, 32, 64, 128, 256, 512, 1024, 1760)),
    "deepspeech": (
        *((2560, n, 2560) for n in (16, 32, 64, 128)),
        (2048, 7000, 2048), (35, 8457, 4096), (5124, 700, 2560),
    ),
    "shallow": ((512, 512, 512), (2048, 512, 512), (512, 512, 2048), (64, 64, 16384)),
    "odd": (
        (3001, 5003, 701), (3001, 5000, 704), (35, 8457, 4096), (5124, 700, 2560),
        (1760, 1760, 1760), (2048, 2052, 2052), (2048, 2050, 2050), (2049, 2049, 2049),
        (4096, 4100, 4096), (4096, 4096, 4098),
    ),
    "large": ((16384, 16384, 16384),),
}  # fmt: skip
SMALL = ((1, 8, 8), (64, 64, 64), (72, 200, 136), (130, 264, 520), (400, 528, 720))


class Problem(NamedTuple):
    """Factor type, and whether the second factor is [n, k]."""

    kind: str
    transposed: bool

    def __str__(self) -> str:
        return f"{self.kind} {'NT' if self.transposed else 'NN'}"


def compiled(problem: Problem, tiles: Iterable[Tile], watch: bool) -> dict[Tile, Kernel]:
    """Kernels by tile, assembled; what does not compile is said and left out."""

    def one(tile: Tile) -> Any:
        module = program(problem, tile)
        options = records.evolve(options_of(tile), watch_waits=watch)
        begun = time.perf_counter()
        try:
            found = tileir.backend.compile(module, "sm_90a", options)
            used = found.metadata
        except Exception as error:
            return tile, None, f"{type(error).__name__}: {error}"[:300]
        took = time.perf_counter() - begun
        return (
            tile,
            found,
            (f"{used.registers} registers {used.spills} spilled {used.shared} shared {took:.2f} s"),
        )

    kernels: dict[Tile, Kernel] = {}
    with ThreadPoolExecutor(8) as pool:
        for tile, found, text in pool.map(one, tiles):
            print(f"{problem} {tile!s:24} {text}", flush=True)
            if found is not None:
                kernels[tile] = Kernel(found)
    return kernels


def options_of(tile: Tile) -> Options:
    """How a tile shape is compiled."""
    return Options(
        num_warps=tile.warps or None, stages=tile.slots or None, roles=True,
        persistent=tile.persistent, pingpong=tile.pingpong, split=tile.split,
        multicast=tile.multicast,
    )  # fmt: skip


def program(problem: Problem, tile: Tile) -> Any:
    """The module of a kernel."""
    m, n, k = tile[:3]
    if problem.kind in BUDGET:
        factor = BUDGET[problem.kind][0]
        return matmul(m, n, k, factor, result=factor, transposed=problem.transposed, flat=tile.flat)
    types, precision = OTHERS[problem.kind][0], "tf32" if problem.kind == "tf32" else "ieee"
    imprecise = k if problem.kind == "f8" else 0
    return matmul(
        m, n, k, *types, precision=precision, transposed=True, max_imprecise=imprecise,
        flat=tile.flat,
    )  # fmt: skip


def tiles_of(kind: str) -> tuple[Tile, ...]:
    """Tiles whose steps of K are rows of 128 bytes, for factors of one byte or four."""
    depth = {"f8": 128, "i8": 128, "tf32": 32}.get(kind)
    if depth is None:
        return TILES
    return tuple(dict.fromkeys(tile._replace(k=depth) for tile in TILES if tile.n != 144))


def suited(problem: Problem, kernels: dict[Tile, Kernel], size: tuple[int, int, int]) -> None:
    """Compile what a size asks for, where no tensor map can have its rows."""
    m, n, k = size
    shapes = ((m, k), (n, k) if problem.transposed else (k, n), (m, n))
    wide = sum(32 * rows * columns for rows, columns in shapes)
    numbers = (1 << 30, (1 << 30) + wide, (1 << 30) + 2 * wide, m, n, k, 1, 1, 1)

    def one(kernel: Kernel) -> None:
        host = kernel.compiled.host
        if host is None or host.resolved(numbers[: host.arguments]) is not None:
            return
        kernel.suited(host.unmapped(numbers[: host.arguments])).compiled.metadata  # noqa: B018

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, kernels.values()))


def ours(kernel: Kernel, tile: Tile, size: tuple[int, int, int]) -> Callable[..., None]:
    """A function of (a, b, c) that launches `kernel`."""
    m, n, k = size
    launch = kernel[tile.grid(m, n)]
    return lambda a, b, c: launch(a, b, c, m, n, k, stream=torch.cuda.current_stream().cuda_stream)


def inputs(problem: Problem, size: tuple[int, int, int]) -> tuple[torch.Tensor, ...]:
    """Random factors and a poisoned result."""
    m, n, k = size
    if problem.kind in OTHERS:
        return _others(problem, size)
    dtype = BUDGET[problem.kind][1]
    shapes = ((m, k), (n, k) if problem.transposed else (k, n))
    a, b = (torch.randn(s, device="cuda").to(dtype) for s in shapes)
    return a, b, torch.full((m, n), math.nan, device="cuda", dtype=dtype)


def _others(problem: Problem, size: tuple[int, int, int]) -> tuple[torch.Tensor, ...]:
    _, dtype, result = OTHERS[problem.kind]
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


def wrong(problem: Problem, call: Callable[..., None], data: Any, expected: Any) -> str | None:
    """What is wrong with the result of `call`; None where nothing is."""
    a, b, c = data
    c.fill_(-1 if c.dtype is torch.int32 else math.nan)
    try:
        call(a, b, c)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    exact, magnitude = expected
    bound = _bound(problem.kind, exact, magnitude, a.shape[1])
    off = ((c.to(exact.dtype) - exact).abs() - bound).nan_to_num(math.inf, posinf=math.inf)
    worst = off.max().item()
    return None if worst <= 0 else f"off by {worst:.3g} more than the bound"


def _bound(kind: str, exact: Any, magnitude: Any, depth: int) -> Any:
    """How far a result may be off: factors of tf32 lose their last bits, sums of products of 8-bit
    floats have 14 bits."""
    if kind == "i8":
        return torch.zeros_like(exact)
    rounded = {"tf32": magnitude * 2**-9, "f8": exact.abs() * 2**-7 + magnitude * 2**-12}
    result = rounded[kind] if kind in rounded else exact.abs() * BUDGET[kind][2] * 2
    return result + magnitude * (depth + 1) * 2**-24


def exact(problem: Problem, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The product and the product of magnitudes, in f32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    kinds = torch.float64 if problem.kind == "i8" else torch.float32
    a, b = a.to(kinds), (b.T if problem.transposed else b).to(kinds)
    return a @ b, a.abs() @ b.abs()


def row(
    problem: Problem, size: tuple[int, int, int], kernels: dict[Tile, Kernel]
) -> dict[str, Any]:
    """One line of the table."""
    torch.manual_seed(sum(size))
    data = inputs(problem, size)
    expected = exact(problem, data[0], data[1])
    calls = {str(tile): ours(kernel, tile, size) for tile, kernel in kernels.items()}
    calls["cublas"] = peer(problem)
    failed = {
        name: why
        for name, call in calls.items()
        if (why := wrong(problem, call, data, expected)) is not None
    }
    del expected
    times = timing.measure({n: c for n, c in calls.items() if n not in failed}, data)
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
    chosen = min(named, key=lambda n: predicted(problem, named[n], size), default=None)
    ours_unmeasured = times["cublas"] / mine[chosen] if chosen else None
    if chosen:
        print(f"  the model chooses {chosen}: {ours_unmeasured:.3f}", flush=True)
    return {
        "problem": str(problem), "size": size, "us": times, "best": best, "ratio": ratio,
        "chosen": chosen, "ratio of the chosen": ours_unmeasured, "wrong": failed,
    }  # fmt: skip


def predicted(problem: Problem, tile: Tile, size: tuple[int, int, int]) -> float:
    """Seconds that the cost model expects."""
    done, portable = _staged(problem, tile)
    m, n, k = size
    grid = tile.grid(m, n)
    work = work_of(portable, (*grid, 1), {"m": m, "n": n, "k": k})
    use = use_of(done, target_named("sm_90a"), work)
    return estimate(work, use, math.prod(grid), machine_of("sm_90a")).seconds


@cache
def _staged(problem: Problem, tile: Tile) -> Any:
    """The stages of a kernel, and it before any."""
    module = program(problem, tile)
    done = staged(module, target_named("sm_90a"), options_of(tile), None)
    return done, prepare(module, done.kernel).functions[done.kernel]


def checked(problem: Problem, kernels: dict[Tile, Kernel]) -> dict[Tile, Kernel]:
    """The kernels that are right at small sizes."""
    right = dict(kernels)
    for size in SMALL:
        data = inputs(problem, size)
        expected = exact(problem, data[0], data[1])
        for tile, kernel in list(right.items()):
            why = wrong(problem, ours(kernel, tile, size), data, expected)
            if why is not None:
                print(f"{problem} {tile} at {size}: {why}", flush=True)
                del right[tile]
    return right


def main() -> int:
    """Measure and print; 1 where a kernel is wrong."""
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
            problem = Problem(kind, way == "NT" or kind in OTHERS)
            tiles = ODD if options.groups == "odd" else tiles_of(kind)
            named = [t for t in tiles if any(x in str(t) for x in options.only.split(","))]
            kernels = compiled(problem, named[: options.tiles], options.watch)
            count += len(kernels)
            kernels = checked(problem, kernels)
            count -= len(kernels)
            for size in (s for g in options.groups.split(",") for s in GROUPS[g]):
                if time.monotonic() < end:
                    suited(problem, kernels, size)
                    rows.append(row(problem, size, kernels))
    if options.out:
        Path(options.out).write_text(json.dumps({"device": device(), "rows": rows}, indent=1))
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
