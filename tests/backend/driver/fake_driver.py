"""A CUDA driver without a GPU: memory of the host, and kernels that are functions of Python."""

import ctypes
from types import SimpleNamespace

import numpy as np

from tileir.backend.driver.device import CudaDriver


class Cuda:
    """The functions of `cuda.bindings.driver` that launching calls. `kernels`: what runs, by
    name, as a function of the words of its arguments."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self, **kernels):
        self.kernels, self.loaded, self.launches, self.memory = kernels, [], [], {}

    def driver(self):
        return CudaDriver(self)

    def cuCtxGetCurrent(self):
        return 0, 1

    def cuModuleLoadData(self, code):
        self.loaded.append(code)
        return 0, 1

    def cuModuleGetFunction(self, module, name):
        return (
            (0, list(self.kernels).index(name.decode())) if name.decode() in self.kernels else 500
        )

    def cuFuncSetAttribute(self, function, kind, size):
        return (0,)

    def cuLaunchKernel(self, function, x, y, z, *rest):
        threads, _, __, shared, ___, words, ____ = rest
        name = list(self.kernels)[function]
        self.launches.append((name, (x, y, z), threads, shared))
        self.kernels[name](ctypes.cast(words, ctypes.POINTER(ctypes.c_void_p)))
        return (0,)

    def cuCtxSynchronize(self):
        return (0,)

    def cuMemAlloc(self, size):
        if not size:
            return 1, 0
        buffer = np.zeros(size, np.uint8)
        self.memory[buffer.ctypes.data] = buffer
        return 0, buffer.ctypes.data

    def cuMemFree(self, address):
        del self.memory[address]
        return (0,)

    def cuMemcpyHtoD(self, address, host, size):
        return self._copy(self.memory.get(address), address, host, size)

    def cuMemcpyDtoH(self, host, address, size):
        return self._copy(self.memory.get(address), host, address, size)

    def _copy(self, buffer, to, source, size):
        if buffer is None or size > buffer.nbytes:
            return (700,)
        ctypes.memmove(to, source, size)
        return (0,)


def add_one(words):
    """Adds 1 to the 8 f32 at the first argument."""
    address = ctypes.c_uint64.from_address(words[0]).value
    values = np.frombuffer((ctypes.c_char * 32).from_address(address), np.float32)
    values += 1
