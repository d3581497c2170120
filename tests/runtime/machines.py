"""A machine that writes down what it is asked to launch, and arrays that are on it."""

import ctypes
from functools import cache

import attrs

from tileir.backend.runtime.dispatch import RepeatableLaunch as Repeatable
from tileir.backend.runtime.jit import LaunchPlace
from tileir.errors import Diagnostic, LaunchError

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip


@attrs.frozen
class Launched:
    """A launch: the kernel's handle, grid, threads, shared bytes, stream and words."""

    handle: int
    grid: tuple
    threads: int
    shared: int
    stream: int
    words: tuple
    native: bool


@attrs.define(eq=False)
class Kernel:
    """What stands for a loaded kernel."""

    compiled: object
    handle: int = 0


class FakeMachine:
    """GPUs with memory from 4096 on; GPU number n has addresses of n megabytes."""

    def __init__(self, devices=1):
        self.devices, self.launches, self.kernels, self.fails = devices, [], [], 0
        self.encode_address = 0
        self._callback = _LAUNCH(self._native)
        self.launch_address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def owner(self, address):
        device = address >> 20
        return device if address >= 4096 and device < self.devices else None

    def current(self):
        return 0

    def load(self, compiled):
        kernel = Kernel(compiled, 0x1000 + len(self.kernels))
        self.kernels.append(kernel)
        return kernel

    def place(self):
        return LaunchPlace(self, "sm_80", self.load)

    def launch(self, kernel, device, grid, stream, words):
        plan = kernel.compiled.plan
        if self.fails:
            raise LaunchError(Diagnostic("TIR0711", "cuLaunchKernel fails"))
        shared = plan.shared if plan.dynamic else 0
        self.launches.append(
            Launched(kernel.handle, tuple(grid), plan.threads, shared, stream, tuple(words), False)
        )
        return Repeatable(kernel.handle, plan.threads, shared)

    def _native(self, handle, x, y, z, threads, _, __, shared, stream, words, ___):
        if self.fails:
            return 700
        kernel = next(k for k in self.kernels if k.handle == handle)
        plan, native_words, at = kernel.compiled.plan, [], 0
        for parameter in plan.parameters:
            for word in parameter.words:
                native_words.append(_word(word, words[at]))
                at += 1
        self.launches.append(
            Launched(handle, (x, y, z), threads, shared, stream or 0, tuple(native_words), True)
        )
        return 0


def _word(kind, address):
    sizes = {"i1": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4}
    return int.from_bytes(ctypes.string_at(address, sizes.get(kind, 8)), "little")


@cache
def dtype(name):
    """An object for each name, as torch has."""

    class DType:
        def __str__(self):
            return f"torch.{name}"

    return DType()


class TorchLike:
    """A tensor as torch's are."""

    def __init__(self, address=4096, name="float32", shape=(64,), device=0, cuda=True):
        self.address, self.dtype, self.shape = address, dtype(name), shape
        self.device, self.is_cuda = device, cuda

    def data_ptr(self):
        return self.address

    def get_device(self):
        return self.device

    def stride(self):
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * extent)
        return tuple(strides)


class Interface:
    """An array by `__cuda_array_interface__`."""

    def __init__(self, address=4096, typestr="<f4", shape=(64,), strides=None, stream=None):
        self.__cuda_array_interface__ = {
            "data": (address, False), "typestr": typestr, "shape": shape, "strides": strides,
            "stream": stream, "version": 3,
        }  # fmt: skip
