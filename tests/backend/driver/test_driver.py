"""Kernels loaded and launched through a driver that needs no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel, executors as gpu_executor
from tileir.backend.driver import device, launch
from tileir.backend.driver.batch import Loaded, compile_batch
from tileir.backend.driver.launch_plan import plan_launch
from tileir.backend.runtime.array_protocols import StridedTensor
from tileir.backend.tma.host_plan import HostPlan
from tileir.builder import F32, Builder, pointer
from tileir.errors import CompileError, Diagnostic, LaunchError
from tileir.textual import parse

from .fake_driver import Cuda, add_one


def adding(name="k"):
    b = Builder()
    with b.kernel(name, x=pointer(F32)) as (x,):
        at = x + b.arange(8)
        at.store(at.load() + 1.0)
    return b.module()


@pytest.fixture
def cuda():
    return Cuda(a=add_one, k=add_one)


def test_a_batch_runs_on_copies(cuda):
    batch = compile_batch([adding("a"), adding("k")], "sm_80")
    assert set(batch.plans) == {"a", "k"} and not batch.refused
    batch.__dict__["machine_code"] = SimpleNamespace(cubin=b"code")
    loaded, x = Loaded(batch, cuda.driver()), np.arange(16, dtype=np.float32)[::2]
    loaded.launch("k", (5,), [x])
    loaded.launch("a", (3, 2), [x])
    assert x.tolist() == [2.0 * i + 2 for i in range(8)]
    threads = {name: 32 * plan.num_warps for name, plan in batch.plans.items()}
    assert cuda.launches == [("k", (5, 1, 1), threads["k"], 0), ("a", (3, 2, 1), threads["a"], 0)]
    assert not cuda.memory


def test_arrays_without_elements_have_an_address(cuda):
    batch = compile_batch([adding()], "sm_80")
    batch.__dict__["machine_code"] = SimpleNamespace(cubin=b"code")
    cuda.kernels["k"] = lambda words: None
    Loaded(batch, cuda.driver()).launch("k", (1,), [np.zeros(0, np.float32)])
    assert len(cuda.launches) == 1 and not cuda.memory


class Unassembled:
    """A compiled kernel whose machine code cannot be made."""

    ptx = ".version 8.0"

    def __init__(self, code):
        self.code = code

    @property
    def cubin(self):
        raise CompileError(Diagnostic(self.code, "no machine code"))


def test_ptx_is_loaded_where_there_is_no_assembler(cuda):
    cuda.driver().load(Unassembled("TIR0704"), "k")
    assert cuda.loaded == [b".version 8.0\0"]


def test_what_the_assembler_refuses_is_not_loaded(cuda):
    with pytest.raises(CompileError) as caught:
        cuda.driver().load(Unassembled("TIR0705"), "k")
    assert caught.value.code == "TIR0705" and not cuda.loaded


def test_why_nothing_can_be_launched(cuda, monkeypatch):
    def missing():
        raise LaunchError(Diagnostic("TIR0711", "no CUDA driver"))

    monkeypatch.setattr(device, "driver", missing)
    assert device.available() == "no CUDA driver"
    monkeypatch.setattr(device, "driver", cuda.driver)
    assert device.available() is None


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (4.0,), (4, True), (1, -1, 1), -1, "4"])
def test_grids_that_are_refused(grid):
    with pytest.raises(LaunchError, match=r"TIR0710.*a grid is 1 to 3 numbers"):
        launch.LoadedKernel(compile_kernel(adding(), "sm_80"))[grid]


@pytest.mark.parametrize("grid", [0, (0,), [4, 0], (1, 0, 1)])
def test_grids_of_nothing_launch_nothing(grid):
    launch.LoadedKernel(compile_kernel(adding(), "sm_80"))[grid](0, 0, 0, 0)


@pytest.mark.parametrize("grid", [1, (1,), (2, 1), (1, 2, 3), [2, 1], np.int64(3)])
def test_grids_that_are_launched(grid, monkeypatch):
    monkeypatch.setattr(launch, "gpu", lambda: SimpleNamespace(launch_address=0, devices=1))
    assert callable(launch.LoadedKernel(compile_kernel(adding(), "sm_80"))[grid])


def test_the_executor_compiles_for_the_target_it_is_given(cuda, monkeypatch):
    calls = []

    def kernel(compiled):
        calls.append((compiled.ptx.split(".target ")[1][:5], compiled.plan.num_warps))
        return {(1,): lambda copy: None}

    monkeypatch.setattr(gpu_executor, "driver", cuda.driver)
    monkeypatch.setattr(gpu_executor, "gpu_target", lambda: "sm_90")
    monkeypatch.setattr(gpu_executor, "LoadedKernel", kernel)
    run = gpu_executor.GpuExecutor().launch
    for options in ({}, {"target": "sm_80"}, {"target": None, "num_warps": 2}):
        run(adding(), "k", (1,), [np.zeros(8, np.float32)], **options)
    assert [name for name, _ in calls] == ["sm_90", "sm_80", "sm_90"]
    assert calls[2][1] == 2 and not cuda.memory


COPY = """tir 1.0

define kernel void @copy(tensor_desc<f32<8, 16>> %from, f32* %to, i32 %n) {
entry:
  ret
}
"""


def test_the_executor_passes_addresses_of_copies(cuda, monkeypatch):
    """Of an array its address, with extents and strides where the parameter is a descriptor; one
    array is copied once. What is no array stays."""
    passed = []

    def kernel(compiled):
        return {(2,): lambda *stored: passed.extend(stored)}

    monkeypatch.setattr(gpu_executor, "driver", cuda.driver)
    monkeypatch.setattr(gpu_executor, "LoadedKernel", kernel)
    x, y = np.zeros((32, 24), np.float32)[::2, :16], np.zeros(4, np.float32)
    run = gpu_executor.GpuExecutor().launch
    run(parse(COPY), "copy", (2,), [x, y, 7], target="sm_80")
    tensor, address, number = passed
    assert isinstance(tensor, StridedTensor) and number == 7
    assert (tensor.extents, tensor.strides) == ((16, 16), (48, 1))
    assert isinstance(address, int) and tensor.address != address
    assert not cuda.memory


def test_without_a_choice_of_a_gpu_the_first_is_taken(cuda, monkeypatch):
    current = []
    retained = {0: 70, 1: 71}
    monkeypatch.setattr(cuda, "cuCtxGetCurrent", lambda: (0, current[-1] if current else 0))
    for name, answer in (
        ("cuDeviceGet", lambda number: (0, number)),
        ("cuDevicePrimaryCtxRetain", lambda device: (0, retained[device])),
        ("cuCtxSetCurrent", lambda context: (current.append(context), (0,))[1]),
    ):
        monkeypatch.setattr(cuda, name, answer, raising=False)
    driver = cuda.driver()
    assert driver.context() == 70 and current == [70]
    current.append(71)
    assert driver.context() == 71


@pytest.mark.parametrize(
    ("persistent", "grid", "blocks"),
    [(1, (4, 2, 1), 8), (1, (11, 6, 2), 66), (2, (7, 1, 1), 4), (2, (500, 3, 1), 66)],
)
def test_no_more_blocks_are_launched_than_run_at_once(persistent, grid, blocks):
    """Nor more than there is work for; each does `persistent` instances at a time."""
    plan = HostPlan(6, (), (), (), persistent)
    result = plan_launch(plan, grid, [1, 2, 3], 66)
    assert (result.grid, result.extents) == ((blocks, 1, 1), grid)


def test_kernels_that_do_not_persist_have_the_grid_they_are_given():
    plan = plan_launch(HostPlan(3, (), (), ()), (500, 3), [1, 2, 3], 66)
    assert (plan.grid, plan.extents) == ((500, 3), ())
