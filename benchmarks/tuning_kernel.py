"""A matmul in Triton's language, for Triton and for tileir's frontend, and its tuning space.

If TUNING_PEER is set, `triton` is Triton, otherwise it is tileir's frontend. Nothing else differs.
"""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

if os.environ.get("TUNING_PEER"):
    import triton
    import triton.language as tl
else:
    import tileir.frontends.triton as triton
    import tileir.frontends.triton.language as tl

GROUP = 8
TILES, DEPTHS, WARPS, STAGES = (32, 64, 128, 256), (32, 64, 128), (4, 8), (2, 3, 4)
SHARED = 227 * 1024
SIGNATURE = {
    "a": "*fp16:16", "b": "*fp16:16", "c": "*fp16:16", "m": "i32:16", "n": "i32:16", "k": "i32:16",
}  # fmt: skip


@triton.jit
def matmul(
    a, b, c, m, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
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
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        x = tl.load(left, mask=depth[None, :] < k - at, other=0.0)
        y = tl.load(right, mask=depth[:, None] < k - at, other=0.0)
        total = tl.dot(x, y, total)
        left += K
        right += K * n
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=mask)


def fits(point: Mapping[str, Any]) -> bool:
    """Whether the buffers of all stages fit in shared memory."""
    bytes_ = 2 * point["K"] * (point["M"] + point["N"]) * point["num_stages"]
    return bytes_ <= SHARED


def points() -> Iterator[dict[str, int]]:
    """The space, point by point."""
    for m in TILES:
        for n in TILES:
            for k in DEPTHS:
                for warps in WARPS:
                    for stages in STAGES:
                        point = {"M": m, "N": n, "K": k, "num_warps": warps, "num_stages": stages}
                        if fits(point):
                            yield point


def make(**tiles: int) -> Any:
    """The module for tile extents."""
    return matmul.module(SIGNATURE, {**tiles, "GROUP": GROUP})


@cache
def inputs(size: int) -> dict[str, Any]:
    """Random operands, a result of zeros."""
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size), np.float32).astype(np.float16) for _ in "ab")
    return {"a": a, "b": b, "c": np.zeros((size, size), np.float16), **dict.fromkeys("mnk", size)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The result of numpy, accumulated in f32."""
    exact = arguments["a"].astype(np.float32) @ arguments["b"].astype(np.float32)
    return {"c": exact.astype(np.float16)}
