"""Benchmark of matmuls against cuBLAS (through torch) and Triton, on one GPU in one run.

    python benchmarks/matmul.py [--out FILE.json] [--cubins FOLDER] [--types f16,f32]

The kernels of tileir are ordinary programs of pointers, masks, a loop and a dot, compiled for
`mma.sync` (`f32`: multiply-adds). Each is checked first at small sizes with partial tiles at every
edge, then at each measured size. `timing.py` describes the measurement. After `--seconds`, no
further row is started.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import checks
import timing
import torch
import triton
import triton.language as tl
from matmul_shapes import wrong

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.executors import gpu_target
from tileir.builder import BF16, F16, F32, I8, I32, Builder, arg, pointer

SIZES = (512, 1024, 2048, 4096, 8192)
GROUP = 8


class Config(NamedTuple):
    """The extents of a tile, the number of warps, the stages of the buffers, whether operand
    fragments are prefetched (None: the compiler's choice), and the maximum registers of a thread.
    """

    m: int
    n: int
    k: int
    warps: int
    stages: int
    prefetch: bool | None = None
    registers: int | None = None

    def __str__(self) -> str:
        way = {None: "", True: " ahead", False: " plain"}[self.prefetch]
        way += f" r{self.registers}" if self.registers else ""
        return f"{self.m}x{self.n}x{self.k} w{self.warps} s{self.stages}{way}"


class Case(NamedTuple):
    """The types of operands, accumulator and result, and the precision of f32 operands."""

    element: Any
    total: Any
    result: Any
    precision: str
    dtype: torch.dtype
    out: torch.dtype


CASES = {
    "f16": Case(F16, F32, F16, "ieee", torch.float16, torch.float16),
    "f32": Case(F32, F32, F32, "ieee", torch.float32, torch.float32),
    "bf16": Case(BF16, F32, BF16, "ieee", torch.bfloat16, torch.bfloat16),
    "tf32": Case(F32, F32, F32, "tf32", torch.float32, torch.float32),
    "i8": Case(I8, I32, I32, "ieee", torch.int8, torch.int32),
}

_HALF = (
    Config(128, 256, 64, 8, 3), Config(256, 128, 64, 8, 3), Config(256, 128, 64, 8, 4),
    Config(128, 128, 64, 4, 3), Config(128, 128, 64, 4, 2), Config(128, 128, 32, 4, 3),
    Config(128, 128, 32, 4, 3, True), Config(128, 128, 32, 4, 3, False),
    Config(128, 128, 32, 4, 4, False), Config(128, 128, 64, 8, 3), Config(64, 128, 64, 4, 3),
    Config(64, 64, 64, 4, 4), Config(64, 64, 128, 4, 3), Config(64, 64, 64, 8, 4),
)  # fmt: skip
CONFIGS: dict[str, tuple[Config, ...]] = {
    "f16": _HALF,
    "bf16": _HALF,
    "tf32": (
        Config(128, 256, 32, 8, 3), Config(128, 128, 32, 4, 3, True), Config(128, 128, 32, 8, 3),
        Config(64, 128, 32, 4, 3), Config(64, 64, 32, 4, 3),
    ),
    "f32": (
        Config(128, 128, 32, 8, 3), Config(128, 128, 32, 8, 4), Config(128, 128, 64, 8, 2),
        Config(256, 128, 16, 8, 3), Config(128, 256, 16, 8, 3), Config(128, 256, 16, 8, 4),
        Config(128, 128, 16, 4, 3), Config(128, 128, 16, 4, 4),
        Config(64, 128, 32, 4, 2, None, 168), Config(64, 128, 16, 4, 4, None, 168),
        Config(128, 64, 16, 4, 4, None, 168), Config(64, 64, 32, 4, 3), Config(64, 32, 32, 4, 3),
        Config(32, 32, 32, 2, 4),
    ),
    "i8": (Config(128, 128, 64, 8, 3, False), Config(64, 64, 64, 4, 4)),
}  # fmt: skip
TRITON: dict[str, tuple[Config, ...]] = {
    "f16": (Config(128, 256, 64, 8, 3), Config(128, 128, 64, 4, 3), Config(64, 64, 64, 4, 4)),
    "tf32": (Config(128, 256, 32, 8, 3), Config(64, 64, 32, 4, 4)),
    "f32": (Config(64, 64, 16, 4, 3), Config(128, 64, 16, 8, 3)),
    "i8": (Config(128, 256, 128, 8, 3), Config(64, 64, 64, 4, 4)),
}
TRITON["bf16"] = TRITON["f16"]


@triton.jit
def triton_matmul(
    a, b, c, m, n, k,  # noqa: ANN001
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
    TOTAL: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, M), tl.cdiv(n, N)
    first = pid // (GROUP * tiles_n) * GROUP
    size = min(tiles_m - first, GROUP)
    i = first + pid % (GROUP * tiles_n) % size
    j = pid % (GROUP * tiles_n) // size
    rows, columns = i * M + tl.arange(0, M), j * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    left = a + (rows % m)[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((M, N), TOTAL)
    for at in range(0, k, K):
        x = tl.load(left, mask=depth[None, :] < k - at, other=0.0)
        y = tl.load(right, mask=depth[:, None] < k - at, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        left += K
        right += K * n
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=mask)


def tileir_matmul(case: Case, config: Config) -> Any:
    """C [m, n] = A [m, k] B [k, n], with tiles in groups of `GROUP` rows of tiles."""
    bm, bn, bk = config[:3]
    b = Builder()
    zero = 0 if case.element.is_integer else 0.0
    buffers = {x: arg(pointer(case.element), aligned=16, readonly=True) for x in "ab"}
    buffers["c"] = arg(pointer(case.result), aligned=16)
    sizes = {x: arg(I32, multiple_of=16) for x in "mnk"}
    with b.kernel("matmul", **buffers, **sizes) as (x, y, z, m, n, k):
        i, j = _tile_of(b, (m + (bm - 1)) // bm, (n + (bn - 1)) // bn)
        rows, columns = (i * bm + b.arange(bm))[:, None], (j * bn + b.arange(bn))[None, :]
        depth = b.arange(bk)
        left, right = (
            b.var(x + (rows * k + depth[None, :])),
            b.var(y + (depth[:, None] * n + columns)),
        )
        total = b.var(b.full((bm, bn), 0 if case.total.is_integer else 0.0, case.total))
        with b.for_(0, k, bk, stages=config.stages) as at:
            inside = depth < k - at
            low = (rows < m).broadcast_to(bm, bk) & inside[None, :].broadcast_to(bm, bk)
            high = (columns < n).broadcast_to(bk, bn) & inside[:, None].broadcast_to(bk, bn)
            operands = left.get().load(low, zero), right.get().load(high, zero)
            total.set(b.dot(*operands, total.get(), precision=case.precision))
            left.set(left.get() + bk)
            right.set(right.get() + n * bk)
        mask = (rows < m).broadcast_to(bm, bn) & (columns < n).broadcast_to(bm, bn)
        accumulator = total.get()
        result = accumulator if case.result is case.total else accumulator.to(case.result)
        (z + (rows * n + columns)).store(result, mask)
    return b.module()


def _tile_of(b: Builder, tiles_m: Any, tiles_n: Any) -> tuple[Any, Any]:
    """The row and the column of this instance's tile."""
    pid = b.program_id(axis=0)
    first = pid // (tiles_n * GROUP) * GROUP
    size = b.smin(tiles_m - first, GROUP)
    within = pid % (tiles_n * GROUP)
    return first + within % size, within // size


def compile_kernels(kinds: list[str], cubins: str | None) -> dict[tuple[str, Config], LoadedKernel]:
    """Compile every kernel, and print the resources that each uses."""
    keys = [(kind, config) for kind in kinds for config in CONFIGS[kind]]
    target = gpu_target().removesuffix("a")

    def one(key: tuple[str, Config]) -> Any:
        module = tileir_matmul(CASES[key[0]], key[1])
        kernel = tileir.backend.compile(module, target, options_of(key[1]))
        return kernel, kernel.metadata

    kernels: dict[tuple[str, Config], LoadedKernel] = {}
    with ThreadPoolExecutor(16) as pool:
        for key, (kernel, used) in zip(keys, pool.map(one, keys), strict=True):
            kernels[key] = LoadedKernel(kernel)
            print(f"{key[0]:5} {key[1]!s:20} {used.registers} registers {used.spills} spilled "
                  f"{used.shared} shared", flush=True)  # fmt: skip
            if cubins:
                name = f"{key[0]}_{key[1]!s}".replace(" ", "_")
                Path(cubins, f"{name}.cubin").write_bytes(kernel.cubin)
                Path(cubins, f"{name}.ptx").write_text(kernel.ptx)
    return kernels


def options_of(config: Config) -> Options:
    """The options of a configuration."""
    _, _, _, warps, stages, prefetch, registers = config
    return Options(
        num_warps=warps, num_stages=stages, prefetch_operands=prefetch, max_registers=registers
    )


def ours(kernel: LoadedKernel, config: Config, size: tuple[int, int, int]) -> Callable[..., None]:
    """A function of (a, b, c) that launches `kernel`."""
    m, n, k = size
    launch = kernel[-(-m // config.m) * -(-n // config.n)]
    return lambda a, b, c: launch(a, b, c, m, n, k, stream=torch.cuda.current_stream().cuda_stream)


def variants(
    kind: str,
    size: tuple[int, int, int],
    kernels: dict[tuple[str, Config], LoadedKernel],
    peers: bool,
) -> dict[str, Callable[..., None]]:
    """Functions by name. Each takes (a, b, c), starts to compute c, and returns immediately."""
    case, (m, n, k) = CASES[kind], size
    calls: dict[str, Callable[..., None]] = {}
    for config in CONFIGS[kind]:
        calls[f"tileir {config}"] = ours(kernels[kind, config], config, size)
    if not peers:
        return calls
    total = tl.int32 if case.total is I32 else tl.float32
    for config in TRITON[kind]:
        grid = (-(-m // config.m) * -(-n // config.n),)
        calls[f"triton {config}"] = lambda a, b, c, x=config, g=grid: triton_matmul[g](
            a, b, c, m, n, k, M=x.m, N=x.n, K=x.k, GROUP=GROUP, TOTAL=total,
            PRECISION=case.precision, num_warps=x.warps, num_stages=x.stages,
        )  # fmt: skip
    return calls | {"cublas": cublas(kind)}


def cublas(kind: str) -> Callable[..., None]:
    """A function of (a, b, c) that calls torch."""
    if kind == "i8":
        return lambda a, b, c: torch._int_mm(a, b, out=c)
    return lambda a, b, c: torch.mm(a, b, out=c)


def inputs(case: Case, size: tuple[int, int, int]) -> tuple[torch.Tensor, ...]:
    """Random operands and a poisoned result."""
    m, n, k = size
    if case.dtype is torch.int8:
        a, b = (torch.randint(-128, 128, s, device="cuda", dtype=torch.int8)
                for s in ((m, k), (k, n)))  # fmt: skip
        return a, b, torch.full((m, n), -1, device="cuda", dtype=case.out)
    a, b = (torch.randn(s, device="cuda").to(case.dtype) for s in ((m, k), (k, n)))
    return a, b, torch.full((m, n), math.nan, device="cuda", dtype=case.out)


def reference(kind: str, a: torch.Tensor, b: torch.Tensor) -> Any:
    """Sampled rows and columns, the exact matmul there, and the error bound."""
    rows, columns = checks.sample(len(a)), checks.sample(b.shape[1], seed=1)
    unit = checks.UNITS["f32" if kind == "tf32" else kind]
    inner = 0.0 if kind == "i8" else checks.ACCUMULATED
    lost = 2 * checks.UNITS["tf32"] if kind == "tf32" else 0.0
    return rows, columns, *checks.matmul(a[rows], b[:, columns], unit, inner, lost)


def small_size_faults(kind: str, kernels: dict[tuple[str, Config], LoadedKernel]) -> dict[str, str]:
    """The errors of each kernel of tileir at small sizes."""
    faults: dict[str, str] = {}
    for size in ((16, 16, 16), (48, 80, 112), (272, 400, 144), (128, 256, 16), (400, 528, 720)):
        case = CASES[kind]
        data = inputs(case, size)
        expected = reference(kind, *data[:2])
        for name, call in variants(kind, size, kernels, peers=False).items():
            if (why := wrong(call, data, expected)) is not None:
                faults[name] = f"{size}: {why}"
    return faults


def row(kind: str, size: int, kernels: Any, bad: dict[str, str]) -> dict[str, Any]:
    """One row of the table."""
    case, extents = CASES[kind], (size, size, size)
    torch.manual_seed(size)
    data = inputs(case, extents)
    calls = variants(kind, extents, kernels, peers=True)
    expected = reference(kind, data[0], data[1])
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    failed = dict(bad)
    for name, call in calls.items():
        if name not in failed and (why := wrong(call, data, expected)) is not None:
            failed[name] = why
    del expected
    times = timing.measure({n: c for n, c in calls.items() if n not in failed}, data)
    best = {compiler: _best(times, compiler) for compiler in ("tileir", "triton", "cublas")}
    mine = best["tileir"][1]
    return {
        "type": kind, "size": size, "wrong": failed, "microseconds": times, "best": best,
        "teraflops": {compiler: 2 * size**3 / t / 1e6 for compiler, (_, t) in best.items()},
        "ratio_cublas": best["cublas"][1] / mine, "ratio_triton": best["triton"][1] / mine,
    }  # fmt: skip


def _best(times: dict[str, float], compiler: str) -> tuple[str, float]:
    mine = {name: t for name, t in times.items() if name.startswith(compiler)}
    name = min(mine, key=lambda n: mine[n], default="none")
    return name, mine.get(name, math.inf)


def versions() -> dict[str, str]:
    """The GPU, the versions, the commit and the date."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "triton": triton.__version__, "tileir": tileir.__version__,
        "commit": head.stdout.strip(), "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def show(line: dict[str, Any]) -> None:
    """Print a row of the table."""
    flops, best = line["teraflops"], line["best"]
    print(
        f"{line['type']:5} {line['size']:5} {flops['tileir']:7.1f} {flops['cublas']:7.1f} "
        f"{flops['triton']:7.1f} {line['ratio_cublas']:8.3f} {line['ratio_triton']:8.3f}  "
        f"{best['tileir'][0]} | {best['triton'][0]}",
        flush=True,
    )
    mine = sorted((t, n) for n, t in line["microseconds"].items() if n.startswith("tileir"))
    print("      " + ", ".join(f"{n[7:]}: {t:.1f}" for t, n in mine), flush=True)
    for name, why in line["wrong"].items():
        print(f"      WRONG {name}: {why}", flush=True)


def main() -> int:
    """Measure the table. The exit status states whether every result of tileir was correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--cubins", help="write machine code and PTX into this folder")
    parser.add_argument("--types", default=",".join(CASES))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--seconds", type=float, default=220, help="begin no row after that")
    options = parser.parse_args()
    began, kinds = time.monotonic(), options.types.split(",")
    kernels = compile_kernels(kinds, options.cubins)
    print(f"compiled in {time.monotonic() - began:.1f} s", flush=True)
    bad = {kind: small_size_faults(kind, kernels) for kind in kinds}
    for kind, faults in bad.items():
        print(f"{kind}: {faults or 'every kernel right at small sizes'}", flush=True)
    print(f"{'':11} {'tileir':>7} {'cublas':>7} {'triton':>7} {'/cublas':>8} {'/triton':>8}")
    lines: list[dict[str, Any]] = []
    for kind in kinds:
        for size in map(int, options.sizes.split(",")):
            if time.monotonic() - began < options.seconds:
                lines.append(row(kind, size, kernels, bad[kind]))
                show(lines[-1])
                if options.out:
                    text = json.dumps({**versions(), "rows": lines}, indent=1)
                    Path(options.out).write_text(text)
    print(f"{time.monotonic() - began:.0f} s")
    return any(name.startswith("tileir") for line in lines for name in line["wrong"])


if __name__ == "__main__":
    sys.exit(main())
