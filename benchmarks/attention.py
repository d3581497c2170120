"""Attention forward against cuDNN and FlashAttention (through torch), one GPU, one run.

    python benchmarks/attention.py [--out FILE.json] [--seconds 500] [--kind f16|bf16]

Our kernel is the ordinary `tileir.testing.kernels.attention`: pointers, masks, two loops and
two dots, online softmax. Every result is checked against torch with the output poisoned before.
Batches times heads are such that batch * t = 16384 and heads * d = 2048. Variants run in random
order in five rounds; a round's figure is the median of its launches, each with a cold L2.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import products
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import Kernel
from tileir.testing.kernels import attention


class Block(NamedTuple):
    """Rows and keys of a tile, and whether blocks work for many tiles."""

    m: int
    n: int
    persistent: bool = True

    def __str__(self) -> str:
        return f"{self.m}x{self.n}{'' if self.persistent else ' once'}"


BLOCKS = {
    64: (Block(192, 128), Block(128, 128), Block(192, 96), Block(128, 128, False)),
    96: (Block(128, 96), Block(128, 128), Block(128, 64)),
    128: (Block(128, 128), Block(128, 96), Block(128, 64), Block(128, 128, False)),
    256: (Block(128, 64), Block(128, 48), Block(64, 64)),
}
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
LENGTHS = (512, 2048, 8192, 16384)


def kernels(kind: str, d: int, causal: bool) -> dict[Block, Kernel]:
    """Kernels by tile; what does not compile is said and left out."""
    factor, found = products.BUDGET[kind][0], dict[Block, Kernel]()
    for block in BLOCKS[d]:
        module = attention(block.m, block.n, d, factor, causal=causal)
        try:
            options = Options(roles=True, persistent=block.persistent)
            made = tileir.backend.compile(module, "sm_90a", options)
            used = made.metadata
        except Exception as error:
            print(f"d {d} {block} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        if made.host is not None:
            print(f"d {d} {block} {used.registers} registers {used.spills} spilled", flush=True)
            found[block] = Kernel(made)
    return found


def ours(kernel: Kernel, block: Block, scale: float) -> Any:
    """A function of (q, k, v, o) that launches `kernel`."""

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        batch, heads, t, _ = q.shape
        stream = torch.cuda.current_stream().cuda_stream
        kernel[-(-t // block.m), batch * heads](q, k, v, o, t, scale, stream=stream)

    return call


def timed(backend: Any, causal: bool) -> Any:
    """A function of (q, k, v, o) that calls torch, which makes its own result."""

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        with sdpa_kernel(backend):
            attend(q, k, v, is_causal=causal)

    return call


def row(kind: str, d: int, causal: bool, t: int, made: dict[Block, Kernel], flush: Any) -> Any:
    """One line of the table."""
    torch.manual_seed(t)
    shape = (max(1, 16384 // t), 2048 // d, t, d)
    dtype, unit = products.BUDGET[kind][1:]
    q, k, v = (torch.randn(shape, device="cuda").to(dtype) for _ in range(3))
    o = torch.full_like(q, math.nan)
    data, scale = (q, k, v, o), 1 / math.sqrt(d) / math.log(2)
    part = (slice(0, 1), slice(0, 1))
    exact = attend(*(x[part].float() for x in (q, k, v)), is_causal=causal)
    calls, failed = {}, {}
    for block, kernel in made.items():
        o.fill_(math.nan)
        ours(kernel, block, scale)(*data)
        off = (o[part].float() - exact).abs().max().item()
        if off <= 4 * unit and not o.isnan().any():
            calls[str(block)] = ours(kernel, block, scale)
        else:
            failed[str(block)] = off
    for name, backend in PEERS.items():
        try:
            timed(backend, causal)(*data)
            calls[name] = timed(backend, causal)
        except RuntimeError:
            continue
    times = products.measure(calls, data, flush)
    mine = {n: x for n, x in times.items() if n not in PEERS}
    best = min(mine, key=mine.__getitem__, default=None)
    other = min((x for n, x in times.items() if n in PEERS), default=math.nan)
    flops = 4 * math.prod(shape[:2]) * t * t * d * (0.5 if causal else 1)
    ratio = other / mine[best] if best else None
    shown = f"{flops / mine[best] / 1e6:6.0f} by {best}, ratio {ratio:.3f}" if best else "none"
    print(f"{kind} d {d} {'causal' if causal else 'full'} t {t:6} TFLOP/s: "
          f"cudnn {flops / times.get('cudnn', math.nan) / 1e6:6.0f}, ours {shown}",
          flush=True)  # fmt: skip
    for name, off in failed.items():
        print(f"  wrong: {name}: off by {off}", flush=True)
    return {"kind": kind, "d": d, "causal": causal, "t": t, "us": times, "best": best,
            "ratio": ratio, "wrong": failed}  # fmt: skip


def main() -> int:
    """Measure and print; 1 where a kernel is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--kind", default="bf16")
    parser.add_argument("--sizes", default="128,64")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seconds", type=float, default=500)
    options = parser.parse_args()
    end, rows = time.monotonic() + options.seconds, []
    flush = torch.empty(128 << 20, device="cuda", dtype=torch.int8)
    for d in map(int, options.sizes.split(",")):
        for causal in (False, True):
            made = kernels(options.kind, d, causal)
            for t in map(int, options.lengths.split(",")):
                if time.monotonic() < end:
                    rows.append(row(options.kind, d, causal, t, made, flush))
    if options.out:
        text = json.dumps({"device": products.device(), "rows": rows}, indent=1)
        Path(options.out).write_text(text)
    return int(any(r["wrong"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
