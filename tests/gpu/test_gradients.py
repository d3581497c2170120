"""The gradient of attention on the device, as warps that load and warps that multiply, and by mma
on GPUs without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.gradients import case, gradients
from tests.backend.warp_specialize.test_atomic_accumulation import expected_c, problem, shared_depth
from tests.backend.warp_specialize.test_gradients import check, fused_gradients, near
from tileir.backend.executors import GpuExecutor
from tileir.machine import dtype_of
from tileir.types import BF16

pytestmark = pytest.mark.gpu

KINDS = {"f16": np.float16, "bf16": dtype_of(BF16)}


def launch(module: Any, grid: tuple[int, int], arguments: list[Any]) -> None:
    GpuExecutor().launch(module, None, grid, arguments)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(("t", "group"), [(1, 1), (200, 2), (333, 1), (1024, 4)])
def test_gradients(t: int, group: int, d: int, causal: bool, kind: str) -> None:
    inputs = case(t, d, heads=4, group=group, causal=causal, kind=KINDS[kind])
    check(launch, inputs, ((64, 128), (128, 64)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "shape"), [(64, (128, 128)), (64, (64, 128)), (128, (64, 128))])
@pytest.mark.parametrize(("t", "group"), [(1, 1), (200, 2), (333, 1), (1024, 4)])
def test_all_gradients(
    t: int, group: int, d: int, shape: tuple[int, int], causal: bool, kind: str
) -> None:
    inputs = case(t, d, heads=4, group=group, causal=causal, kind=KINDS[kind])
    reference = gradients(inputs)
    near(fused_gradients(launch, inputs, reference, *shape), inputs, reference)


@pytest.mark.parametrize("tile", [(64, 64), (128, 40), (128, 192)])
@pytest.mark.parametrize("size", [(64, 64, 64), (130, 72, 2000), (700, 520, 4096), (66, 75, 77)])
def test_what_is_added(size: tuple[int, int, int], tile: tuple[int, int]) -> None:
    """By copies, and by threads where no map can; by blocks that share places."""
    arguments = problem(*size)
    reference = expected_c(arguments)
    grid = (-(-size[0] // tile[0]), -(-size[1] // tile[1]), -(-size[2] // 64))
    GpuExecutor().launch(shared_depth(*tile, 32, 2), None, grid, arguments)
    np.testing.assert_array_equal(arguments[2], reference)
