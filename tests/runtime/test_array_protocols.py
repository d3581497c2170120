"""What arrays of GPUs are, whatever library they are of."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.runtime import array_protocols
from tileir.backend.runtime.array_protocols import Array, StridedTensor, array, is_array
from tileir.errors import LaunchError

from .machines import Interface, TorchLike


@for_each(("extents", "strides", "size", "distances"), [
        ((2, 3, 4), None, 24, (12, 4, 1)), ((2, 3, 4), (1, 2, 6), 24, (1, 2, 6)),
        ((5,), None, 5, (1,)), ((), None, 1, ()), ((0, 7), None, 0, (7, 1)),
    ])  # fmt: skip
def test_rows_follow_one_another_where_no_strides_say_otherwise(extents, strides, size, distances):
    array = Array(4096, "f32", extents, strides)
    assert (array.size, array.distances) == (size, distances)


@for_each(
    ("typestr", "dtype"),
    [
        ("<f4", "f32"),
        ("<f2", "f16"),
        ("<i8", "i64"),
        ("|u1", "i8"),
        ("|b1", "i1"),
        ("<c8", "64 bits"),
    ],
)
def test_arrays_by_their_interface(typestr, dtype):
    size = int(typestr[2:])
    loaded = array(Interface(8192, typestr, (4, 6), (size, 4 * size), 5), "x")
    assert (loaded.address, loaded.dtype, loaded.extents) == (8192, dtype, (4, 6))
    assert (loaded.distances, loaded.stream, loaded.device) == ((1, 4), 5, None)
    plain = array(Interface(8192, typestr, (4, 6), None, 1), "x")
    assert (plain.strides, plain.distances, plain.stream) == (None, (6, 1), 0)
    assert array(Interface(None, typestr, (0,)), "x").address == 0


@for_each(
    ("name", "dtype"),
    [(f"{sign}int{n}", f"i{n}") for sign in ("", "u") for n in (8, 16, 32, 64)]
    + [
        ("float16", "f16"),
        ("float32", "f32"),
        ("float64", "f64"),
        ("bool", "i1"),
        ("float8_e4m3fn", "f8e4m3"),
        ("float8_e5m2", "f8e5m2"),
        ("float8_e8m0fnu", "f8e8m0"),
        ("complex64", "complex64"),
    ],
)
def test_types_of_tensors(name, dtype):
    assert array(TorchLike(name=name), "x").dtype == dtype


def test_strides_are_whole_elements():
    with pytest.raises(LaunchError, match=r"x has strides \(4, 6\), no multiples"):
        array(Interface(shape=(2, 2), strides=(4, 6)), "x")
    with pytest.raises(LaunchError, match=r"x has strides \(6,\), no multiples of its 4 bytes"):
        array(Interface(strides=(6,)), "x")


def test_others_like_it_are_found_by_type_and_stream():
    reader = array(Interface(8192), "x").like.reader
    assert reader(Interface(4096, shape=(3,))) == 4096
    assert reader(Interface(4096, "<i4")) == -1
    assert reader(Interface(4096, stream=7)) == -1
    assert reader(TorchLike()) == -1


def test_tensors():
    loaded = array(TorchLike(12288, "bfloat16", (4, 6), device=3), "x", devices=4)
    assert (loaded.address, loaded.dtype, loaded.extents) == (12288, "bf16", (4, 6))
    assert (loaded.distances, loaded.device, loaded.size) == ((6, 1), 3, 24)
    assert loaded.like.reader is TorchLike.get_device and loaded.like.device == 3
    assert array(TorchLike(), "x", devices=1).like.reader is None


def test_memory_of_the_host_is_refused():
    for argument, message in (
        (np.zeros(3), "x is memory of the host"), (TorchLike(cuda=False), "x is a tensor of the"),
        (5, "x must be an array of a GPU or an address, not int"),
    ):  # fmt: skip
        with pytest.raises(LaunchError, match=message) as error:
            array(argument, "x")
        assert error.value.code == "TIR0710"


@for_each(
    ("value", "is_one"),
    [
        (TorchLike(), True),
        (Interface(), True),
        (np.zeros(3), True),
        (5, False),
        ("x", False),
        (StridedTensor(4096, (4,), (1,)), False),
        (SimpleNamespace(data_ptr=1), False),
        (SimpleNamespace(is_cuda=True), False),
        (SimpleNamespace(data_ptr=1, is_cuda=True), True),
    ],
)
def test_what_is_an_array(value, is_one):
    assert is_array(value) == is_one


class CupyLike(Interface):
    """An array as CuPy's are."""

    def __init__(self, address, dtype="float32", device=0):
        super().__init__(address)
        self.dtype, self.data = dtype, SimpleNamespace(ptr=address, device_id=device)


def test_arrays_of_cupy(monkeypatch):
    """Others of their type, element and GPU are found by their address, and launched on the stream
    that CuPy works on then."""
    stream = SimpleNamespace(ptr=9)
    cuda = SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=CupyLike, cuda=cuda))
    loaded = array(CupyLike(8192, device=1), "x")
    assert (loaded.address, loaded.device, loaded.stream_of(1)) == (8192, 1, 9)
    stream.ptr = 11
    assert loaded.stream_of(1) == 11
    reader = loaded.like.reader
    assert reader(CupyLike(4096, device=1)) == 4096
    for other in (CupyLike(4096), CupyLike(4096, "float16", 1), Interface(4096), 5):
        assert reader(other) == -1


class Kept:
    """An array that keeps its memory to itself."""

    def __init__(self, error):
        self.error = error

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        raise self.error


@for_each("kind", [BufferError, RuntimeError, TypeError, ValueError])
def test_memory_that_is_not_given_away(kind):
    with pytest.raises(LaunchError, match="x does not give its memory away: no") as error:
        array(Kept(kind("no")), "x")
    assert error.value.code == "TIR0710"


def test_interfaces_that_raise_are_no_arrays():
    class Deleted:
        @property
        def __cuda_array_interface__(self):
            raise OSError("it was deleted")

    with pytest.raises(LaunchError, match="x offers no memory of a GPU: it was deleted"):
        array(Deleted(), "x")


@pytest.mark.parametrize("on_gpu", [True, False])
def test_arrays_by_dlpack(monkeypatch, on_gpu):
    fake = SimpleNamespace(
        on_gpu=on_gpu, device_type=2 if on_gpu else 1, address=4096, dtype="f16", extents=(3, 4),
        strides=(1, 3), device=1, stream=5,
    )  # fmt: skip
    monkeypatch.setattr(array_protocols, "export", lambda value: fake)
    if not on_gpu:
        with pytest.raises(LaunchError, match=r"x is memory of the host \(DLPack device 1\)"):
            array(Kept(None), "x")
        return
    exported = array(Kept(None), "x")
    assert (exported.address, exported.dtype, exported.extents, exported.distances) == (
        4096,
        "f16",
        (3, 4),
        (1, 3),
    )
    assert (exported.device, exported.stream, exported.like) == (1, 5, None)
