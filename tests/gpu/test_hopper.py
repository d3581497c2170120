"""Tensor maps, barriers that count, matmuls by warpgroups and roles on sm_90: what the machine of
threads says of them is so. A wait that never ends stops the kernel after 1.5 seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.hopper.programs import WgmmaProgram, corpus
from tests.backend.hopper.test_matmuls import LARGE, SMALL
from tileir.backend.executors import GpuExecutor, gpu_target
from tileir.textual import parse

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def hopper() -> None:
    """Matmuls by warpgroups are sm_90a's."""
    if gpu_target() != "sm_90a":
        pytest.skip("needs a GPU of compute capability 9.0")


@pytest.mark.parametrize("product", [*SMALL, *LARGE], ids=str)
def test_matmuls(product: WgmmaProgram) -> None:
    arguments, expected = product.arguments(1)
    arguments[2][:] = np.nan if arguments[2].dtype.kind == "f" else -1
    GpuExecutor().launch(product.module(), "product", 1, arguments, wait_timeout=True)
    assert np.array_equal(arguments[2].astype(np.float64), expected)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("shape", [(128, 64, 64), (256, 128, 640), (200, 104, 200), (1, 8, 8)])
def test_a_ring(shape: tuple[int, int, int], watched: bool) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    stored: list[Any] = [x.astype(np.float16).ravel() for x in (a, b)]
    for _ in range(3):
        c = np.full((m, n), np.nan, np.float16)
        grid = -(-m // 128), -(-n // 64)
        arguments = [*stored, c.reshape(-1), m, n, k]
        GpuExecutor().launch(parse(corpus("ring")), None, grid, arguments, wait_timeout=watched)
        assert np.array_equal(c, a @ b)
