"""The gradient of attention on the device, as warps that load and warps that multiply, and by mma
on GPUs without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.roles.gradients import case
from tests.backend.roles.test_gradients import check
from tileir.backend.executor import GpuExecutor
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
    given = case(t, d, heads=4, group=group, causal=causal, kind=KINDS[kind])
    check(launch, given, ((64, 128), (128, 64)))
