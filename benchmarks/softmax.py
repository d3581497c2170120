"""Benchmark of softmax against Triton and torch, on one GPU in one run.

    python benchmarks/softmax.py [--out FILE.json] [--quick]

Prints speed ratios per shape and writes every figure as JSON. Every result is checked against a
float64 softmax on random inputs; outputs are poisoned before. `timing.py` describes the
measurement.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import checks
import timing
import torch
import triton
import triton.language as tl

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.builder import BF16, F32, Builder, arg, pointer

SHAPES = ((583, 931), (1823, 781), (4096, 1024), (16384, 512), (2048, 32768), (8192, 4096))
WARPS = (1, 2, 4, 8, 16, 32)


@triton.jit
def triton_softmax(y, x, stride_y, stride_x, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    value = tl.load(x + row * stride_x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    value = value - tl.max(value, axis=0)
    top = tl.exp(value)
    tl.store(y + row * stride_y + offsets, top / tl.sum(top, axis=0), mask=mask)


def tileir_softmax(rows: int, columns: int, element: Any, block: int) -> Any:
    """A kernel for this shape, with `block` rows per program instance."""
    b = Builder()
    buffers = {
        "x": arg(pointer(element), aligned=16, readonly=True, noalias=True),
        "y": arg(pointer(element), aligned=16, noalias=True),
    }
    with b.kernel("softmax", **buffers) as (x, y):
        row = b.program_id(axis=0) * block
        offsets, mask, axis = row * columns + b.arange(columns), None, 0
        if block > 1:
            row = (row + b.arange(block))[:, None]
            offsets, axis = row * columns + b.arange(columns)[None, :], 1
            mask = (row < rows).broadcast_to(block, columns) if rows % block else None
        value = (x + offsets).load(mask).to(F32)
        top = b.exp(value - _along(value.max(axis=axis), value, axis), fast="approx")
        result = b.fdiv(top, _along(top.sum(axis=axis), top, axis), fast="approx")
        (y + offsets).store(result.to(element), mask)
    return b.module()


def _along(value: Any, like: Any, axis: int) -> Any:
    """A reduced value, broadcast to the shape of the tile `like` that was reduced."""
    if not axis:
        return value.builder.splat(value, to=like.type)
    return value[:, None].broadcast_to(*like.type.shape)


def candidates(columns: int) -> list[tuple[int, int]]:
    """Useful combinations of (rows per instance, warps): 4 to 64 elements per thread, and at least
    a warp per row."""
    result = []
    for block in (1, 2, 4, 8):
        for warps in WARPS:
            per_thread = block * columns / (32 * warps)
            if 4 <= per_thread <= 64 and (block == 1 or block <= warps):
                result.append((block, warps))
    return result


def model(rows: int, columns: int) -> tuple[int, int]:
    """Rows per instance and warps, chosen without measurements: 32 elements per thread if there are
    many rows, fewer if there are few and latency matters. Short rows share an instance."""
    each = 32 if rows >= 4096 else 16 if rows >= 1024 else 8
    warps = min(16, max(1, 1 << max(0, round(math.log2(columns / (32 * each))))))
    block = 2 if columns <= 512 and rows >= 4096 else 1
    return block, block * warps


def variants(rows: int, columns: int, dtype: torch.dtype, quick: bool) -> dict[str, Any]:
    """Functions by name. Each takes (x, y), starts to fill y, and returns immediately."""
    element = {torch.float32: F32, torch.bfloat16: BF16}[dtype]
    calls: dict[str, Callable[[torch.Tensor, torch.Tensor], None]] = {}
    default = model(rows, columns)
    for block, warps in dict.fromkeys([default, *([] if quick else candidates(columns))]):
        module = tileir_softmax(rows, columns, element, block)
        compiled = tileir.backend.compile(module, options=Options(num_warps=warps))
        kernel = LoadedKernel(compiled)[-(-rows // block)]
        name = "tileir" if (block, warps) == default else f"tileir r{block} w{warps}"
        calls[name] = lambda x, y, k=kernel: k(x, y, stream=torch.cuda.current_stream().cuda_stream)
    block = triton.next_power_of_2(columns)
    for warps in (4, 8) if quick else (1, 2, 4, 8, 16, 32):
        if block >= 32 * warps:
            calls[f"triton w{warps}"] = lambda x, y, w=warps: triton_softmax[(rows,)](
                y, x, columns, columns, columns, BLOCK=block, num_warps=w
            )
    calls["torch"] = lambda x, y: torch.softmax(x, 1, out=y)
    return calls


def wrong(call: Callable[..., None], rows: int, columns: int, dtype: torch.dtype) -> str | None:
    """The error of the result of `call` on fresh inputs, or None."""
    x = torch.randn(rows, columns, device="cuda").to(dtype) * 3
    y = torch.full_like(x, float("nan"))
    call(x, y)
    torch.cuda.synchronize()
    unit = checks.UNITS[{torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]]
    if y.isnan().any():
        return "elements are not written"
    some = checks.sample(rows)
    return checks.fault(y[some], *checks.softmax(x[some], unit))


def row(rows: int, columns: int, dtype: torch.dtype, quick: bool) -> dict[str, Any]:
    """One row of the table."""
    calls = variants(rows, columns, dtype, quick)
    bad = {name: why for name, call in calls.items() if (why := wrong(call, rows, columns, dtype))}
    good = {name: call for name, call in calls.items() if name not in bad}
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    times = timing.measure(good, (x, torch.empty_like(x)))
    best = {peer: _best(times, peer) for peer in ("tileir", "triton", "torch")}
    moved = 2 * rows * columns * dtype.itemsize
    chosen = times.get("tileir", math.inf)
    return {
        "shape": [rows, columns], "dtype": str(dtype).removeprefix("torch."), "wrong": bad,
        "microseconds": times, "best": best, "terabytes_per_second": moved / chosen / 1e6,
        "ratio": best["triton"][1] / chosen, "ratio_best": best["triton"][1] / best["tileir"][1],
        "ratio_torch": best["torch"][1] / chosen,
    }  # fmt: skip


def _best(times: dict[str, float], peer: str) -> tuple[str, float]:
    mine = {name: t for name, t in times.items() if name.startswith(peer)}
    name = min(mine, key=lambda n: mine[n], default="none")
    return name, mine.get(name, math.inf)


def versions() -> dict[str, str]:
    """The versions and the device of a measurement."""
    return {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "triton": triton.__version__, "tileir": tileir.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def main() -> int:
    """Measure the table. The exit status states whether every result of tileir was correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--quick", action="store_true", help="the model's choice only")
    options = parser.parse_args()
    lines = []
    print(
        f"{'shape':>12} {'type':9} {'us':>7} {'TB/s':>5} {'/Triton':>8} {'best':>6} {'/torch':>7}"
    )
    for rows, columns in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            line = row(rows, columns, dtype, options.quick)
            lines.append(line)
            microseconds = line["microseconds"].get("tileir", math.nan)
            print(
                f"{rows:>6}x{columns:<5} {line['dtype']:9} {microseconds:7.2f} "
                f"{line['terabytes_per_second']:5.2f} {line['ratio']:8.3f} "
                f"{line['ratio_best']:6.3f} {line['ratio_torch']:7.3f}  {line['best']['tileir'][0]}"
                f" | {line['best']['triton'][0]} {line['wrong'] or ''}",
                flush=True,
            )
    if options.out:
        with open(options.out, "w") as file:
            json.dump({**versions(), "rows": lines}, file, indent=1)
    return any(name.startswith("tileir") for line in lines for name in line["wrong"])


if __name__ == "__main__":
    sys.exit(main())
