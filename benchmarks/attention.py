"""Attention forward against cuDNN and FlashAttention (through torch), one GPU, one run.

    python benchmarks/attention.py [--out FILE.json] [--seconds 500] [--kind f16|bf16|f8]
        [--sizes 128,64,96,256] [--lengths 512,2048] [--group 4]

Our kernel is the ordinary `tileir.testing.attention.attention`: pointers, masks, a loop and two
dots, online softmax. Every result is checked (`checks.attention`) with the output poisoned before.
Batches times heads are such that batch * t = 16384 and heads * d = 2048; of `--group` heads of
queries each shares keys and values. Variants run in random order in five rounds; a round's figure
is the median of its launches, each with a cold L2. `f8`: e4m3 factors and bf16 results, values as
[d, t], against the peers on the same numbers in bf16, for torch has no other.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import checks
import products
import timing
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import Kernel
from tileir.builder import BF16, F8E4M3
from tileir.testing.attention import attention, heads_together


class Block(NamedTuple):
    """Rows and keys of a tile, whether blocks work for many tiles, whether warpgroups begin
    products in turns, and whether a few heads come together, as they do where causal."""

    m: int
    n: int
    persistent: bool = True
    turns: bool = True
    heads: bool = False

    def __str__(self) -> str:
        way = "" if self.persistent else " once"
        heads = " heads" if self.heads else ""
        return f"{self.m}x{self.n}{way}{'' if self.turns else ' at will'}{heads}"


BLOCKS = {
    64: (
        Block(192, 128), Block(128, 128), Block(128, 192), Block(192, 128, turns=False),
        Block(128, 128, False), Block(192, 128, heads=True),
    ),
    96: (
        Block(128, 96), Block(128, 128), Block(192, 96), Block(128, 160),
        Block(128, 96, turns=False),
    ),
    128: (
        Block(128, 128), Block(128, 128, turns=False), Block(128, 160), Block(128, 144),
        Block(128, 160, turns=False), Block(128, 128, False), Block(128, 128, heads=True),
    ),
    256: (Block(128, 64), Block(128, 48), Block(128, 64, turns=False)),
}  # fmt: skip
BLOCKS_OF_8_BITS = {
    64: (Block(128, 128), Block(192, 96), Block(192, 128), Block(128, 192)),
    96: (Block(128, 96), Block(128, 128), Block(192, 96)),
    128: (
        Block(128, 128), Block(128, 160), Block(128, 192), Block(128, 128, turns=False),
        Block(128, 192, turns=False),
    ),
    256: (Block(128, 64),),
}  # fmt: skip
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
LENGTHS = (512, 2048, 8192, 16384)
RESULTS = {"f16": "f16", "bf16": "bf16", "f8": "bf16"}
"""The element types of results."""
CHECKED = 16
"""Rows of every head that are compared."""


def kernels(
    kind: str, d: int, causal: bool, group: int, blocks: tuple[Block, ...] | None = None
) -> dict[Block, Kernel]:
    """Kernels by tile, all of `blocks_of` unless told; what does not compile is said and left
    out."""
    found = dict[Block, Kernel]()
    eight = kind == "f8"
    for block in blocks or blocks_of(kind, d):
        if causal and block.heads:
            continue  # they all are
        factor, result = (F8E4M3, BF16) if eight else (products.BUDGET[kind][0], None)
        module = attention(
            block.m, block.n, d, factor, result, causal=causal, grouped=group > 1,
            v_transposed=eight, arranged=causal or block.heads,
        )  # fmt: skip
        try:
            options = Options(
                warp_specialize=True, persistent=block.persistent, ordered_softmax=block.turns
            )
            made = tileir.backend.compile(module, "sm_90a", options)
            used = made.metadata
        except Exception as error:
            print(f"d {d} {block} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        if made.host is not None:
            print(f"d {d} {block} {used.registers} registers {used.spills} spilled", flush=True)
            found[block] = Kernel(made)
    return found


def blocks_of(kind: str, d: int) -> tuple[Block, ...]:
    """The tiles that are tried."""
    return (BLOCKS_OF_8_BITS if kind == "f8" else BLOCKS)[d]


def shape_of(d: int, t: int, group: int) -> tuple[int, int, int, int]:
    """Batches, heads of queries, length and size of heads."""
    return max(1, 16384 // t), 2048 // d // group * group, t, d


def scale_of(d: int) -> float:
    """Of scores, to the base 2."""
    return 1 / math.sqrt(d) / math.log(2)


def ours(kernel: Kernel, block: Block, causal: bool, group: int, factors: Any = None) -> Any:
    """A function of (q, k, v, o) that launches `kernel`, on `factors` in place of the first three
    where they are given."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        batch, heads, t, d = q.shape
        stream = torch.cuda.current_stream().cuda_stream
        given = factors or (q, k, v)
        more = [group] if group > 1 else []
        if causal or block.heads:
            many, size = batch * heads, given[0].element_size()
            more.append(heads_together(t, d, block.m, many, processors, size, causal=causal))
        grid = -(-t // block.m), batch * heads
        kernel[grid](*given, o, t, scale_of(d), *more, stream=stream)

    return call


def timed(backend: Any, causal: bool, group: int) -> Any:
    """A function of (q, k, v, o) that calls torch, which makes its own result."""

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        with sdpa_kernel(backend):
            attend(q, k, v, is_causal=causal, enable_gqa=group > 1)

    return call


def tensors(kind: str, shape: tuple[int, ...], group: int) -> tuple[Any, Any]:
    """q, k, v and o as the peers take them, and the factors as ours do where these differ."""
    fewer = (shape[0], shape[1] // group, *shape[2:])
    dtype = products.BUDGET["bf16" if kind == "f8" else kind][1]
    q, k, v = (torch.randn(s, device="cuda").to(dtype) for s in (shape, fewer, fewer))
    if kind != "f8":
        return (q, k, v, torch.full_like(q, math.nan)), None
    low = tuple(x.to(torch.float8_e4m3fn) for x in (q, k, v))
    q, k, v = (x.to(dtype) for x in low)
    turned = low[2].view(torch.uint8).mT.contiguous().view(torch.float8_e4m3fn)
    return (q, k, v, torch.full_like(q, math.nan)), (*low[:2], turned)


def row(kind: str, d: int, causal: bool, t: int, made: dict[Block, Kernel], group: int) -> Any:
    """One line of the table."""
    torch.manual_seed(t)
    shape = shape_of(d, t, group)
    data, factors = tensors(kind, shape, group)
    q, k, v, o = data
    rows = checks.sample(t, CHECKED)
    units = {"unit": checks.UNITS[RESULTS[kind]], "weights": checks.UNITS[kind]}
    expected = checks.attention(q, k, v, rows, causal=causal, **units)
    calls, failed = {}, {}
    for block, kernel in made.items():
        o.fill_(math.nan)
        call = ours(kernel, block, causal, group, factors)
        call(*data)
        why = checks.fault(o[:, :, rows], *expected)
        if why is None and not o.isnan().any():
            calls[str(block)] = call
        else:
            failed[str(block)] = why or "rows are not written"
    for name, backend in PEERS.items():
        try:
            timed(backend, causal, group)(*data)
            calls[name] = timed(backend, causal, group)
        except RuntimeError:
            continue
    times = timing.measure(calls, data)
    mine = {n: x for n, x in times.items() if n not in PEERS}
    best = min(mine, key=mine.__getitem__, default=None)
    other = min((x for n, x in times.items() if n in PEERS), default=math.nan)
    flops = 4 * math.prod(shape[:2]) * t * t * d * (0.5 if causal else 1)
    ratio = other / mine[best] if best else None
    shown = f"{flops / mine[best] / 1e6:6.0f} by {best}, ratio {ratio:.3f}" if best else "none"
    print(f"{kind} d {d} {'causal' if causal else 'full'} t {t:6} TFLOP/s: "
          f"cudnn {flops / times.get('cudnn', math.nan) / 1e6:6.0f}, ours {shown}",
          flush=True)  # fmt: skip
    for name, why in failed.items():
        print(f"  wrong: {name}: {why}", flush=True)
    return {
        "kind": kind, "d": d, "group": group, "causal": causal, "t": t, "us": times, "best": best,
        "ratio": ratio, "wrong": failed,
    }  # fmt: skip


def main() -> int:
    """Measure and print; 1 where a kernel is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--kind", default="bf16")
    parser.add_argument("--sizes", default="128,64")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--group", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500)
    options = parser.parse_args()
    end, rows = time.monotonic() + options.seconds, []
    for d in map(int, options.sizes.split(",")):
        for causal in (False, True):
            made = kernels(options.kind, d, causal, options.group)
            for t in map(int, options.lengths.split(",")):
                if time.monotonic() < end:
                    rows.append(row(options.kind, d, causal, t, made, options.group))
    if options.out:
        text = json.dumps({"device": products.device(), "rows": rows}, indent=1)
        Path(options.out).write_text(text)
    return int(any(r["wrong"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
