"""Convolutions with shifted channels, for `workloads.py`: tasks 1 to 5 of Table 1 of Tillet et al.,
MAPL 2019 (its section 6.2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from timing import checks_results
from torch.nn.functional import pad
from workload_convolutions import BOXES, RUNS, TASKS
from workloads import Case, Variant

import tileir.backend
from tileir.backend.driver.launch import LoadedKernel
from tileir.testing.workloads import shifts, tables

ALONE = 1 / 1.05
"""Target against the matmul alone: at most 1.05 times its time."""
WIDTH = 1024
SPLIT = ((64, 64, 64, 2), (64, 64, 64, 4), (64, 128, 64, 4))
"""Tiles and blocks of split-K, for few pixels."""
THREADS = ((64, 128, 32, 4), (64, 64, 64, 4), (128, 128, 32, 8), (128, 64, 32, 4))
"""Tiles, and warps, of blocks of which several fit on an SM."""


def cases(group: str) -> Iterator[Case]:
    """Yield rows with channels first, each with its own shift; then rows with channels last, whose
    groups share shifts."""
    for task in range(1, 6):
        h, w, c, b, k, _, _ = TASKS[task]
        yield from first(task, (h, w, c, b, k))
        yield from last(task, (h, w, c, b, k))


def distances(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The nine shifts, repeated for `count` channels."""
    number = np.arange(count) % 9
    return (number // 3 - 1).astype(np.int32), (number % 3 - 1).astype(np.int32)


def first(task: int, size: tuple[int, ...]) -> Iterator[Case]:
    """Yield rows against a shift and a matmul, and against the matmul alone."""
    h, w, c, b, k = size
    rows, columns = distances(c)
    table = tables.shifts(rows, columns, h, w).pad_to(128)
    shared = [torch.from_numpy(t).cuda() for t in (table.increments, table.sides)]
    moves = [torch.from_numpy(d).cuda() for d in (rows, columns)]
    scratch = torch.empty(b, c, h, w, device="cuda", dtype=torch.float16)

    def data() -> tuple[Any, ...]:
        x = torch.randn(b, c, h, w, device="cuda").half()
        weights = (torch.randn(c, k, device="cuda") / math.sqrt(c)).half()
        return x, weights, torch.empty(b, k, h, w, device="cuda", dtype=torch.float16)

    def reference(x: Any, weights: Any, y: Any) -> torch.Tensor:
        moved = shift_channels(x.float(), rows, columns)
        return torch.einsum("bchw,ck->bkhw", moved, weights.float())

    def separate(x: Any, weights: Any, y: Any) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        shifting()[-(-h * w // WIDTH), c, b](x, scratch, *moves, h, w, c, stream=stream)
        torch.matmul(weights.T, scratch.view(b, c, h * w), out=y.view(b, k, h * w))

    ours: dict[str, Variant] = {}
    for bm, bn, bk in (*RUNS, (64, 128, 32), (128, 128, 32)):
        for persistent in (False, True):
            name = f"{bm}x{bn}x{bk}{'' if persistent else ' once'}"
            ours[name] = Variant(
                lambda bm=bm, bn=bn, bk=bk: shifts.shift_convolution(bm, bn, bk),
                (-(-h * w // bm), -(-k // bn), b),
                lambda x, weights, y: [x, weights, y, *shared, h, w, c, k],
                {"persistent": persistent},
            )
    for bm, bn, bk, warps in THREADS:
        ours[f"{bm}x{bn}x{bk} w{warps} threads"] = Variant(
            lambda bm=bm, bn=bn, bk=bk: shifts.shift_convolution(bm, bn, bk),
            (-(-h * w // bm), -(-k // bn), b),
            lambda x, weights, y: [x, weights, y, *shared, h, w, c, k],
            {"warp_specialize": False, "num_warps": warps},
        )  # fmt: skip
    for bm, bn, bk, ranks in SPLIT if h * w < 256 else ():
        ours[f"{bm}x{bn}x{bk} split {ranks}"] = Variant(
            lambda bm=bm, bn=bn, bk=bk: shifts.shift_convolution(bm, bn, bk),
            (-(-h * w // bm), -(-k // bn), b),
            lambda x, weights, y: [x, weights, y, *shared, h, w, c, k], {"split_k": ranks},
        )  # fmt: skip
    flops = 2.0 * b * h * w * c * k
    name = f"shift task {task}"
    yield Case(name, data, reference, 4e-3, ours, {"shift + cuBLAS": separate}, 1.0, flops)

    def alone(x: Any, weights: Any, y: Any) -> None:
        torch.matmul(weights.T, x.view(b, c, h * w), out=y.view(b, k, h * w))

    yield Case(
        f"{name} against the matmul alone", data, reference, 4e-3, ours,
        {"cuBLAS alone": without_result(alone, reference)}, ALONE, flops,
    )  # fmt: skip


def last(task: int, size: tuple[int, ...]) -> Iterator[Case]:
    """Shifts with channels last, by groups of at least 16 channels that share a shift."""
    h, w, c, b, k = size
    each = 16 * max(1, c // 9 // 16)
    each = 1 << (each.bit_length() - 1)
    rows, columns = distances(c // each)
    shared = [torch.from_numpy(d).cuda() for d in (rows, columns)]
    spread = [np.repeat(d, each) for d in (rows, columns)]

    def data() -> tuple[Any, ...]:
        x = torch.randn(b, h, w, c, device="cuda").half()
        weights = (torch.randn(c, k, device="cuda") / math.sqrt(c)).half()
        return x, weights, torch.empty(b, h, w, k, device="cuda", dtype=torch.float16)

    def reference(x: Any, weights: Any, y: Any) -> torch.Tensor:
        moved = shift_channels(x.float().permute(0, 3, 1, 2), *spread)
        return torch.einsum("bchw,ck->bhwk", moved, weights.float())

    def alone(x: Any, weights: Any, y: Any) -> None:
        torch.mm(x.view(-1, c), weights, out=y.view(-1, k))

    ours: dict[str, Variant] = {}
    for th, tw, bn in dict.fromkeys(t[:3] for t in BOXES):
        for persistent in (False, True):
            name = f"{th}x{tw}x{bn}x{each}{'' if persistent else ' once'}"
            ours[name] = Variant(
                lambda th=th, tw=tw, bn=bn: shifts.uniform_shift_convolution(th, tw, bn, each),
                (-(-h // th) * -(-w // tw), -(-k // bn), b),
                lambda x, weights, y: [x, weights, y, *shared, h, w, c, k],
                {"persistent": persistent},
            )
    yield Case(
        f"shift by groups of {each}, task {task}, against the matmul alone", data, reference, 4e-3,
        ours, {"cuBLAS alone": without_result(alone, reference)}, ALONE, 2.0 * b * h * w * c * k,
    )  # fmt: skip


def without_result(call: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A peer that computes something else and is only used for its time. While results are checked,
    it returns the expected result."""

    def run(*data: Any) -> Any:
        call(*data)
        return reference(*data) if checks_results() else None

    return run


def shift_channels(x: torch.Tensor, rows: Any, columns: Any) -> torch.Tensor:
    """x [b, c, h, w] with every channel shifted."""
    h, w = x.shape[2:]
    wide, out = pad(x, (1, 1, 1, 1)), torch.empty_like(x)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            rows_of_shift = torch.from_numpy(np.flatnonzero((rows == dy) & (columns == dx))).cuda()
            out[:, rows_of_shift] = wide[:, rows_of_shift, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    return out


@cache
def shifting() -> LoadedKernel:
    """The shift alone, as a kernel of its own."""
    return LoadedKernel(tileir.backend.compile(shifts.shift(WIDTH), "sm_90a"))
