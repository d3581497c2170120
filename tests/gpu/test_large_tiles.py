"""Tiles larger than the registers on a GPU: loops, and memory of each thread's own."""

import numpy as np
import pytest

from tests.backend.test_strip_mine_once import test_threads_agree as once_agree
from tests.backend.test_strip_mine_spill import test_threads_agree as carried_agree
from tests.backend.test_strip_mine_staging import softmax
from tileir.backend.executors import GpuExecutor

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("what", ["scan", "argmax", "fold", "histogram", "atomic", "softmax"])
def test_what_is_computed_once(what):
    once_agree("gpu", what)


def test_what_a_loop_carries():
    carried_agree("gpu")


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("shift", [None, 0, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns"), [(4, 65536), (128, 1024), (100, 1000), (3, 70001)], ids=str
)
def test_a_softmax_without_a_promise(rows, columns, masked, shift, warps):
    """Into another array, in place, and a few elements on."""
    count, n = rows * columns, columns - 2
    x = np.random.default_rng(2).normal(size=count + 5).astype(np.float32)
    y, before = np.zeros_like(x), x.copy()
    GpuExecutor().launch(
        softmax(rows, columns, shift=shift, masked=masked), None, (1,), [x, y, n], num_warps=warps
    )
    value = before[:count].reshape(rows, columns).astype(np.float64)
    used_columns = n if masked else columns
    weight = np.exp(value - value[:, :used_columns].max(axis=1, keepdims=True))
    expected = weight / weight[:, :used_columns].sum(axis=1, keepdims=True)
    result = y if shift is None else x
    places = np.arange(count).reshape(rows, columns)[:, :used_columns] + (shift or 0)
    np.testing.assert_allclose(result[places], expected[:, :used_columns], rtol=2e-5)
    others = np.ones(len(x), bool)
    others[places] = False
    np.testing.assert_array_equal(result[others], (0 * x if shift is None else before)[others])
