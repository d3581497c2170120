"""The GPUs of this machine, as launchers see them."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import attrs

from tileir.backend.driver.c_values import c_values
from tileir.backend.driver.device import CudaDriver, driver
from tileir.backend.runtime.dispatch import RepeatableLaunch
from tileir.backend.target import TARGETS
from tileir.errors import Diagnostic, LaunchError

_ENCODE = "cuTensorMapEncodeTiled"
"""The driver function that encodes tensor maps, available since CUDA 12.0."""


@cache
def gpu() -> Gpu:
    """The GPUs of this machine. Raises `LaunchError` (TIR0711) if there is no driver."""
    cuda = driver()
    count = int(cuda.check(cuda.cuda.cuDeviceGetCount(), "cuDeviceGetCount"))
    library = ctypes.CDLL("libcuda.so.1")
    return Gpu(cuda, count, *(_address(library, n) for n in ("cuLaunchKernel", _ENCODE)))


def _address(library: ctypes.CDLL, name: str) -> int:
    """The address of a function; 0 if the library has no function of that name."""
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def gpu_target() -> str:
    """The target of the current GPU. Raises `LaunchError` (TIR0711) for an unknown GPU."""
    major, minor = driver().capability()
    for name in (f"sm_{major}{minor}a", f"sm_{major}{minor}", f"sm_{major}0"):
        if name in TARGETS:
            return name
    raise LaunchError(Diagnostic("TIR0711", f"no target for compute capability {major}.{minor}"))


@attrs.frozen(eq=False)
class Gpu:
    """Launches kernels through the driver: a `tileir.backend.runtime.dispatch.LaunchDevice`.
    `devices` is the number of GPUs. `launch_address` and `encode_address` are the addresses of
    `cuLaunchKernel` and `cuTensorMapEncodeTiled` in the driver's library."""

    cuda: CudaDriver
    devices: int
    launch_address: int
    encode_address: int = 0

    def owner(self, address: int) -> int | None:
        """The number of the GPU that can access `address`; None if it is not GPU memory."""
        cuda = self.cuda.cuda
        self.cuda.context()
        kind = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status, owner = cuda.cuPointerGetAttribute(kind, address)
        return None if int(status) else int(owner)

    def current(self) -> int:
        """The number of the current GPU of this thread; the first one in a thread that has not used
        a GPU."""
        self.cuda.context()
        return int(self.cuda.check(self.cuda.cuda.cuCtxGetDevice(), "cuCtxGetDevice"))

    def launch(
        self, kernel: Any, device: int, grid: Sequence[int], stream: int, words: Sequence[int]
    ) -> RepeatableLaunch:
        """Launch a `tileir.backend.driver.launch.LoadedKernel`. Raises LaunchError (TIR0711)."""
        kinds = [kind for p in kernel.compiled.plan.parameters for kind in p.words]
        with self.on(device):
            return kernel.start(self.cuda, grid, c_values(kinds, words), stream)

    @contextmanager
    def on(self, device: int) -> Generator[None, None, None]:
        """Make the primary context of GPU number `device` current within the body, if another GPU
        is current."""
        if self.current() == device:
            yield
            return
        cuda = self.cuda.cuda
        retained = cuda.cuDevicePrimaryCtxRetain(device)
        context = self.cuda.check(retained, "cuDevicePrimaryCtxRetain")
        self.cuda.check(cuda.cuCtxPushCurrent(context), "cuCtxPushCurrent")
        try:
            yield
        finally:
            self.cuda.check(cuda.cuCtxPopCurrent(), "cuCtxPopCurrent")
