"""What host code of public kernels asks of the machine."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import tileir.frontends.triton as triton


def torch(*, gpu: bool) -> Any:
    """As much of torch as is asked."""
    properties = SimpleNamespace(
        multi_processor_count=132, regs_per_multiprocessor=65536,
        shared_memory_per_block_optin=232448, warp_size=32,
    )  # fmt: skip
    cuda = SimpleNamespace(
        is_available=lambda: gpu, current_device=lambda: 1, get_device_capability=lambda: (9, 0),
        get_device_properties=lambda number: properties,
    )  # fmt: skip
    return SimpleNamespace(device=lambda *args: args, cuda=cuda)


def test_the_gpu_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(gpu=True))
    active = triton.runtime.driver.active
    assert active.get_active_torch_device() == ("cuda", 1)
    assert active.get_current_device() == 1
    target = active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    properties = active.utils.get_device_properties(1)
    assert (properties["multiprocessor_count"], properties["max_shared_mem"]) == (132, 232448)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(gpu=False))
    active = triton.runtime.driver.active
    assert active.get_active_torch_device() == ("cpu",)
    assert (active.get_current_device(), active.get_current_target().arch) == (0, 80)
    assert active.utils.get_device_properties(0)["warpSize"] == 32
