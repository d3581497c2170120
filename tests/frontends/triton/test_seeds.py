"""Every kernel of seeds 001, 002 and 004 gives what numpy does, on sizes its document allows and
on odd ones, in the interpreter and thread by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton

from . import seed_kernels as k

ON = pytest.mark.parametrize("on", ["interpreter", "simt"])


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@ON
@pytest.mark.parametrize("n", [512, 1000, 7])
def test_add(on: str, n: int) -> None:
    x, y = np.arange(n, dtype=np.int32), np.full(n, 5, np.int32)
    z = np.zeros(n, np.int32)
    k.add[(triton.cdiv(n, 512),)](x, y, z, n, on=on)
    assert (z == x + 5).all()


@ON
@pytest.mark.parametrize("shape", [(3, 931), (2, 1024), (4, 1)])
def test_softmax(on: str, shape: tuple[int, int]) -> None:
    x = normal(*shape)
    y = np.full_like(x, np.nan)
    rows, columns = shape
    k.softmax[(rows,)](y, columns, 1, x, columns, 1, rows, columns, num_warps=2, on=on)
    top = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, top / top.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@ON
@pytest.mark.parametrize("shape", [(64, 64, 32), (128, 64, 64)])
def test_matmul(on: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = normal(M, K, dtype=np.float16), normal(K, N, dtype=np.float16)
    c = np.full((M, N), np.nan, np.float16)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}
    grid = (M // 32 * 2, N // 32 // 2)
    k.matmul[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, **blocks, on=on)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-2)


@ON
@pytest.mark.parametrize("n", [1000, 1008, 5])
@pytest.mark.parametrize("kernel", ["kernel_230423_01", "kernel_230423_05", "kernel_230423_07"])
@pytest.mark.parametrize("warps", [1, 4])
def test_copies(on: str, n: int, kernel: str, warps: int) -> None:
    x = normal(n)
    y = np.zeros(n, np.float32)
    grid = triton.cdiv(n, 128) if kernel == "kernel_230423_01" else 1
    getattr(k, kernel)[(grid,)](x, y, n, 128, num_warps=warps, on=on)
    assert (x == y).all()


@ON
def test_copies_of_static_shape(on: str) -> None:
    x, y = normal(1000), np.zeros(1000, np.float32)
    k.kernel_230424_01[(1,)](x, y, 1000, 128, num_warps=16, on=on)
    assert (x == y).all()
    x, y = normal(100, 32), np.zeros((100, 32), np.float32)
    k.kernel_230424_02[(1,)](x, y, 100, 32, 32, num_warps=4, on=on)
    assert (x == y).all()


@ON
@pytest.mark.parametrize("n", [128, 100])
def test_sums(on: str, n: int) -> None:
    x, y = normal(n), np.zeros(1, np.float32)
    k.kernel_230424_03[(1,)](x, y, n, num_warps=4, on=on)
    np.testing.assert_allclose(y[0], x.sum(), rtol=1e-5, atol=1e-5)
    y[:] = 0
    k.kernel_230424_04[(triton.cdiv(n, 32),)](x, y, n, 32, num_warps=1, on=on)
    np.testing.assert_allclose(y[0], x.sum(), rtol=1e-5, atol=1e-5)


@ON
@pytest.mark.parametrize("n", [16, 15])
def test_transpose_sigmoid_and_product(on: str, n: int) -> None:
    x, y = normal(n, n), np.zeros((n, n), np.float32)
    k.kernel_230424_05[(1,)](x, y, n, num_warps=1, on=on)
    assert (y == x.T).all()
    flat, out = normal(2 * n), np.zeros(2 * n, np.float32)
    k.kernel_230424_06[(1,)](flat, out, 2 * n, num_warps=1, on=on)
    np.testing.assert_allclose(out, 1 / (1 + np.exp(-flat)), rtol=1e-6)
    a, b = normal(n, n, dtype=np.float16), normal(n, n, dtype=np.float16)
    d = np.zeros((n, n), np.float16)
    k.kernel_230429_01[(1,)](a, b, d, n, n, n, num_warps=1, on=on)
    np.testing.assert_allclose(d, a.astype("f") @ b.astype("f"), atol=1e-2)


@ON
@pytest.mark.parametrize("window", [(3, 3), (1, 1), (2, 5)])
def test_conv2d(on: str, window: tuple[int, int]) -> None:
    H, W, (KH, KW) = 21, 34, window
    x, w = normal(H, W), normal(KH, KW)
    out = np.full((H - KH + 1, W - KW + 1), np.nan, np.float32)
    grid = (triton.cdiv(out.shape[0], 8), triton.cdiv(out.shape[1], 16))
    k.conv2d[grid](x, w, out, H, W, KH, KW, 8, 16, on=on)
    views = np.lib.stride_tricks.sliding_window_view(x, window)
    np.testing.assert_allclose(out, np.einsum("hwij,ij->hw", views, w), rtol=1e-4, atol=1e-5)
