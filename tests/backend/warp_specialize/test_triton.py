"""Matmuls as they are written in Triton, by descriptors and by strides, have roles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.ir import Module

M, N, K = 72, 40, 48
TILES = {"BM": 64, "BN": 32, "BK": 32}


@triton.jit
def descriptor_matmul(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Descriptors made by the kernel, a block for every tile; b is [n, k]."""
    x = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    y = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    z = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    i, j = tl.program_id(0) // tl.cdiv(n, BN), tl.program_id(0) % tl.cdiv(n, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        total = tl.dot(x.load([i * BM, step * BK]), y.load([j * BN, step * BK]).T, total)
    z.store([i * BM, j * BN], total.to(tl.float16))


@triton.jit
def persistent(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same by two blocks that go from tile to tile."""
    x = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    y = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    z = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    columns_of_tiles = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * columns_of_tiles, 2):
        i, j = tile // columns_of_tiles, tile % columns_of_tiles
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(k, BK)):
            total = tl.dot(x.load([i * BM, step * BK]), y.load([j * BN, step * BK]).T, total)
        z.store([i * BM, j * BN], total.to(tl.float16))


@triton.jit
def strided_matmul(
    a, b, c, m, n, k, am, ak, bk, bn, cm, cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Every stride is a parameter; b is [k, n]."""
    i, j = tl.program_id(0) // tl.cdiv(n, BN), tl.program_id(0) % tl.cdiv(n, BN)
    rows, columns = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    left = a + (rows % m)[:, None] * am + depth[None, :] * ak
    right = b + depth[:, None] * bk + (columns % n)[None, :] * bn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        x = tl.load(left, mask=depth[None, :] < k - step * BK, other=0.0)
        y = tl.load(right, mask=depth[:, None] < k - step * BK, other=0.0)
        total += tl.dot(x, y)
        left += BK * ak
        right += BK * bk
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * cm + columns[None, :] * cn, total.to(tl.float16), mask=inside)


POINTERS = dict.fromkeys("abc", "*fp16:16")
EXTENTS = dict.fromkeys("mnk", "i32")
OUTER, INNER = ("am", "bk", "cm"), ("ak", "bn", "cn")


def check_launch(module: Module, grid: int, b: np.ndarray[Any, Any], *strides: int) -> None:
    """Compare what it computes with numpy's matmul; b is passed as it is."""
    done = run_pipeline(module, target("sm_90a"), Options(), None)
    assert not [note for note in done.notes if note.code == "TIR0653"]
    assert any(op.mnemonic == "gpu.role" for op in done.stages["legal"].kernel(None).ops)
    a = np.random.default_rng(0).integers(-4, 5, (M, K)).astype(np.float16)
    out = np.full((M, N), np.nan, np.float16)
    SimtExecutor().launch(module, None, grid, [a, b, out, M, N, K, *strides], target="sm_90a")
    right = b if b.shape == (K, N) else b.T
    np.testing.assert_array_equal(out, a.astype(np.float32) @ right.astype(np.float32))


def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float16)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kernel", "grid"), ((descriptor_matmul, 4), (persistent, 2)))
def test_descriptors(kernel: Any, grid: int) -> None:
    check_launch(kernel.module(POINTERS | EXTENTS, TILES), grid, small(N, K))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wide", ("i32", "i64"))
@pytest.mark.parametrize("specialised", (False, True))
def test_strides(specialised: bool, wide: str) -> None:
    kinds, ones = dict.fromkeys(OUTER, wide), dict.fromkeys(INNER, 1)
    if specialised:
        module = strided_matmul.module(POINTERS | EXTENTS | kinds, TILES | ones)
        check_launch(module, 4, small(K, N), K, N, N)
    else:
        module = strided_matmul.module(
            POINTERS | EXTENTS | kinds | dict.fromkeys(INNER, wide), TILES
        )
        check_launch(module, 4, small(K, N), K, 1, N, 1, N, 1)
