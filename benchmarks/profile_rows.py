"""Rows of the benchmarks as two calls to profile: ours and the quickest peer's, each set up as in
its own benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attention
import attention_backward as backward
import attrs
import matmul
import measured
import memory
import product_tiles
import products
import timing
import torch
import workloads

import tileir.backend
from tileir.backend.driver.launch import Kernel
from tileir.backend.executors import gpu_target

WARM = 3
"""Calls before the one that is profiled."""
Call: TypeAlias = Callable[[], Any]


class Pair(NamedTuple):
    """Ours and the peer's, and which they are."""

    ours: Call
    peer: Call
    variant: str
    other: str


def profile(name: str) -> dict[str, Any]:
    """Call both once with the profiler on, an empty kernel of torch before each, which tells where
    their launches begin; what was profiled, and where. Raises ValueError for a name that no
    benchmark has."""
    torch.manual_seed(0)
    with timing.unchecked():
        found = pair(name, measured.records().get(name))
        for call in (found.ours, found.peer) * WARM:
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for call in (found.ours, found.peer):
            torch.cuda._sleep(0)
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
    return {"ours": found.variant, "peer": found.other, "device": products.device()}


def pair(name: str, record: measured.Record | None) -> Pair:
    """The calls of a row: our best variant by its record, or else what is chosen unmeasured."""
    group, *words = name.split(":")
    best, peer = (record.best, record.peer) if record else ((), None)
    if group in measured.WORKLOADS:
        return _workload(group, name, best, peer)
    setups: dict[str, Callable[..., Pair]] = {
        "products": _products, "matmul": _single, "attention": _attention, "backward": _backward,
    }  # fmt: skip
    if group in setups:
        return setups[group](words, best, peer)
    return _memory(name, best, peer)


def _named(every: Sequence[Any], best: tuple[str, ...], what: str = "") -> Any:
    """The variant whose text, behind `what`, is in `best`; None where there is none."""
    return next((each for each in every if f"{what}{each}" in best), None)


def _on(call: Callable[..., Any], *data: Any) -> Call:
    return lambda: call(*data)


def _products(words: list[str], best: tuple[str, ...], _: str | None) -> Pair:
    kind, way, extents = words
    problem = product_tiles.Problem(kind, way == "NT")
    m, n, k = map(int, extents.split("x"))
    tiles = product_tiles.tiles_of(kind)
    tile = _named((*tiles, *product_tiles.ODD), best)
    tile = tile or min(tiles, key=lambda t: product_tiles.predicted(problem, t, (m, n, k)))
    kernels = products.compiled(problem, [tile], False)
    products.compile_non_tma_variants(problem, kernels, (m, n, k))
    data = products.inputs(problem, (m, n, k))
    call = products.ours(kernels[tile], tile, (m, n, k))
    return Pair(_on(call, *data), _on(products.peer(problem), *data), str(tile), "cuBLAS")


def _single(words: list[str], best: tuple[str, ...], _: str | None) -> Pair:
    kind, extent = words
    size = (int(extent), int(extent), int(extent))
    config = _named(matmul.CONFIGS[kind], best) or matmul.CONFIGS[kind][0]
    module = matmul.tileir_matmul(matmul.CASES[kind], config)
    made = tileir.backend.compile(module, gpu_target(), matmul.options_of(config))
    data = matmul.inputs(matmul.CASES[kind], size)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    call = matmul.ours(Kernel(made), config, size)
    return Pair(_on(call, *data), _on(matmul.cublas(kind), *data), str(config), "cuBLAS")


def _attention(words: list[str], best: tuple[str, ...], peer: str | None) -> Pair:
    kind, d, t, causal, group = _heads(words)
    blocks = attention.blocks_of(kind, d)
    block = _named(blocks, best) or blocks[0]
    kernel = attention.kernels(kind, d, causal, group, (block,))[block]
    data, factors = attention.tensors(kind, attention.shape_of(d, t, group), group)
    call = attention.ours(kernel, block, causal, group, factors)
    other = peer or "cudnn"
    theirs = attention.timed(attention.PEERS[other], causal, group)
    return Pair(_on(call, *data), _on(theirs, *data), str(block), other)


def _backward(words: list[str], best: tuple[str, ...], peer: str | None) -> Pair:
    kind, d, t, causal, group = _heads(words)
    first = _named(backward.KEYS[d], best, "keys ") or backward.KEYS[d][0]
    second = _named(backward.QUERIES[d], best, "queries ") or backward.QUERIES[d][0]
    whole = _named(backward.FUSED[d], best, "fused ")
    apart, fused = ((), (whole,)) if whole else ((first, second), ())
    made = backward.kernels(kind, d, causal, apart[:1], apart[1:], fused)
    data = backward.inputs(kind, d, t, group)
    backward.forward(made, data)
    if whole:
        ours, variant = backward.fused(made, whole, data), f"fused {whole}"
    else:
        parts = (
            backward.keys(made.keys[first], first, data),
            backward.queries(made.queries[second], second, data),
        )
        ours = backward.sequence([backward.delta(made, data), *parts])
        variant = f"keys {first}, queries {second}"
    other = peer or "cudnn"
    theirs = backward.peer(backward.PEERS[other], data, causal)
    return Pair(ours, theirs, variant, other)


def _heads(words: list[str]) -> tuple[str, int, int, bool, int]:
    """The type, size of heads, length, whether causal, and heads that share keys."""
    kind, d, way, t, *group = words
    return kind, int(d), int(t), way == "causal", int(group[0]) if group else 1


def _workload(group: str, name: str, best: tuple[str, ...], peer: str | None) -> Pair:
    for case in workloads.cases([group]):
        if measured.workload(group, case.name) == name:
            break
    else:
        raise ValueError(f"no row of {group} has the name {name}")
    variant = _named([*case.ours], best) or next(iter(case.ours))
    other = peer if peer in case.peers else next(iter(case.peers))
    calls = workloads.compiled(attrs.evolve(case, ours={variant: case.ours[variant]}))
    data = case.data()
    return Pair(_on(calls[variant], *data), _on(case.peers[other], *data), variant, other)


def _memory(name: str, best: tuple[str, ...], peer: str | None) -> Pair:
    for row in memory.table():
        if measured.memory(row.name, row.shape, str(row.dtype).removeprefix("torch.")) == name:
            break
    else:
        raise ValueError(f"no benchmark has a row of the name {name}")
    config = _named(row.configs, best, "tileir ") or row.configs[0]
    theirs = memory.others(row, compiled=peer == "compile")
    other = peer if peer in theirs else next(iter(theirs))
    y = torch.empty(row.output, device="cuda", dtype=row.dtype)
    data = (y, *row.inputs())
    return Pair(_on(memory.mine(row, config), *data), _on(theirs[other], *data), str(config), other)
