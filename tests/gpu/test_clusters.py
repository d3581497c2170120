"""Clusters on sm_90: blocks read each other's shared memory, and share the depth of matmuls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.hopper.programs import corpus
from tests.backend.hopper.test_clusters import four, two
from tests.backend.warp_specialize.test_split_k import KINDS, arguments, tiles
from tileir.backend.executors import GpuExecutor, gpu_target

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def hopper() -> None:
    """Matmuls by warpgroups are sm_90a's."""
    if gpu_target() != "sm_90a":
        pytest.skip("needs a GPU of compute capability 9.0")


def on_gpu(module: Any, grid: int, arguments: list[Any], seed: int) -> None:
    GpuExecutor().launch(module, None, grid, arguments, wait_timeout=True)


@pytest.mark.parametrize(("run", "name"), [(four, "cluster"), (two, "remote")])
def test_accumulators(run: Any, name: str) -> None:
    for seed in range(20):
        run(corpus(name), seed, on_gpu)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", KINDS)
def test_matmuls(name: str, ranks: int, persistent: bool) -> None:
    module = KINDS[name][0]
    for shape in ((64, 64, 4096), (72, 136, 32), (130, 64, 16), (640, 2048, 512), (40, 24, 1040)):
        inputs, actual, expected = arguments(name, shape)
        GpuExecutor().launch(
            module, None, tiles(module, shape), inputs, split_k=ranks, persistent=persistent,
            wait_timeout=True,
        )  # fmt: skip
        exact = actual.astype(np.float64)
        near = 0.0 if name not in ("halves", "f16", "e4m3") else 2e-3
        assert np.allclose(exact, expected, near, near * np.abs(expected).max()), shape


@pytest.mark.parametrize("pingpong", [False, True])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", KINDS)
def test_multicast(name: str, ranks: int, pingpong: bool) -> None:
    module = KINDS[name][0]
    for shape in ((64, 64, 4096), (72, 136, 32), (130, 64, 16), (1640, 2056, 512), (40, 24, 1040)):
        inputs, actual, expected = arguments(name, shape)
        kernel = GpuExecutor().launch(
            module, None, tiles(module, shape), inputs, multicast=ranks, pingpong=pingpong,
            wait_timeout=True,
        )  # fmt: skip
        assert kernel.plan.cluster == (ranks, 1, 1)
        exact = actual.astype(np.float64)
        near = 0.0 if name not in ("halves", "f16", "e4m3") else 2e-3
        assert np.allclose(exact, expected, near, near * np.abs(expected).max()), shape


@pytest.mark.parametrize("ranks", [2, 4])
def test_multicast_of_large_tiles(ranks: int) -> None:
    """Neighbours share columns, rows, or nothing where a group of rows ends; in many iterations."""
    from tileir.builder import F16, F32
    from tileir.testing.kernels import matmul

    module, (m, n, k) = matmul(128, 256, 64, F16, F32, F32), (3000, 5000, 1000)
    rng = np.random.default_rng(3)
    x, y = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (k, n))
    operands = [v.astype(np.float16).reshape(-1) for v in (x, y)]
    expected = x.astype(np.float32) @ y.astype(np.float32)
    for _ in range(5):
        actual = np.full((m, n), np.nan, np.float32)
        arguments = [*operands, actual.reshape(-1), m, n, k]
        count = -(-m // 128) * -(-n // 256)
        GpuExecutor().launch(module, None, count, arguments, multicast=ranks, wait_timeout=True)
        assert np.array_equal(actual, expected)


def test_runs_are_the_same_bits() -> None:
    module, (m, n, k) = KINDS["f16"][0], (640, 640, 8192)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype(np.float16).reshape(-1) for s in ((m, k), (k, n)))
    seen = set()
    for _ in range(10):
        z = np.zeros(m * n, np.float16)
        GpuExecutor().launch(module, None, 100, [x, y, z, m, n, k], split_k=4)
        seen.add(z.tobytes())
    assert len(seen) == 1


def test_clusters_of_16() -> None:
    """More blocks than every machine has: the launcher asks for leave."""
    from tileir.builder import F16, F32
    from tileir.testing.kernels import matmul

    rng = np.random.default_rng(2)
    x, y = rng.integers(-2, 3, (128, 2048)), rng.integers(-2, 3, (2048, 64))
    out = np.zeros((128, 64), np.float32)
    arguments = [
        x.astype(np.float16).reshape(-1),
        y.astype(np.float16).reshape(-1),
        out.reshape(-1),
    ]
    module = matmul(128, 64, 64, F16, F32, F32)
    GpuExecutor().launch(
        module, None, 1, [*arguments, 128, 64, 2048], split_k=16, wait_timeout=True
    )
    assert np.array_equal(out, x @ y)
