"""Benchmark of forward attention against cuDNN and FlashAttention (through torch), on one GPU in
one run.

    python benchmarks/attention.py [--out FILE.json] [--seconds 500] [--kind f16|bf16|f8]
        [--sizes 128,64,96,256] [--lengths 512,2048] [--group 4]

The kernel of tileir is the ordinary program `tileir.testing.attention.attention`: pointers, masks,
a loop and two dots, online softmax. Every result is checked (`checks.attention`); outputs are
poisoned before. Batches and heads are such that batch * t = 16384 and heads * d = 2048. `--group`
heads of queries share keys and values. `timing.py` describes the measurement. For `f8`, operands
are e4m3, results bf16, and V is [d, t]; the peers take the same numbers in bf16, since torch has no
attention with 8-bit operands.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import attention_rows
import checks
import matmul_shapes
import timing
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.builder import BF16, F8E4M3
from tileir.testing.attention import attention, heads_together


class Block(NamedTuple):
    """The numbers of queries and keys of a tile, whether the kernel is persistent, whether the
    warpgroups alternate in issuing their MMAs (`Options.ordered_softmax`), and whether instances of
    several heads are scheduled together, as they always are in causal attention."""

    m: int
    n: int
    persistent: bool = True
    ordered_softmax: bool = True
    heads: bool = False

    def __str__(self) -> str:
        way = "" if self.persistent else " once"
        heads = " heads" if self.heads else ""
        return f"{self.m}x{self.n}{way}{'' if self.ordered_softmax else ' unordered'}{heads}"


BLOCKS = {
    64: (
        Block(192, 128), Block(128, 128), Block(128, 192), Block(192, 128, ordered_softmax=False),
        Block(128, 128, False), Block(192, 128, heads=True),
    ),
    96: (
        Block(128, 96), Block(128, 128), Block(192, 96), Block(128, 160),
        Block(128, 96, ordered_softmax=False),
    ),
    128: (
        Block(128, 128), Block(128, 128, ordered_softmax=False), Block(128, 160), Block(128, 144),
        Block(128, 160, ordered_softmax=False), Block(128, 128, False), Block(128, 128, heads=True),
    ),
    256: (Block(128, 64), Block(128, 48), Block(128, 64, ordered_softmax=False)),
}  # fmt: skip
BLOCKS_OF_8_BITS = {
    64: (Block(128, 128), Block(192, 96), Block(192, 128), Block(128, 192)),
    96: (Block(128, 96), Block(128, 128), Block(192, 96)),
    128: (
        Block(128, 128), Block(128, 160), Block(128, 192), Block(128, 128, ordered_softmax=False),
        Block(128, 192, ordered_softmax=False),
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
) -> dict[Block, LoadedKernel]:
    """The kernels by tile, for `blocks`, by default those of `blocks_of`. Tiles that do not compile
    are printed and left out."""
    compiled_kernels = dict[Block, LoadedKernel]()
    eight = kind == "f8"
    for block in blocks or blocks_of(kind, d):
        if causal and block.heads:
            continue  # every causal kernel schedules heads together
        element, result = (F8E4M3, BF16) if eight else (matmul_shapes.TYPES_16_BITS[kind][0], None)
        module = attention(
            block.m, block.n, d, element, result, causal=causal, grouped=group > 1,
            v_transposed=eight, arranged=causal or block.heads,
        )  # fmt: skip
        try:
            options = Options(
                warp_specialize=True,
                persistent=block.persistent,
                ordered_softmax=block.ordered_softmax,
            )
            compiled = tileir.backend.compile(module, "sm_90a", options)
            used = compiled.metadata
        except Exception as error:
            print(f"d {d} {block} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        if compiled.host is not None:
            print(f"d {d} {block} {used.registers} registers {used.spills} spilled", flush=True)
            compiled_kernels[block] = LoadedKernel(compiled)
    return compiled_kernels


def blocks_of(kind: str, d: int) -> tuple[Block, ...]:
    """The tiles that are measured."""
    return (BLOCKS_OF_8_BITS if kind == "f8" else BLOCKS)[d]


def shape_of(d: int, t: int, group: int) -> tuple[int, int, int, int]:
    """The numbers of batches and of heads of queries, the length, and the head size."""
    return max(1, 16384 // t), 2048 // d // group * group, t, d


def scale_of(d: int) -> float:
    """The scale of scores, for exponentials of base 2."""
    return 1 / math.sqrt(d) / math.log(2)


def ours(kernel: LoadedKernel, block: Block, causal: bool, group: int, operands: Any = None) -> Any:
    """A function of (q, k, v, o) that launches `kernel`. If `operands` is not None, it replaces q,
    k and v."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        batch, heads, t, d = q.shape
        stream = torch.cuda.current_stream().cuda_stream
        inputs = operands or (q, k, v)
        more = [group] if group > 1 else []
        if causal or block.heads:
            many, size = batch * heads, inputs[0].element_size()
            more.append(heads_together(t, d, block.m, many, processors, size, causal=causal))
        grid = -(-t // block.m), batch * heads
        kernel[grid](*inputs, o, t, scale_of(d), *more, stream=stream)

    return call


def torch_attention(backend: Any, causal: bool, group: int) -> Any:
    """A function of (q, k, v, o) that calls torch, which allocates its result itself."""

    def call(q: Any, k: Any, v: Any, o: Any) -> None:
        with sdpa_kernel(backend):
            attend(q, k, v, is_causal=causal, enable_gqa=group > 1)

    return call


def tensors(kind: str, shape: tuple[int, ...], group: int) -> tuple[Any, Any]:
    """The tensors q, k, v and o of the peers, and q, k and v of the kernel of tileir if these
    differ."""
    fewer = (shape[0], shape[1] // group, *shape[2:])
    dtype = matmul_shapes.TYPES_16_BITS["bf16" if kind == "f8" else kind][1]
    q, k, v = (torch.randn(s, device="cuda").to(dtype) for s in (shape, fewer, fewer))
    if kind != "f8":
        return (q, k, v, torch.full_like(q, math.nan)), None
    operands = tuple(x.to(torch.float8_e4m3fn) for x in (q, k, v))
    q, k, v = (x.to(dtype) for x in operands)
    transposed = operands[2].view(torch.uint8).mT.contiguous().view(torch.float8_e4m3fn)
    return (q, k, v, torch.full_like(q, math.nan)), (*operands[:2], transposed)


def row(
    kind: str, d: int, causal: bool, t: int, group: int, compiled: dict[Block, LoadedKernel]
) -> Any:
    """One row of the table."""
    torch.manual_seed(t)
    shape = shape_of(d, t, group)
    data, operands = tensors(kind, shape, group)
    q, k, v, o = data
    rows = checks.sample(t, CHECKED)
    units = {"unit": checks.UNITS[RESULTS[kind]], "weights": checks.UNITS[kind]}
    expected = checks.attention(q, k, v, rows, causal=causal, **units)
    calls, failed = {}, {}
    for block, kernel in compiled.items():
        o.fill_(math.nan)
        call = ours(kernel, block, causal, group, operands)
        call(*data)
        why = checks.fault(o[:, :, rows], *expected)
        if why is None and not o.isnan().any():
            calls[str(block)] = call
        else:
            failed[str(block)] = why or "rows are not written"
    for name, backend in PEERS.items():
        try:
            torch_attention(backend, causal, group)(*data)
            calls[name] = torch_attention(backend, causal, group)
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
    """Measure and print. Returns 1 if a kernel is wrong."""
    return attention_rows.run(__doc__, LENGTHS, kernels, row)


if __name__ == "__main__":
    sys.exit(main())
