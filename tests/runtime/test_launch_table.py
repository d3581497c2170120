"""The calls that `benchmarks/launch_table.py` times are repeated by machine code."""

from types import SimpleNamespace

import pytest

from tileir.backend import compile as compile_kernel, executors as gpu_executor
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.frontend_calls import FrontendKernels

from .machines import FakeMachine, TorchLike


@pytest.fixture
def table(benchmarks):
    return benchmarks("launch_table")


@pytest.fixture
def kernels(table, tmp_path):
    return table.import_source(tmp_path, "launch_ours", table.OURS + table.SOURCE)


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
def test_each_kind_of_call_reaches_machine_code(table, kernels, monkeypatch):
    machine = FakeMachine()
    machine.owner = lambda address: 0
    calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
    monkeypatch.setattr(gpu_executor, "gpu_calls", lambda: calls)
    for tuned in (kernels.tuned_add, kernels.tuned_matmul):
        monkeypatch.setattr(tuned, "_fastest", lambda *_, first=tuned.configs[0]: first)
    shape = (table.SIZE, table.SIZE)
    tensors = SimpleNamespace(
        rows=[TorchLike(4096 * i, shape=(512,)) for i in (1, 2, 3)],
        halves=[TorchLike(1 << 20 + i, "float16", shape) for i in range(6)],
        square=TorchLike(1 << 16, shape=(64, 64)),
    )
    for kind, make in table.KINDS.items():
        call = make(kernels, tensors)
        for _ in range(5):
            call()
        assert machine.launches[-1].native, kind


def test_kernels_have_the_maps_that_the_kinds_name(table, kernels):
    tile = table.TILE
    for name, arrays, scalars, constants, maps in (
        ("gram", {"a": "*fp16:16", "c": "*fp32:16"}, "nk", {"BLOCK": 64}, 1),
        ("matmul", dict.fromkeys("abc", "*fp16:16"), "mnk", tile, 3),
        ("matmuls", dict.fromkeys("abcdef", "*fp16:16"), "mnk", tile, 6),
        ("described", dict.fromkeys("abc", "tensordesc<fp16[64, 64]>"), "k", tile, 3),
    ):
        signature = arrays | dict.fromkeys(scalars, "i32:16")
        module = getattr(kernels, name).module(signature, constants)
        assert len(compile_kernel(module, "sm_90a").host.maps) == maps
