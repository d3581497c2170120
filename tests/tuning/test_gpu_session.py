"""Measuring on a GPU, with a driver that only remembers and a kernel that numpy runs."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matmuls import inputs, problem, reference

from tileir.backend.compile import Options
from tileir.backend.driver import launch as launching, timing
from tileir.backend.driver.gpu import Gpu
from tileir.backend.measurement.at_launch import measured_here
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.tuning import Exhaustive, GpuMeter, TuneError, gpu, tune
from tileir.backend.tuning.measuring_process import Opening, measure_candidate
from tileir.backend.tuning.synchronous_executor import SynchronousExecutor
from tileir.measuring import Candidate

SIZE = 64
POINT = {"M": 64, "N": 64, "K": 32, "num_warps": 4, "num_stages": 3}


class Driver:
    """Memory of the host as the device's; launches take 5, 6, 7, ... microseconds."""

    def __init__(self, wrong: bool = False) -> None:
        self.wrong, self.memory, self.log = wrong, dict[int, Any](), list[str]()
        self.clock = itertools.count(5)
        names = ("cuMemsetD8Async", "cuEventRecord", "cuEventDestroy")
        calls = {n: lambda *_, n=n: self.log.append(n) or (0,) for n in names}
        self.cuda = SimpleNamespace(
            **calls,
            CUdevice_attribute=SimpleNamespace(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=1),
            CUpointer_attribute=SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9),
            cuPointerGetAttribute=lambda *_: (0, 0),
            cuCtxGetDevice=lambda: (0, 0),
            cuDeviceGetAttribute=lambda *_: (0, 50 << 20),
            cuEventCreate=lambda _: (0, object()),
            cuEventElapsedTime=lambda *_: (0, next(self.clock) / 1e3),
            cuDeviceGet=lambda i: (0, i),
            cuDeviceGetName=lambda *_: (0, b"Made Up\0\0"),
            cuDriverGetVersion=lambda: (0, 13010),
            cuDeviceGetCount=lambda: (0, 2),
        )

    def check(self, result: Any, what: str) -> Any:
        status, *values = result
        assert status == 0, what
        return values[0] if values else None

    def context(self) -> int:
        return 1

    def allocate(self, size: int) -> int:
        buffer = ctypes.create_string_buffer(size if size < 1 << 24 else 1)
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def free(self, address: int) -> None:
        del self.memory[address]

    def to_device(self, address: int, host: int, size: int) -> None:
        ctypes.memmove(address, host, size)

    def to_host(self, host: int, address: int, size: int) -> None:
        ctypes.memmove(host, address, size)

    def synchronize(self) -> None:
        self.log.append("wait")

    def load(self, compiled: Any, kernel: str) -> Any:
        assert compiled.cubin[:4] == b"\x7fELF"
        return 1

    def allow_shared(self, function: Any, size: int) -> None:
        pass

    def launch(
        self, function: Any, grid: Any, threads: int, shared: int, stream: int, values: Any
    ) -> None:  # fmt: skip
        self.log.append("launch")
        a, b, c = (_array(value.value) for value in values[:3])
        c[...] = reference({"a": a, "b": b})["c"] + (np.float16(9) if self.wrong else np.float16(0))


def _array(address: int) -> Any:
    kind = ctypes.c_uint16 * (SIZE * SIZE)
    values = np.frombuffer(kind.from_address(address), np.float16)
    return values.reshape(SIZE, SIZE)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Driver:
    driver = Driver(getattr(request, "param", False))
    for module in (gpu, timing, launching):
        monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setattr(launching, "gpu", lambda: Gpu(driver, 1, 0))
    monkeypatch.setattr(native_launcher, "is_supported", lambda: False)
    return driver


METER = GpuMeter("sm_90")


def bench():
    return Opening(METER, lambda: inputs(SIZE), reference, None, "")()


def test_launches_are_timed_one_by_one_with_a_cold_cache(device):
    job, here = problem(SIZE).job(POINT), bench()
    samples = measure_candidate(here, METER.compile(job), job.grid, 4, True)
    assert samples == pytest.approx([6e-6, 7e-6, 8e-6, 9e-6])
    once = ["cuMemsetD8Async", "cuEventRecord", "launch", "cuEventRecord"]
    assert device.log[:2] == ["launch", "wait"]  # the one whose result is looked at
    timed = [x for x in device.log[2:] if x != "cuEventDestroy"]
    assert timed == [*once, "wait", *once * 4, "wait"]


def test_long_launches_are_timed_less_often(device):
    device.clock = itertools.repeat(50_000)
    job, here = problem(SIZE).job(POINT), bench()
    assert len(measure_candidate(here, METER.compile(job), job.grid, 100, False)) == 4
    assert len(measure_candidate(here, METER.compile(job), job.grid, 2, False)) == 2


@pytest.mark.parametrize("device", [True], indirect=True)
def test_wrong_results_are_detected(device):
    job, here = problem(SIZE).job(POINT), bench()
    with pytest.raises(TuneError, match="c is off by") as error:
        measure_candidate(here, METER.compile(job), job.grid, 4, True)
    assert error.value.code == "TIR1107"


def test_sessions_give_back_what_they_hold(device):
    here = bench()
    assert len(device.memory) == 4
    here.session.close()
    assert not device.memory


def test_devices_of_one_kind_are_used_side_by_side(device, monkeypatch):
    result = METER.device()
    assert (result.name, result.driver) == ("Made Up", "13.1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert METER.places() == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert METER.places() == [{"CUDA_VISIBLE_DEVICES": "5"}, {"CUDA_VISIBLE_DEVICES": "7"}]


def test_a_space_is_tuned(device):
    space = problem(SIZE).space.with_choices(M=(32, 64), N=(32,), K=(32,), num_warps=(2,))
    meter = GpuMeter("sm_90", needs_isolation=False)
    search = Exhaustive(launches=3)
    result = tune(problem(SIZE, space), meter, search=search, executor=SynchronousExecutor())
    assert len(result.good_outcomes) == len(space) == 6
    assert all(o.registers and o.predicted for o in result.good_outcomes)
    assert result.best.seconds == pytest.approx(7e-6)


def test_what_a_frontend_measures_is_compiled_for_its_launch_too(device, monkeypatch):
    monkeypatch.setenv("TILEIR_CACHE", "off")
    module = problem(SIZE).job(POINT).module()
    candidates = [Candidate(module, "matmul", (1, 1), {"num_warps": n}) for n in (2, 4)]
    timing = measured_here(METER, candidates, inputs(SIZE))
    assert all(isinstance(seconds, float) for seconds in timing)
    assert not device.memory
    kept = Cache.usual()
    key = kept.key(module, "sm_90", Options(num_warps=4), "matmul")
    assert kept.compile(module, "sm_90", {"num_warps": 4}, "matmul") is kept._by_key[key]
