"""Benchmark of the gradient of attention against cuDNN and FlashAttention (through torch), on one
GPU in one run.

    python benchmarks/attention_backward.py [--out FILE.json] [--seconds 500] [--kind f16|bf16]

The kernels of tileir are the ordinary programs of `tileir.testing.kernels_backward`, in two
variants of three launches. `separate` computes delta (o * do summed over each row), then dk and dv,
then dq. `fused` computes delta and sets dq to zero, then computes all three gradients in one
kernel, which accumulates dq in memory, and then scales dq. The log-sum-exp of the scores comes from
`tileir.testing.attention`. Tiles are chosen for each kernel separately. The three launches of a
variant are timed together, as those of the peers are, and the faster variant counts. Every result
is checked in double precision; outputs are poisoned before. Batches and heads are such that batch *
t = 16384 and heads * d = 2048. `--group` heads of queries share one head of keys.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
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
from tileir.testing.attention import LSE_PADDING, attention
from tileir.testing.kernels_backward import (
    attention_delta,
    attention_keys,
    attention_queries,
    attention_scaled,
)


class Block(NamedTuple):
    """The numbers of queries and keys of a tile, and whether the kernel is persistent."""

    m: int
    n: int
    persistent: bool = True

    def __str__(self) -> str:
        return f"{self.m}x{self.n}{'' if self.persistent else ' once'}"


KEYS = {
    64: (Block(64, 128), Block(96, 128), Block(64, 192), Block(64, 128, False)),
    128: (Block(64, 128), Block(48, 128), Block(64, 128, False)),
}
QUERIES = {
    64: (Block(128, 128), Block(192, 64), Block(128, 64), Block(128, 128, False)),
    128: (Block(128, 64), Block(128, 96), Block(128, 128), Block(128, 96, False)),
}
FUSED = {
    64: (Block(128, 128), Block(64, 128), Block(128, 64), Block(64, 128, False)),
    128: (Block(64, 128), Block(64, 128, False)),
}
FORWARD = {64: Block(128, 128), 128: Block(128, 128)}
ROWS = 64
"""Rows of a block of the kernel for delta."""
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
LENGTHS = (512, 2048, 8192, 16384)
Call = Callable[[], None]


class Data(NamedTuple):
    """The tensors of a row of the table. `g` is the gradient of the output `o`."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    o: torch.Tensor
    logsumexp: torch.Tensor
    delta: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    total: torch.Tensor
    """dq as the fused kernel accumulates it, in f32."""

    @property
    def t(self) -> int:
        return self.q.shape[2]

    @property
    def scale(self) -> float:
        """The scale of scores, for exponentials of base 2."""
        return 1 / math.sqrt(self.q.shape[3]) / math.log(2)

    @property
    def heads(self) -> tuple[int, int]:
        """The numbers of heads of queries and of keys, over all batches."""
        return self.q.shape[0] * self.q.shape[1], self.k.shape[0] * self.k.shape[1]

    @property
    def group(self) -> int:
        return self.q.shape[1] // self.k.shape[1]


class Kernels(NamedTuple):
    """The compiled kernels, by tile if there are several."""

    forward: LoadedKernel
    delta: LoadedKernel
    keys: dict[Block, LoadedKernel]
    queries: dict[Block, LoadedKernel]
    clear: LoadedKernel
    fused: dict[Block, LoadedKernel]
    scaled: LoadedKernel


def kernels(
    kind: str, d: int, causal: bool,
    of_keys: tuple[Block, ...] | None = None, of_queries: tuple[Block, ...] | None = None,
    of_all: tuple[Block, ...] | None = None,
) -> Kernels:  # fmt: skip
    """All kernels of one head size, or only those of some tiles. Tiles that do not compile are
    printed and left out."""
    element, first = matmul_shapes.TYPES_16_BITS[kind][0], FORWARD[d]
    forward = attention(first.m, first.n, d, element, causal=causal, save_lse=True, grouped=True)
    of_keys, of_queries, of_all = (
        tiles[d] if some is None else some
        for some, tiles in ((of_keys, KEYS), (of_queries, QUERIES), (of_all, FUSED))
    )
    return Kernels(
        _plain(forward),
        _plain(attention_delta(ROWS, d, element)),
        _tiles("keys", attention_keys, of_keys, d, element, causal),
        _tiles("queries", attention_queries, of_queries, d, element, causal),
        _plain(attention_delta(ROWS, d, element, fused=True)),
        _tiles("fused", partial(attention_keys, fused=True), of_all, d, element, causal),
        _plain(attention_scaled(ROWS, d, element)),
    )


def _plain(module: Any) -> LoadedKernel:
    return LoadedKernel(tileir.backend.compile(module, "sm_90a", Options()))


def _tiles(
    name: str, build: Any, blocks: tuple[Block, ...], d: int, element: Any, causal: bool
) -> dict[Block, LoadedKernel]:
    compiled_kernels = dict[Block, LoadedKernel]()
    for block in blocks:
        module = build(block.m, block.n, d, element, causal=causal)
        try:
            compiled = tileir.backend.compile(
                module, "sm_90a", Options(persistent=block.persistent)
            )
            used = compiled.metadata
        except Exception as error:
            print(f"d {d} {name} {block} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        if compiled.host is not None:
            what = f"{used.registers} registers {used.spills} spilled"
            print(f"d {d} {name} {block} {what}", flush=True)
            compiled_kernels[block] = LoadedKernel(compiled)
    return compiled_kernels


def inputs(kind: str, d: int, t: int, group: int) -> Data:
    """Normally distributed inputs; outputs are NaN."""
    torch.manual_seed(t)
    batch, heads = max(1, 16384 // t), 2048 // d
    dtype = matmul_shapes.TYPES_16_BITS[kind][1]
    many, few = (batch, heads, t, d), (batch, heads // group, t, d)
    q, k, v, g = (torch.randn(s, device="cuda").to(dtype) for s in (many, few, few, many))
    rows = (batch, heads, -(-t // LSE_PADDING) * LSE_PADDING)
    logsumexp, delta = (torch.full(rows, math.nan, device="cuda") for _ in range(2))
    dq, dk, dv, o = (torch.full_like(x, math.nan) for x in (q, k, v, q))
    return Data(
        q, k, v, g, o, logsumexp, delta, dq, dk, dv, torch.empty_like(q, dtype=torch.float32)
    )


def forward(compiled: Kernels, x: Data) -> None:
    """Compute the output, and the log-sum-exp of the scores."""
    block, stream = FORWARD[x.q.shape[3]], torch.cuda.current_stream().cuda_stream
    arguments = (x.q, x.k, x.v, x.o, x.t, x.scale, x.logsumexp, x.group)
    compiled.forward[-(-x.t // block.m), x.heads[0]](*arguments, stream=stream)


def delta(compiled: Kernels, x: Data) -> Call:
    """The call that computes delta."""

    def call() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        compiled.delta[-(-x.t // ROWS), x.heads[0]](x.o, x.g, x.delta, x.t, stream=stream)

    return call


def keys(kernel: LoadedKernel, block: Block, x: Data) -> Call:
    """The call that computes the gradients of keys and values."""

    def call() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        arguments = (x.q, x.k, x.v, x.g, x.logsumexp, x.delta, x.dk, x.dv, x.t, x.group, x.scale)
        kernel[-(-x.t // block.n), x.heads[1]](*arguments, stream=stream)

    return call


def queries(kernel: LoadedKernel, block: Block, x: Data) -> Call:
    """The call that computes the gradient of queries."""

    def call() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        arguments = (x.q, x.k, x.v, x.g, x.logsumexp, x.delta, x.dq, x.t, x.group, x.scale)
        kernel[-(-x.t // block.m), x.heads[0]](*arguments, stream=stream)

    return call


def fused_gradients(compiled: Kernels, block: Block, x: Data) -> Call:
    """The calls that compute all gradients: delta and zeros for dq, the fused kernel, the scaling
    of dq."""

    def call() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        rows = -(-x.t // ROWS), x.heads[0]
        compiled.clear[rows](x.o, x.g, x.delta, x.total, x.t, stream=stream)
        arguments = (x.q, x.k, x.v, x.g, x.logsumexp, x.delta, x.dk, x.dv, x.total)
        kernel, blocks = compiled.fused[block], (-(-x.t // block.n), x.heads[1])
        kernel[blocks](*arguments, x.t, x.group, x.scale, stream=stream)
        compiled.scaled[rows](x.total, x.dq, x.t, x.scale, stream=stream)

    return call


def peer(backend: Any, x: Data, causal: bool) -> Call:
    """The call that computes torch's gradients."""
    with sdpa_kernel(backend):
        inputs = [y.detach().clone().requires_grad_() for y in (x.q, x.k, x.v)]
        out = attend(*inputs, is_causal=causal, enable_gqa=x.group > 1)
    torch.cuda.synchronize()

    def call() -> None:
        torch.autograd.grad(out, inputs, x.g, retain_graph=True)

    return call


CHECKED = 16
"""Rows of every head that are compared."""
SUMMED = 1024
"""Queries whose scores are in memory at a time."""


def exact(x: Data, causal: bool, unit: float) -> dict[str, tuple[Any, Any]]:
    """The gradients at sampled rows of every head, each with its error bound."""
    inputs = (x.q, x.k, x.v, x.g)
    return checks.gradients(inputs, statistics(x, causal), rows_of(x), causal=causal, unit=unit)


def rows_of(x: Data) -> list[int]:
    """The rows that are compared."""
    return checks.sample(x.t, CHECKED)


def statistics(x: Data, causal: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each query, in double precision: the log-sum-exp of the scores; the sum of the result
    times its gradient; and the square root of the sum of squares of the rounded terms of that sum,
    the elements of the result and the weights."""
    logarithms, deltas, roundings = (list[torch.Tensor]() for _ in range(3))
    k, v = (y.repeat_interleave(x.group, 1).double() for y in (x.k, x.v))
    for start in range(0, x.t, SUMMED):
        part = slice(start, start + SUMMED)
        scores = x.q[:, :, part].double() @ k.transpose(2, 3) / math.sqrt(k.shape[3])
        if causal:
            at = torch.arange(x.t, device="cuda")
            scores = scores.masked_fill(at > at[part, None], -math.inf)
        logarithms.append(scores.logsumexp(-1))
        weights, g = scores.softmax(-1), x.g[:, :, part].double()
        result = weights @ v
        deltas.append((result * g).sum(-1))
        squares = (result.square() + weights.square() @ v.square()) * g.square()
        roundings.append(squares.sum(-1).sqrt())
    return torch.cat(logarithms, 2), torch.cat(deltas, 2), torch.cat(roundings, 2)


def output_error(
    x: Data, expected: dict[str, tuple[Any, Any]], names: tuple[str, ...]
) -> str | None:
    """The error in outputs, or None. Poisons the outputs for the next check."""
    why: str | None = None
    for name in names:
        output = getattr(x, name)
        wrong = checks.fault(output[:, :, rows_of(x)], *expected[name])
        if wrong is None and output.isnan().any():
            wrong = "rows are not written"
        why = why or (wrong and f"{name}: {wrong}")
        output.fill_(math.nan)
    return why


def candidates(compiled: Kernels, x: Data) -> dict[str, tuple[Call, tuple[str, ...]]]:
    """Calls by name, each with the names of the outputs that it writes."""
    calls = {f"keys {b}": (keys(k, b, x), ("dk", "dv")) for b, k in compiled.keys.items()}
    calls |= {f"queries {b}": (queries(k, b, x), ("dq",)) for b, k in compiled.queries.items()}
    return calls | {
        f"fused {b}": (fused_gradients(compiled, b, x), ("dq", "dk", "dv")) for b in compiled.fused
    }


def correct_candidates(
    compiled: Kernels, x: Data, causal: bool, unit: float
) -> tuple[dict[str, Call], Any]:
    """The candidates with correct results, and the errors of the others."""
    forward(compiled, x)
    delta(compiled, x)()
    expected, calls, failed = exact(x, causal, unit), {}, {}
    for name, (call, outputs) in candidates(compiled, x).items():
        call()
        why = output_error(x, expected, outputs)
        if why is None:
            calls[name] = call
        else:
            failed[name] = why
    return calls, failed


def row(kind: str, d: int, causal: bool, t: int, group: int, compiled: Kernels) -> Any:
    """One row of the table."""
    x = inputs(kind, d, t, group)
    calls, failed = correct_candidates(compiled, x, causal, matmul_shapes.TYPES_16_BITS[kind][2])
    single = timing.measure(calls, ())
    best = {
        part: min((n for n in single if n.startswith(part)), key=single.__getitem__, default=None)
        for part in ("keys", "queries", "fused")
    }
    together: dict[str, Call] = {}
    if best["keys"] and best["queries"]:
        parts = [delta(compiled, x), calls[best["keys"]], calls[best["queries"]]]
        together["separate"] = sequence(parts)
    if best["fused"]:
        together["fused"] = calls[best["fused"]]
    for name, backend in PEERS.items():
        try:
            together[name] = peer(backend, x, causal)
            together[name]()
        except RuntimeError as error:
            together.pop(name, None)
            print(f"  {name}: {error}"[:120], flush=True)
    times = timing.measure(together, ())
    flops = 10 * x.heads[0] * t * t * d * (0.5 if causal else 1)
    rates = {n: flops / us / 1e6 for n, us in times.items()}
    theirs = min((us for n, us in times.items() if n in PEERS), default=math.nan)
    way = min((n for n in ("separate", "fused") if n in times), key=times.__getitem__, default=None)
    chosen = [best["fused"]] if way == "fused" else [best["keys"], best["queries"]]
    ratio = theirs / times[way] if way else None
    times |= {"ours": times[way]} if way else {}
    shown = ", ".join(f"{n} {rate:6.0f}" for n, rate in rates.items())
    print(f"{kind} d {d} {'causal' if causal else 'full'} t {t:6} group {group} TFLOP/s: {shown}, "
          f"ratio {ratio or math.nan:.3f}, {' '.join(map(str, chosen))}", flush=True)  # fmt: skip
    for name, why in failed.items():
        print(f"  wrong: {name}: {why}", flush=True)
    return {"kind": kind, "d": d, "causal": causal, "t": t, "group": group, "us": times,
            "single": single, "chosen": chosen, "ratio": ratio, "wrong": failed}  # fmt: skip


def sequence(calls: list[Call]) -> Call:
    """One call that makes all `calls`."""

    def call() -> None:
        for each in calls:
            each()

    return call


def main() -> int:
    """Measure and print. Returns 1 if a kernel is wrong."""
    return attention_rows.run(
        __doc__, LENGTHS, lambda kind, d, causal, group: kernels(kind, d, causal), row
    )


if __name__ == "__main__":
    sys.exit(main())
