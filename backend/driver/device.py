"""The functions of the CUDA driver that launching needs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import attrs

from tileir.errors import Diagnostic, LaunchError, TileirError

_CLUSTER_ATTRIBUTE = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
_SHARED_ATTRIBUTE = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"


@cache
def driver() -> CudaDriver:
    """The initialized driver. Raises `LaunchError` (TIR0711) if there is none."""
    try:
        from cuda.bindings import driver as cuda  # pyright: ignore
    except ImportError as error:
        raise _error("launching needs cuda-bindings: pip install 'tileir[cu13]'") from error
    instance = CudaDriver(cuda)
    try:
        instance.check(cuda.cuInit(0), "cuInit")
    except RuntimeError as error:
        raise _error(f"no CUDA driver: {error}") from error
    return instance


def available() -> str | None:
    """The reason why nothing can be launched here; None if launches are possible."""
    try:
        cuda = driver()
        cuda.context()
    except TileirError as error:
        return error.diagnostics[0].message
    return None


@attrs.frozen(eq=False)
class CudaDriver:
    """The driver's functions. They raise `LaunchError` (TIR0711) for errors of the driver."""

    cuda: Any

    def check(self, result: tuple[Any, ...], what: str) -> Any:
        """The value that a driver call returned."""
        status, *values = result
        if int(status):
            raise _error(f"{what} fails: {getattr(status, 'name', status)}")
        return values[0] if values else None

    def context(self) -> int:
        """The current context as a key. If there is none, the primary context of device 0 becomes
        current."""
        current = self.check(self.cuda.cuCtxGetCurrent(), "cuCtxGetCurrent")
        if int(current):
            return int(current)
        device = self.check(self.cuda.cuDeviceGet(0), "cuDeviceGet")
        primary = self.check(self.cuda.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
        self.check(self.cuda.cuCtxSetCurrent(primary), "cuCtxSetCurrent")
        return int(primary)

    def capability(self) -> tuple[int, int]:
        """The compute capability of the current device, e.g. (9, 0)."""
        self.context()
        device = self.check(self.cuda.cuCtxGetDevice(), "cuCtxGetDevice")
        kinds = self.cuda.CUdevice_attribute
        names = ("MAJOR", "MINOR")
        attributes = [getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{n}") for n in names]
        get = self.cuda.cuDeviceGetAttribute
        major, minor = (
            self.check(get(kind, device), "cuDeviceGetAttribute") for kind in attributes
        )
        return major, minor

    def multiprocessors(self) -> int:
        """The number of multiprocessors of the current device."""
        self.context()
        device = self.check(self.cuda.cuCtxGetDevice(), "cuCtxGetDevice")
        kind = self.cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        get = self.cuda.cuDeviceGetAttribute
        return self.check(get(kind, device), "cuDeviceGetAttribute")

    def load(self, compiled: Any, kernel: str) -> Any:
        """The kernel's handle, loaded from machine code, or from PTX if no assembler is
        installed."""
        try:
            code = compiled.cubin
        except TileirError as error:
            if error.code != "TIR0704":
                raise
            code = compiled.ptx.encode() + b"\0"
        module = self.check(self.cuda.cuModuleLoadData(code), "cuModuleLoadData")
        function = self.cuda.cuModuleGetFunction(module, kernel.encode())
        return self.check(function, "cuModuleGetFunction")

    def allow_shared(self, function: Any, size: int) -> None:
        """Allow `function` to use `size` bytes of shared memory per block."""
        kind = getattr(self.cuda.CUfunction_attribute, _SHARED_ATTRIBUTE)
        self.check(self.cuda.cuFuncSetAttribute(function, kind, size), "cuFuncSetAttribute")

    def allow_clusters(self, function: Any) -> None:
        """Allow `function` to have clusters of more blocks than the portable maximum."""
        kind = getattr(self.cuda.CUfunction_attribute, _CLUSTER_ATTRIBUTE)
        self.check(self.cuda.cuFuncSetAttribute(function, kind, 1), "cuFuncSetAttribute")

    def clusters(self, function: Any, size: int, threads: int, shared: int) -> int:
        """The number of clusters of `size` blocks, with `threads` threads each, of `function` that
        are resident at once. Clusters do not extend across groups of multiprocessors."""
        config = self.cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = shared
        count = self.cuda.cuOccupancyMaxActiveClusters(function, config)
        return self.check(count, "cuOccupancyMaxActiveClusters")

    def launch(
        self, function: Any, grid: Sequence[int], threads: int, shared: int, stream: int,
        values: Sequence[Any],
    ) -> None:  # fmt: skip
        """Start a grid of blocks with `threads` threads each."""
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        result = self.cuda.cuLaunchKernel(
            function, *grid, threads, 1, 1, shared, stream, ctypes.addressof(pointers), 0
        )
        self.check(result, "cuLaunchKernel")

    def allocate(self, size: int) -> int:
        """The address of `size` newly allocated bytes on the device."""
        return int(self.check(self.cuda.cuMemAlloc(size), "cuMemAlloc"))

    def free(self, address: int) -> None:
        """Free memory from `allocate`."""
        self.check(self.cuda.cuMemFree(address), "cuMemFree")

    def to_device(self, address: int, host: int, size: int) -> None:
        """Copy `size` bytes from the host."""
        if size:
            self.check(self.cuda.cuMemcpyHtoD(address, host, size), "cuMemcpyHtoD")

    def to_host(self, host: int, address: int, size: int) -> None:
        """Copy `size` bytes to the host."""
        if size:
            self.check(self.cuda.cuMemcpyDtoH(host, address, size), "cuMemcpyDtoH")

    def synchronize(self) -> None:
        """Wait for all work that was launched in the current context."""
        self.check(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")


def _error(message: str) -> LaunchError:
    return LaunchError(Diagnostic("TIR0711", message))
