"""The paper's convolutions (Tillet et al., MAPL 2019, Table 1, tasks 1 to 5) against cuDNN, one
GPU, one run.

    python benchmarks/convolutions.py [--out FILE.json] [--seconds 300]

f16, NHWC, 3 x 3 with zeros around. Our kernel is the ordinary program
`tileir.testing.kernels.convolution`: an implicit matmul whose rows are the pixels of
blocks of an image. Each result is checked (`checks.convolution`) with the output poisoned before;
`timing.py` says how variants are timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import checks
import matmul_shapes
import timing
import torch

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import Kernel
from tileir.testing.kernels import convolution

TASKS = {1: (112, 112, 64, 128), 2: (56, 56, 128, 256), 3: (28, 28, 256, 512),
         4: (14, 14, 512, 512), 5: (7, 7, 512, 512)}  # fmt: skip
"""Height, width, channels in and out."""
IMAGES = 4
CHECKED = 8
"""Rows and columns of every image that are compared."""


class Tile(NamedTuple):
    """Rows and columns of pixels, channels out, channels in of a step, and whether the kernel is
    persistent."""

    height: int
    width: int
    n: int
    k: int
    persistent: bool = False

    def __str__(self) -> str:
        way = "" if self.persistent else " once"
        return f"{self.height}x{self.width}x{self.n}x{self.k}{way}"


TILES = (
    Tile(8, 16, 128, 64), Tile(8, 16, 128, 64, True), Tile(8, 16, 256, 64), Tile(16, 16, 128, 64),
    Tile(8, 16, 64, 64), Tile(4, 16, 128, 64), Tile(8, 8, 64, 64), Tile(8, 8, 128, 64),
    Tile(4, 32, 128, 64), Tile(2, 64, 128, 64), Tile(8, 8, 64, 128), Tile(4, 32, 128, 64, True),
    Tile(8, 8, 32, 128),
)  # fmt: skip


def kernels() -> dict[Tile, Kernel]:
    """Kernels by tile. Tiles that do not compile are printed and left out."""
    compiled_kernels: dict[Tile, Kernel] = {}
    for tile in TILES:
        try:
            options = Options(warp_specialize=True, persistent=tile.persistent)
            compiled = tileir.backend.compile(convolution(*tile[:4]), "sm_90a", options)
            used = compiled.metadata
        except Exception as error:
            print(f"{tile} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        if compiled.host is not None:
            print(f"{tile} {used.registers} registers {used.spills} spilled", flush=True)
            compiled_kernels[tile] = Kernel(compiled)
    return compiled_kernels


def ours(kernel: Kernel, tile: Tile, size: tuple[int, int, int, int]) -> Any:
    """A function of (x, w, y) that launches `kernel`."""
    h, w, c, k = size
    grid = (-(-h // tile.height) * -(-w // tile.width), -(-k // tile.n), IMAGES)

    def call(x: Any, taps: Any, y: Any, *_: Any) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        kernel[grid](x, taps, y, h, w, c, k, stream=stream)

    return call


def row(task: int, compiled: dict[Tile, Kernel]) -> dict[str, Any]:
    """One line of the table."""
    torch.manual_seed(task)
    h, w, c, k = size = TASKS[task]
    x = torch.randn(IMAGES, h, w, c, device="cuda").half()
    taps = (torch.randn(3, 3, c, k, device="cuda") / math.sqrt(9 * c)).half()
    y = torch.full((IMAGES, h, w, k), math.nan, device="cuda", dtype=torch.float16)
    image = x.permute(0, 3, 1, 2)
    filters = taps.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    torch.backends.cudnn.allow_tf32 = False
    places = list(itertools.product(range(IMAGES), *(checks.sample(n, CHECKED) for n in (h, w))))
    expected = checks.convolution(x, taps, places, checks.UNITS["f16"])
    images, ys, xs = map(list, zip(*places, strict=True))
    calls, failed = {}, {}
    for tile, kernel in compiled.items():
        y.fill_(math.nan)
        ours(kernel, tile, size)(x, taps, y)
        why = checks.fault(y[images, ys, xs], *expected)
        if why is None and not y.isnan().any():
            calls[str(tile)] = ours(kernel, tile, size)
        else:
            failed[str(tile)] = why or "pixels are not written"
    torch.backends.cudnn.benchmark = True
    calls["cudnn"] = lambda *_: torch.nn.functional.conv2d(image, filters, padding=1)
    times = timing.measure(calls, (x, taps, y))
    mine = {n: t for n, t in times.items() if n != "cudnn"}
    best = min(mine, key=mine.__getitem__, default=None)
    ratio = times["cudnn"] / mine[best] if best else None
    flops = 2 * IMAGES * h * w * c * k * 9 / times["cudnn"] / 1e6
    peer = f"cudnn {times['cudnn']:7.1f} us {flops:4.0f} TFLOP/s"
    print(f"task {task}: {peer}, ours {ratio and round(ratio, 3)} by {best}", flush=True)
    for name, why in failed.items():
        print(f"  wrong: {name}: {why}", flush=True)
    return {"task": task, "us": times, "best": best, "ratio": ratio, "wrong": failed}


def main() -> int:
    """Measure and print; 1 where a kernel is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    compiled = kernels()
    rows = [row(task, compiled) for task in TASKS if time.monotonic() < end]
    if options.out:
        text = json.dumps({"device": matmul_shapes.device(), "rows": rows}, indent=1)
        Path(options.out).write_text(text)
    return int(any(r["wrong"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
