"""Kernels that take descriptors of the host, with the parameters that launchers pass."""

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends import ttir
from tileir.frontends.triton_backend.descriptors import (
    places_padded_with_nan,
    with_launcher_parameters,
    with_made_descriptors,
    with_multiples,
)
from tileir.verify import verify

from .kernels import BLOCK_OF_8, DESCRIBED_MATMUL

X = np.arange(24, dtype=np.float32).reshape(3, 8)


def run(module, arguments):
    """The first 4 x 8 block of 3 x 5 elements of X."""
    verify(module)
    y = np.full(32, -1, np.float32)
    executor("interpreter").launch(module, "block", (1, 1, 1), [*arguments, y])
    return y.reshape(4, 8)


def reference(outside):
    block = np.full((4, 8), outside, np.float32)
    block[:3, :5] = X[:, :5]
    return block


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_what_a_launcher_passes_is_the_descriptor(flags):
    module = with_launcher_parameters(ttir.read(BLOCK_OF_8), "block", flags)
    wide = [3, 5, 8, 1, *[False] * flags]
    np.testing.assert_array_equal(run(module, [X.reshape(-1), *wide, 3, 5, 8, 1]), reference(0))


def test_a_launcher_may_not_ask_for_nan():
    module = with_launcher_parameters(ttir.read(BLOCK_OF_8), "block", 2)
    with pytest.raises(TileirError, match="NaN as padding"):
        run(module, [X.reshape(-1), 3, 5, 8, 1, True, False, 3, 5, 8, 1])


@pytest.mark.parametrize(("nan", "outside"), [((), 0), ((0,), np.nan)])
def test_a_kernel_makes_the_descriptor(nan, outside):
    module = with_made_descriptors(ttir.read(BLOCK_OF_8), "block", (0,), nan)
    np.testing.assert_array_equal(run(module, [X.reshape(-1), 3, 5, 8, 1]), reference(outside))


def test_strides_are_multiples_of_16_bytes():
    module = with_made_descriptors(ttir.read(BLOCK_OF_8), "block", (0,))
    with pytest.raises(TileirError, match="multiple_of"):
        run(module, [X.reshape(-1), 3, 5, 5, 1])


WHOLE_NUMBERS = BLOCK_OF_8.replace("f32", "i32")


def test_whole_numbers_have_no_nan():
    """What asks for NaN outside of a tensor of integers reads zeros there, as Triton does."""
    whole = ttir.read(WHOLE_NUMBERS)
    parameters = whole.functions["block"].parameters

    class Described:
        padding = "nan"

    values = [Described(), *[None] * (len(parameters) - 1)]
    assert places_padded_with_nan(parameters, values) == set()
    assert places_padded_with_nan(ttir.read(BLOCK_OF_8).functions["block"].parameters, values) == {
        0
    }
    module = with_launcher_parameters(whole, "block", 2)
    verify(module)
    y = np.full(32, -1, np.int32)
    x = X.astype(np.int32).reshape(-1)
    arguments = [x, 3, 5, 8, 1, True, False, 3, 5, 8, 1, y]
    executor("interpreter").launch(module, "block", (1, 1, 1), arguments)
    np.testing.assert_array_equal(y.reshape(4, 8), reference(0).astype(np.int32))


def test_promises_of_strides_are_kept():
    """A multiple of 16 bytes, 4 elements here, and of what TTIR says."""
    with_promise = BLOCK_OF_8.replace("%d_2: i64", "%d_2: i64 {tt.divisibility = 6 : i32}")
    module = with_made_descriptors(ttir.read(with_promise), "block", (0,))
    promised = {p.name: p.attributes.multiple_of for p in module.functions["block"].parameters}
    assert promised["d_2"] == 12 and promised["d_3"] == 0


def test_extents_can_be_multiples():
    module = with_multiples(ttir.read(DESCRIBED_MATMUL), "matmul", {2, 7})
    promised = [p.attributes.multiple_of for p in module.functions["matmul"].parameters]
    assert [i for i, divisor in enumerate(promised) if divisor == 16] == [2, 7]
