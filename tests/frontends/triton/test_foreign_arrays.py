"""Arrays of other libraries, by what a launch sees of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir import LaunchError
from tileir.frontends.triton.arguments import on_gpu
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor


class Torch:
    """What a launch sees of a tensor of torch on the host, a numpy array inside."""

    is_cuda, device = False, "cpu"

    def __init__(self, array: Any, dtype: str, *, requires_grad: bool = False) -> None:
        self.array, self.dtype, self.requires_grad = array, dtype, requires_grad
        self.shape = array.shape

    @property
    def strides(self) -> Any:
        raise AttributeError("strides")

    @property
    def __array_interface__(self) -> Any:
        raise RuntimeError("a tensor that requires grad has no numpy()")

    @property
    def __cuda_array_interface__(self) -> Any:
        raise KeyError(self.dtype)

    def __array__(self, *_: Any) -> Any:
        raise RuntimeError("a tensor that requires grad has no numpy()")

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self, *_: int) -> tuple[int, ...]:
        return tuple(n // self.array.itemsize for n in self.array.strides)

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)


@triton.jit
def blocks(d, e):
    e.store([0, 8], d.load([8, 0]) + 1)


@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
def test_a_descriptor_is_made_from_a_tensor_of_torch(on: str) -> None:
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    y = np.zeros((16, 16), np.float32)
    result = [
        TensorDescriptor.from_tensor(Torch(a, "torch.float32"), [8, 8], round_f32_to_tf32=False)
        for a in (x, y)
    ]
    assert result[0].strides == (16, 1)
    blocks[(1,)](*result, on=on)
    assert (y[:8, 8:] == x[8:, :8] + 1).all()


@triton.jit
def widen(z, x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(z + i, tl.load(x + i).to(tl.float32))


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float32])
def test_tensors_whose_interface_raises_are_launched_by_their_address(kind: Any) -> None:
    x, z = np.array([1, -2, 0.5, 3], kind), np.zeros(4, np.float32)
    tensor = Torch(x, f"torch.{np.dtype(kind).name}", requires_grad=True)
    widen[(1,)](Torch(z, "torch.float32", requires_grad=True), tensor, B=4)
    assert z.tolist() == [1, -2, 0.5, 3]


def test_an_array_is_seen_as_another_type() -> None:
    x, z = np.array([0x38, 0xB8], np.uint8), np.zeros(2, np.float32)
    seen = triton.reinterpret(x, tl.float8e4nv)
    assert isinstance(seen, triton.TensorWrapper) and seen.data_ptr() == x.ctypes.data
    widen[(1,)](z, seen, B=2)
    assert z.tolist() == [1, -1]
    assert triton.reinterpret(seen, x.dtype) is x
    assert triton.reinterpret(Torch(x, "torch.uint8"), tl.float8e5).stride() == (1,)
    with pytest.raises(TypeError):
        triton.reinterpret(3, tl.int32)


class Moving(Torch):
    """A tensor that is copied and moved."""

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return int(self.array.itemsize)

    def clone(self) -> Moving:
        return Moving(self.array.copy(), self.dtype)

    def copy_(self, other: Moving) -> None:
        self.array[...] = other.array

    def new_empty(self, sizes: Any) -> Moving:
        return Moving(np.empty(sizes, self.array.dtype), self.dtype)

    def to(self, device: str) -> Moving:
        result = self.clone()
        result.device = device
        return result

    def cpu(self) -> Moving:
        return self.to("cpu")

    @property
    def data(self) -> Any:
        return self.array.data


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_seen_as_another_type_has_the_methods_of_the_array(library: str) -> None:
    array = np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2]
    base = array if library == "numpy" else Moving(array, "torch.uint16")
    seen = triton.reinterpret(base, tl.float16)
    assert (seen.shape, seen.numel(), seen.element_size()) == ((3, 2), 6, 2)
    assert (seen.stride(), seen.data_ptr(), seen.device) == ((4, 2), array.ctypes.data, "cpu")
    assert str(seen).startswith("TensorWrapper[fp16](") and seen.data.shape == (3, 2)
    copy, empty = seen.clone(), seen.new_empty((5, 1))
    assert copy.dtype is empty.dtype is tl.float16 and empty.shape == (5, 1)
    assert copy.data_ptr() != seen.data_ptr() and copy.numel() == 6
    array[0, 0] = 77
    assert copy.data[0, 0] == 0
    copy.copy_(seen)
    assert copy.data[0, 0] == 77
    if library == "torch":
        assert (seen.to("cuda").device, seen.to("cuda").cpu().device) == ("cuda", "cpu")
        assert seen.to("cuda").dtype is seen.cpu().dtype is tl.float16


class Sparse(Torch):
    """A tensor without storage."""

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


class Meta(Torch):
    """A tensor of the device `meta`, which has a shape and no elements."""

    device = "meta"

    def data_ptr(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [(Sparse, "dense tensors.*have storage"), (Meta, "device meta has no memory")],
)
@pytest.mark.parametrize("on", ["cpu", "interpreter", "simt"])
def test_tensors_without_memory_are_not_launched(kind: Any, message: str, on: str) -> None:
    array = np.zeros(8, np.float32)
    with pytest.raises(LaunchError, match=message):
        widen[(1,)](Torch(array.copy(), "float32"), kind(array, "float32"), B=8, on=on)


def test_an_empty_tensor_has_no_address_and_is_launched() -> None:
    empty = Meta(np.zeros(0, np.float32), "float32")
    no_accesses[(1,)](empty, on="cpu")


@triton.jit
def no_accesses(x):
    tl.arange(0, 8)


class OnGpu:
    """What tells that an array is on a GPU: in torch `is_cuda`, elsewhere the interface."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"is_cuda": True}, True),
        ({"is_cuda": False, "__cuda_array_interface__": {}}, False),
        ({"__cuda_array_interface__": {}}, True),
        ({"__cuda_array_interface__": {}, "__array_interface__": {}}, False),
        ({"__array_interface__": {}}, False),
        ({}, False),
    ],
)
def test_arrays_of_a_gpu_are_known_by_their_library(
    attributes: dict[str, Any], expected: bool
) -> None:
    """Alone, in tuples, seen as another type, and described."""
    value = OnGpu(**attributes)
    described = TensorDescriptor(value, [8, 8], [8, 1], [8, 8])
    for several in (value, (1, (value, 2)), triton.TensorWrapper(value, tl.int8), described):
        assert on_gpu(several) == expected


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_elements_that_cannot_be_seen_as_wider_ones_are_refused(kind: Any) -> None:
    """Three elements of a byte are no element of four bytes."""
    x, z = np.ones((2, 3), np.uint8), np.zeros(1, np.float32)
    seen = triton.reinterpret(x, tl.float32 if kind is np.float32 else tl.int8)
    if kind is np.uint8:
        widen[(1,)](z, seen, B=1, on="interpreter")
        assert z[0] == 1
    else:
        with pytest.raises(LaunchError, match="uint8 elements cannot be seen as fp32"):
            widen[(1,)](z, seen, B=1, on="interpreter")
