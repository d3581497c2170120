"""Triton's driver for this machine's CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from triton.backends.driver import DriverBase

from tileir_triton.settings import CPU_MODES, cpu_mode
from tileir_triton.version import release_of

if cpu_mode() in CPU_MODES:  # asked for by name, also where there is a GPU
    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "cpu")

if cpu_mode() == "interpreter":
    with suppress(ImportError):
        import torch

        from tileir.frontends.triton_backend.cpu.uninitialized import fill_uninitialized

        fill_uninitialized(torch)

_LARGE = 1 << 30
"""Bytes and threads that a block may have: a CPU sets no limit."""


class CPUUtils:
    """The properties of the machine that Triton queries."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Limits of the device, and what Triton's tools compute speeds from."""
        return {
            "max_shared_mem": _LARGE, "max_num_regs": _LARGE, "warpSize": 32,
            "multiprocessor_count": os.cpu_count() or 1, "sm_clock_rate": 1, "mem_clock_rate": 1,
            "mem_bus_width": 64,
        }  # fmt: skip

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """The module `binary`, its kernel `name`, registers and spills of a thread, and from
        Triton 3.4 on the most threads of a block. Programs divide by registers and shared memory
        to fill a multiprocessor, so a thread has a register and a block has a byte."""
        from triton import __version__

        from tileir.frontends.triton_backend.cpu.programs import CpuProgram

        program = CpuProgram.from_binary(name, binary)
        loaded = (binary, program, 1, 0, _LARGE)
        return loaded[:4] if __version__.startswith("3.3.") else loaded

    def unload_module(self, module: Any) -> None:
        """Python frees it."""


class Event:
    """A moment, for Triton's benchmarks."""

    def __init__(self, enable_timing: bool = True) -> None:
        self.at = 0

    def record(self, stream: Any = None) -> None:
        """It is now: launches end before they return."""
        self.at = time.perf_counter_ns()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until `end`."""
        return (end.at - self.at) / 1e6

    def synchronize(self) -> None:
        """Nothing is under way."""


class Interface:
    """The part of `torch.cuda` that Triton's benchmarks use, of the CPU."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Nothing is under way."""

    @staticmethod
    def current_device() -> int:
        """The only one."""
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """There is one."""

    @staticmethod
    def device_count() -> int:
        """One."""
        return 1


class CPUDriver(DriverBase):
    """The CPU of this machine as a driver of Triton. It is active if TILEIR_TRITON_CPU or
    TRITON_DEFAULT_BACKEND selects it, and no other driver is active."""

    def __init__(self) -> None:
        self.utils, self.launcher_cls = CPUUtils(), _launcher

    @staticmethod
    def is_active() -> bool:
        """Whether it was asked for, or nothing else is there to run kernels."""
        if _is_requested():
            return True
        return cpu_mode() != "off" and not _others_are_active()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """No C is written."""
        return ty

    def get_current_target(self) -> Any:
        """The target `cpu`."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cpu", "cpu", 32)

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """There is one."""

    def get_current_stream(self, device: Any = None) -> int:
        """Launches end before they return."""
        return 0

    def get_active_torch_device(self) -> Any:
        """`torch.device("cpu")`."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """The counterpart of `torch.cuda` for Triton's benchmarks."""
        return Interface

    def get_benchmarker(self) -> Any:
        """Triton's own benchmark, which asks this driver for the time."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Bytes to write between runs, so that operands are in no cache."""
        return bytearray(_CACHE_BYTES)

    def clear_cache(self, cache: Any) -> None:
        """Write all of `cache`."""
        cache[:] = bytes(len(cache))


CPUDriver.__abstractmethods__ = frozenset()

_CACHE_BYTES = 1 << 22
"""About what a core has for itself: more would take longer to write than most kernels run."""


def _is_requested() -> bool:
    """Whether the environment selects the CPU."""
    return cpu_mode() in CPU_MODES or os.environ.get("TRITON_DEFAULT_BACKEND") == "cpu"


def _deactivate_others() -> None:
    """Let the drivers of GPUs not be active, where the environment selects the CPU. Triton before
    3.7 does not read TRITON_DEFAULT_BACKEND, and raises an error if two drivers are active."""
    from triton import __version__

    if _is_requested() and release_of(__version__) < (3, 7):
        for driver in _gpu_drivers():
            driver.is_active = staticmethod(_is_inactive)


def _is_inactive() -> bool:
    return False


def _gpu_drivers() -> Iterator[Any]:
    """The classes of Triton's drivers of GPUs: as Triton found them, or as it is about to."""
    from triton import backends

    registered: dict[str, Any] = getattr(backends, "backends", {})
    for name, kind in (("nvidia", "CudaDriver"), ("amd", "HIPDriver")):
        if name in registered:  # 3.3 loads modules of backends by their files, not by their names
            yield registered[name].driver
        else:
            with suppress(ImportError):
                yield getattr(import_module(f"triton.backends.{name}.driver"), kind)


def _launcher(source: Any, metadata: Any) -> Any:
    from tileir.frontends.triton_backend.cpu.launcher import CpuLauncher

    return CpuLauncher(source, metadata)


def _others_are_active() -> bool:
    from triton.backends import backends

    return any(
        backend.driver.is_active()
        for name, backend in backends.items()
        if name != "cpu" and not issubclass(backend.driver, CPUDriver)
    )


_deactivate_others()
