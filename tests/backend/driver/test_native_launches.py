"""Launches by machine code pass what launches by Python pass: the version of the kernel, the grid,
the words and the tensor maps."""

import ctypes
import threading
from types import SimpleNamespace

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.driver import launch
from tileir.backend.driver.device import CudaDriver
from tileir.backend.driver.gpu import Gpu
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.launch_program import ELEMENT_TYPES
from tileir.testing.kernels import matmul

from ...runtime.tensor_maps import Encoder, expected_bytes, map_bytes

pytestmark = pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip
_TYPES = ("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64",
          "BFLOAT16")  # fmt: skip


def _enumeration(prefix, names):
    return SimpleNamespace(**{f"{prefix}_{name}": i for i, name in enumerate(names)})


class FakeCuda:
    """As much of `cuda.bindings.driver` as kernels with tensor maps need. `launches`: the kernel,
    grid, threads, shared bytes, stream, words and maps of each launch, and whether machine code
    made it."""

    CUtensorMapDataType = _enumeration("CU_TENSOR_MAP_DATA_TYPE", _TYPES)
    CUtensorMapSwizzle = _enumeration("CU_TENSOR_MAP_SWIZZLE", ("NONE", "32B", "64B", "128B"))
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_256B=3)
    CUtensorMapFloatOOBfill = _enumeration(
        "CU_TENSOR_MAP_FLOAT_OOB_FILL", ("NONE", "NAN_REQUEST_ZERO_FMA")
    )
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14,
    )
    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16)
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
    CUlaunchConfig = SimpleNamespace
    cuuint64_t = cuuint32_t = int

    def __init__(self):
        self.kernels, self.launches, self.encoder = [], [], Encoder()
        self._callback = _LAUNCH(self._native)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.gpu = Gpu(CudaDriver(self), 1, address, self.encoder.address)

    def load(self, compiled, name):
        """The handle of a kernel: its number, from 1."""
        self.kernels.append(compiled)
        return len(self.kernels)

    def cuCtxGetCurrent(self):
        return 0, 1

    def cuCtxGetDevice(self):
        return 0, 0

    def cuDeviceGetAttribute(self, kind, device):
        return 0, 132

    def cuPointerGetAttribute(self, kind, address):
        return 0, 0

    def cuFuncSetAttribute(self, function, kind, size):
        return (0,)

    def cuOccupancyMaxActiveClusters(self, function, config):
        return 0, 60

    def cuTensorMapEncodeTiled(
        self, kind, rank, address, extents, strides, box, steps, interleave, swizzle, l2, fill
    ):
        result = map_bytes(kind, address, extents, strides, box, swizzle, fill)
        buffer = ctypes.create_string_buffer(result, 128)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(buffer))

    def cuLaunchKernel(self, handle, x, y, z, threads, _, __, shared, stream, words, ___):
        pointers = ctypes.cast(words, ctypes.POINTER(ctypes.c_void_p))
        self._note(handle, (x, y, z), threads, shared, stream, pointers, False)
        return (0,)

    def _native(self, handle, x, y, z, threads, _, __, shared, stream, words, ___):
        self._note(handle, (x, y, z), threads, shared, stream or 0, words, True)
        return 0

    def _note(self, handle, grid, threads, shared, stream, pointers, native):
        compiled = self.kernels[handle - 1]
        kinds = [word for p in compiled.plan.parameters for word in p.words]
        host = compiled.host
        kinds += ["i32"] * 3 if host is not None and host.persistent else []
        words = [_word(kind, pointers[i]) for i, kind in enumerate(kinds)]
        count = 0 if host is None else len(host.maps)
        maps = [ctypes.string_at(pointers[len(kinds) + i], 128) for i in range(count)]
        self.launches.append((handle, grid, threads, shared, stream, words, maps, native))


def _word(kind, address):
    size = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "f32": 4}.get(kind, 8)
    return int.from_bytes(ctypes.string_at(address, size), "little")


@pytest.fixture
def cuda(monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(CudaDriver, "load", lambda _, compiled, name: cuda.load(compiled, name))
    monkeypatch.setattr(launch, "gpu", lambda: cuda.gpu)
    return cuda


CALLS = (
    ((5, 5), (4096, 8192, 16384, 304, 304, 704)),
    ((5, 5), (1 << 20, 8192, 16384, 304, 304, 704)),
    ((5, 6), (4096, 8192, 16384, 312, 320, 64)),
    ((5, 5), (4096, 8192, 16384, 304, 304, 700)),  # rows of 8 bytes
    ((5, 5), (4096, 8192, 16384, 300, 301, 704)),  # rows of 2 bytes, of two tensors
    ((5, 5), (4096, 8192, 16384, 304, 304, 0)),  # no map has an extent of 0
    ((5, 5), (4096, 8192, 16384, 304, 1 << 28, 704)),  # a guard of the plan
    (7, (4096, 8192, 16384, 304, 304, 704)),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options", [{}, {"persistent": True}, {"split_k": 2}, {"split_k": 0}], ids=str
)
def test_machine_code_launches_what_python_does(cuda, options):
    compiled = compile_kernel(matmul(64, 64, 32), "sm_90a", options)
    calls = CALLS if not options else (*CALLS[:3], CALLS[3], CALLS[5], CALLS[7])
    slow = LoadedKernel(compiled)
    for grid, arguments in calls:
        slow[grid](*arguments)
        slow._dispatcher = None
    reference = list(cuda.launches)
    assert not any(native for *_, native in reference)
    assert len({handle for handle, *_ in reference}) > 1 or options.get("split_k") == 2
    number = {id(c): i for i, c in enumerate(cuda.kernels)}
    quick = LoadedKernel(compiled)
    for _ in range(3):
        for grid, arguments in calls:
            quick[grid](*arguments)
    result = cuda.launches[-len(calls) :]
    for (handle, *rest, native), (other, *expected, _) in zip(result, reference, strict=True):
        first = number[id(cuda.kernels[handle - 1])]
        assert native and first == number[id(cuda.kernels[other - 1])] and rest == expected


def test_a_first_launch_of_each_version_is_pythons(cuda):
    kernel = LoadedKernel(compile_kernel(matmul(64, 64, 32), "sm_90a"))
    for _ in range(2):
        kernel[4](4096, 8192, 16384, 304, 304, 704)
    for i in range(6):
        kernel[4](4096 * (i + 1), 8192, 16384, 304, 304 + 8 * i, 704)
    assert all(native for *_, native in cuda.launches[2:])
    kernel[4](4096, 8192, 16384, 304, 304, 700)
    assert not cuda.launches[-1][-1]
    for k in (700, 692, 708, 704):
        kernel[4](4096, 8192, 16384, 304, 304, k)
    assert [native for *_, native in cuda.launches[-4:]] == [True] * 4
    assert [h for h, *_ in cuda.launches[-4:]] == [2, 2, 2, 1]


def test_threads_launch_kernels_with_maps(cuda):
    """Each has the maps of its own arguments, whichever thread replaced rows of the tables."""
    kernel = LoadedKernel(compile_kernel(matmul(64, 64, 32), "sm_90a"))
    for _ in range(3):
        kernel[4](4096, 8192, 16384, 304, 304, 704)
    host, start = kernel.compiled.host, len(cuda.launches)

    def work(number):
        for i in range(200):
            kernel[4](4096 * (1 + i + number), 8192 * (i + 1), 16384, 304, 304, 704)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launched = cuda.launches[start:]
    assert len(launched) == 1200
    for _, _, _, _, _, words, maps, native in launched:
        assert native
        assert maps == [expected_bytes(m, ELEMENT_TYPES) for m in host.map_values(words)]
