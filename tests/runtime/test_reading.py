"""What arrays of GPUs are, whatever library they are of."""

import numpy as np
import pytest

from tileir.backend.runtime.reading import Array, Tensor, array, is_array
from tileir.errors import LaunchError

from .machines import Interface, TorchLike


@pytest.mark.parametrize(
    ("extents", "strides", "size", "distances"),
    [
        ((2, 3, 4), None, 24, (12, 4, 1)), ((2, 3, 4), (1, 2, 6), 24, (1, 2, 6)),
        ((5,), None, 5, (1,)), ((), None, 1, ()), ((0, 7), None, 0, (7, 1)),
    ],
)  # fmt: skip
def test_rows_lie_one_behind_the_other_where_no_strides_say_otherwise(
    extents, strides, size, distances
):
    found = Array(4096, "f32", extents, strides)
    assert (found.size, found.distances) == (size, distances)


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [("<f4", "f32"), ("<f2", "f16"), ("<i8", "i64"), ("|u1", "i8"), ("|b1", "i1"),
     ("<c8", "64 bits")],
)  # fmt: skip
def test_arrays_by_their_interface(typestr, dtype):
    size = int(typestr[2:])
    found = array(Interface(8192, typestr, (4, 6), (size, 4 * size), 5), "x")
    assert (found.address, found.dtype, found.extents) == (8192, dtype, (4, 6))
    assert (found.distances, found.stream, found.device) == ((1, 4), 5, None)
    plain = array(Interface(8192, typestr, (4, 6), None, 1), "x")
    assert (plain.strides, plain.distances, plain.stream) == (None, (6, 1), 0)
    assert array(Interface(None, typestr, (0,)), "x").address == 0


def test_strides_are_whole_elements():
    with pytest.raises(LaunchError, match=r"x has strides \(6,\), no multiples of its 4 bytes"):
        array(Interface(strides=(6,)), "x")


def test_others_like_it_are_found_by_type_and_stream():
    reader = array(Interface(8192), "x").like.reader
    assert reader(Interface(4096, shape=(3,))) == 4096
    assert reader(Interface(4096, "<i4")) == -1
    assert reader(Interface(4096, stream=7)) == -1
    assert reader(TorchLike()) == -1


def test_tensors():
    found = array(TorchLike(12288, "bfloat16", (4, 6), device=3), "x", devices=4)
    assert (found.address, found.dtype, found.extents) == (12288, "bf16", (4, 6))
    assert (found.distances, found.device, found.size) == ((6, 1), 3, 24)
    assert found.like.reader is TorchLike.get_device and found.like.device == 3
    assert array(TorchLike(), "x", devices=1).like.reader is None


def test_memory_of_the_host_is_refused():
    for given, message in (
        (np.zeros(3), "x is memory of the host"), (TorchLike(cuda=False), "x is a tensor of the"),
        (5, "x must be an array of a GPU or an address, not int"),
    ):  # fmt: skip
        with pytest.raises(LaunchError, match=message) as error:
            array(given, "x")
        assert error.value.code == "TIR0710"


@pytest.mark.parametrize(
    ("given", "is_one"),
    [(TorchLike(), True), (Interface(), True), (np.zeros(3), True), (5, False), ("x", False),
     (Tensor(4096, (4,), (1,)), False)],
)  # fmt: skip
def test_what_is_an_array(given, is_one):
    assert is_array(given) == is_one
