"""Clusters on sm_90: blocks read each other's shared memory, and share the depth of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.hopper.programs import corpus
from tests.backend.hopper.test_clusters import four, two
from tests.backend.roles.test_split import KINDS, arguments, tiles
from tileir.backend.executor import GpuExecutor, gpu_target

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def hopper() -> None:
    """Products by warpgroups are sm_90a's."""
    if gpu_target() != "sm_90a":
        pytest.skip("needs a GPU of compute capability 9.0")


def on_gpu(module: Any, grid: int, given: list[Any], seed: int) -> None:
    GpuExecutor().launch(module, None, grid, given, watch_waits=True)


@pytest.mark.parametrize(("run", "name"), [(four, "cluster"), (two, "remote")])
def test_sums(run: Any, name: str) -> None:
    for seed in range(20):
        run(corpus(name), seed, on_gpu)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", KINDS)
def test_products(name: str, ranks: int, persistent: bool) -> None:
    module = KINDS[name][0]
    for shape in ((64, 64, 4096), (72, 136, 32), (130, 64, 16), (640, 2048, 512), (40, 24, 1040)):
        given, found, wanted = arguments(name, shape)
        GpuExecutor().launch(
            module, None, tiles(module, shape), given, split=ranks, persistent=persistent,
            watch_waits=True,
        )  # fmt: skip
        exact = found.astype(np.float64)
        near = 0.0 if name not in ("halves", "f16", "e4m3") else 2e-3
        assert np.allclose(exact, wanted, near, near * np.abs(wanted).max()), shape


def test_runs_are_the_same_bits() -> None:
    module, (m, n, k) = KINDS["f16"][0], (640, 640, 8192)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype(np.float16).reshape(-1) for s in ((m, k), (k, n)))
    seen = set()
    for _ in range(10):
        z = np.zeros(m * n, np.float16)
        GpuExecutor().launch(module, None, 100, [x, y, z, m, n, k], split=4)
        seen.add(z.tobytes())
    assert len(seen) == 1


def test_clusters_of_16() -> None:
    """More blocks than every machine has: the launcher asks for leave."""
    from tileir.builder import F16, F32
    from tileir.testing.kernels import matmul

    rng = np.random.default_rng(2)
    x, y = rng.integers(-2, 3, (128, 2048)), rng.integers(-2, 3, (2048, 64))
    found = np.zeros((128, 64), np.float32)
    given = [x.astype(np.float16).reshape(-1), y.astype(np.float16).reshape(-1), found.reshape(-1)]
    module = matmul(128, 64, 64, F16, F32, F32)
    GpuExecutor().launch(module, None, 1, [*given, 128, 64, 2048], split=16, watch_waits=True)
    assert np.array_equal(found, x @ y)
