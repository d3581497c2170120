"""What stands for Triton and torch where they are not installed: a CUDA backend with the stages of
the releases that are known, and tensors by address."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np


def cuda_backend():
    """A class like Triton's `CUDABackend`, whose stages say that they ran."""

    class CUDABackend:
        instrumentation = None

        @staticmethod
        def make_ttgir(mod, metadata, opt, capability):
            return f"ttgir of {mod}"

        def make_llir(self, src, metadata, options, capability):
            return f"llir of {src}"

        def make_ptx(self, src, metadata, opt, capability):
            return f"ptx of {src}"

        def make_cubin(self, src, metadata, opt, capability):
            return f"cubin of {src}".encode()

        def hash(self):
            return "own"

    return CUDABackend


def install_fake(monkeypatch, version, backend, flags=2):
    """A module `triton` of that version with that backend, whose launcher passes so many flags with
    a descriptor."""

    def module(name, **fields):
        module_type = ModuleType(name)
        vars(module_type).update(fields, __path__=[])
        monkeypatch.setitem(sys.modules, name, module_type)
        return module_type

    class OutOfResources(Exception):  # noqa: N818 - Triton's name
        pass

    class CompiledKernel:
        def __init__(self, metadata):
            self.metadata, self.module, self._run = metadata, None, None

        def _init_handles(self):
            self.launched = Launches()
            self.module, self._run = object(), self.launched.append_call

    fake = SimpleNamespace(compiler=backend, driver=None)
    backends = module("triton.backends", backends={"nvidia": fake})
    module("triton", __version__=version, backends=backends)
    module("triton.backends.nvidia")
    module("triton.backends.nvidia.driver", make_tensordesc_arg=_items_with(flags))
    module("triton.runtime")
    module("triton.runtime.errors", OutOfResources=OutOfResources)
    module("triton.compiler")
    module("triton.compiler.compiler", CompiledKernel=CompiledKernel)
    return CompiledKernel


def _items_with(flags):
    def make_tensordesc_arg(arg, metadata, base_args):
        assert metadata is None
        return [arg.base, *arg.shape, *arg.strides, *[False] * flags, *arg.shape, *arg.strides]

    return make_tensordesc_arg


class Launches(list):
    """What Triton's launcher of a kernel was given, call by call."""

    def append_call(self, *args):
        self.append(args)


def options(**changed):
    """Options of a kernel, as Triton has them."""
    usual = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
    return SimpleNamespace(**{**usual, "instrumentation_mode": "", **changed})


class Storage:
    """Memory of a tensor."""

    def __init__(self, memory):
        self.memory = memory

    def data_ptr(self):
        return self.memory.ctypes.data

    def nbytes(self):
        return self.memory.nbytes


class Tensor:
    """A tensor whose elements are `array`, a view of `memory`."""

    is_cpu = True

    def __init__(self, memory: np.ndarray, start: int = 0) -> None:
        self.memory, self.array = memory, memory[start:]

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return Storage(self.memory)
