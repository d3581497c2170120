"""The two calls of a benchmark row that are profiled: that of tileir and that of the fastest peer,
each set up as in its benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attention
import attention_backward as backward
import attrs
import matmul
import matmul_shapes
import matmul_tiles
import measured
import memory
import timing
import torch
import workloads

import tileir.backend
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.executors import gpu_target

WARM = 3
"""Calls before the one that is profiled."""
Call: TypeAlias = Callable[[], Any]


class Pair(NamedTuple):
    """The calls of tileir and of the peer, and their names."""

    ours: Call
    peer: Call
    variant: str
    other: str


def profile(name: str) -> dict[str, Any]:
    """Make both calls once with the profiler on. An empty kernel of torch precedes each call and
    marks the start of its launches. Returns the names of both calls and the device. Raises
    ValueError for a name that no benchmark has."""
    torch.manual_seed(0)
    with timing.without_checks():
        calls = pair(name, measured.records().get(name))
        for run in (calls.ours, calls.peer) * WARM:
            run()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for run in (calls.ours, calls.peer):
            torch.cuda._sleep(0)
            run()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
    return {"ours": calls.variant, "peer": calls.other, "device": matmul_shapes.device()}


def pair(name: str, record: measured.Record | None) -> Pair:
    """The calls of a row: the best variant of tileir by its record, or a variant that is chosen
    without measurements."""
    group, *words = name.split(":")
    best, peer = (record.best, record.peer) if record else ((), None)
    if group in measured.WORKLOADS:
        return _workload(group, name, best, peer)
    setups: dict[str, Callable[..., Pair]] = {
        "matmul": _matmul_shapes if len(words) == 3 else _single, "attention": _attention,
        "backward": _backward,
    }  # fmt: skip
    if group in setups:
        return setups[group](words, best, peer)
    return _memory(name, best, peer)


def _find_variant(every: Sequence[Any], best: tuple[str, ...], what: str = "") -> Any:
    """The variant whose text, with the prefix `what`, is in `best`; None if there is none."""
    return next((each for each in every if f"{what}{each}" in best), None)


def _on(call: Callable[..., Any], *data: Any) -> Call:
    return lambda: call(*data)


def _matmul_shapes(words: list[str], best: tuple[str, ...], _: str | None) -> Pair:
    kind, way, extents = words
    problem = matmul_tiles.Problem(kind, way == "NT")
    m, n, k = map(int, extents.split("x"))
    tiles = matmul_tiles.tiles_of(kind)
    tile = _find_variant((*tiles, *matmul_tiles.ODD), best)
    tile = tile or min(tiles, key=lambda t: matmul_tiles.predicted_seconds(problem, t, (m, n, k)))
    kernels = matmul_shapes.compile_tiles(problem, [tile], False)
    matmul_shapes.compile_non_tma_variants(problem, kernels, (m, n, k))
    data = matmul_shapes.inputs(problem, (m, n, k))
    call = matmul_shapes.ours(kernels[tile], tile, (m, n, k))
    return Pair(_on(call, *data), _on(matmul_shapes.peer(problem), *data), str(tile), "cuBLAS")


def _single(words: list[str], best: tuple[str, ...], _: str | None) -> Pair:
    kind, extent = words
    size = (int(extent), int(extent), int(extent))
    config = _find_variant(matmul.CONFIGS[kind], best) or matmul.CONFIGS[kind][0]
    module = matmul.tileir_matmul(matmul.CASES[kind], config)
    compiled = tileir.backend.compile(module, gpu_target(), matmul.options_of(config))
    data = matmul.inputs(matmul.CASES[kind], size)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    call = matmul.ours(LoadedKernel(compiled), config, size)
    return Pair(_on(call, *data), _on(matmul.cublas(kind), *data), str(config), "cuBLAS")


def _attention(words: list[str], best: tuple[str, ...], peer: str | None) -> Pair:
    kind, d, t, causal, group = _heads(words)
    blocks = attention.blocks_of(kind, d)
    block = _find_variant(blocks, best) or blocks[0]
    kernel = attention.kernels(kind, d, causal, group, (block,))[block]
    data, operands = attention.tensors(kind, attention.shape_of(d, t, group), group)
    call = attention.ours(kernel, block, causal, group, operands)
    other = peer or "cudnn"
    theirs = attention.torch_attention(attention.PEERS[other], causal, group)
    return Pair(_on(call, *data), _on(theirs, *data), str(block), other)


def _backward(words: list[str], best: tuple[str, ...], peer: str | None) -> Pair:
    kind, d, t, causal, group = _heads(words)
    first = _find_variant(backward.KEYS[d], best, "keys ") or backward.KEYS[d][0]
    second = _find_variant(backward.QUERIES[d], best, "queries ") or backward.QUERIES[d][0]
    fused_variant = _find_variant(backward.FUSED[d], best, "fused ")
    separate, fused = ((), (fused_variant,)) if fused_variant else ((first, second), ())
    kernels = backward.kernels(kind, d, causal, separate[:1], separate[1:], fused)
    data = backward.inputs(kind, d, t, group)
    backward.forward(kernels, data)
    if fused_variant:
        ours, variant = (
            backward.fused_gradients(kernels, fused_variant, data),
            f"fused {fused_variant}",
        )
    else:
        parts = (
            backward.keys(kernels.keys[first], first, data),
            backward.queries(kernels.queries[second], second, data),
        )
        ours = backward.sequence([backward.delta(kernels, data), *parts])
        variant = f"keys {first}, queries {second}"
    other = peer or "cudnn"
    theirs = backward.peer(backward.PEERS[other], data, causal)
    return Pair(ours, theirs, variant, other)


def _heads(words: list[str]) -> tuple[str, int, int, bool, int]:
    """The type, the head size, the length, whether attention is causal, and the heads of queries
    per head of keys."""
    kind, d, way, t, *group = words
    return kind, int(d), int(t), way == "causal", int(group[0]) if group else 1


def _workload(group: str, name: str, best: tuple[str, ...], peer: str | None) -> Pair:
    for case in workloads.cases([group]):
        if measured.workload(group, case.name) == name:
            break
    else:
        raise ValueError(f"no row of {group} has the name {name}")
    variant = _find_variant([*case.ours], best) or next(iter(case.ours))
    other = peer if peer in case.peers else next(iter(case.peers))
    calls = workloads.compile_variants(attrs.evolve(case, ours={variant: case.ours[variant]}))
    data = case.data()
    return Pair(_on(calls[variant], *data), _on(case.peers[other], *data), variant, other)


def _memory(name: str, best: tuple[str, ...], peer: str | None) -> Pair:
    for row in memory.table():
        if measured.memory(row.name, row.shape, str(row.dtype).removeprefix("torch.")) == name:
            break
    else:
        raise ValueError(f"no benchmark has a row of the name {name}")
    config = _find_variant(row.configs, best, "tileir ") or row.configs[0]
    theirs = memory.others(row, compiled=peer == "compile")
    other = peer if peer in theirs else next(iter(theirs))
    y = torch.empty(row.output, device="cuda", dtype=row.dtype)
    data = (y, *row.inputs())
    return Pair(_on(memory.mine(row, config), *data), _on(theirs[other], *data), str(config), other)
