"""Kernels that take descriptors of the host, with the parameters that launchers pass."""

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends import ttir
from tileir.frontends.triton_backend.descriptors import (
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


def expected(outside):
    block = np.full((4, 8), outside, np.float32)
    block[:3, :5] = X[:, :5]
    return block


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_what_a_launcher_passes_is_the_descriptor(flags):
    module = with_launcher_parameters(ttir.read(BLOCK_OF_8), "block", flags)
    wide = [3, 5, 8, 1, *[False] * flags]
    np.testing.assert_array_equal(run(module, [X.reshape(-1), *wide, 3, 5, 8, 1]), expected(0))


def test_a_launcher_may_not_ask_for_nan():
    module = with_launcher_parameters(ttir.read(BLOCK_OF_8), "block", 2)
    with pytest.raises(TileirError, match="NaN as padding"):
        run(module, [X.reshape(-1), 3, 5, 8, 1, True, False, 3, 5, 8, 1])


@pytest.mark.parametrize(("nan", "outside"), [((), 0), ((0,), np.nan)])
def test_a_kernel_makes_the_descriptor(nan, outside):
    module = with_made_descriptors(ttir.read(BLOCK_OF_8), "block", (0,), nan)
    np.testing.assert_array_equal(run(module, [X.reshape(-1), 3, 5, 8, 1]), expected(outside))


def test_strides_are_multiples_of_16_bytes():
    module = with_made_descriptors(ttir.read(BLOCK_OF_8), "block", (0,))
    with pytest.raises(TileirError, match="multiple_of"):
        run(module, [X.reshape(-1), 3, 5, 5, 1])


def test_extents_can_be_multiples():
    module = with_multiples(ttir.read(DESCRIBED_MATMUL), "matmul", {2, 7})
    promised = [p.attributes.multiple_of for p in module.functions["matmul"].parameters]
    assert [i for i, divisor in enumerate(promised) if divisor == 16] == [2, 7]
