"""Grids as people write them, and what every executor says of others."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import F32, Builder, pointer
from tileir.errors import LaunchError, TileirError
from tileir.executor import executor
from tileir.grids import extents_of


@pytest.mark.parametrize(
    ("grid", "extents"),
    [(3, (3, 1, 1)), ((2,), (2, 1, 1)), ([2, 3], (2, 3, 1)), (np.int64(4), (4, 1, 1)),
     (np.array([1, 2, 3]), (1, 2, 3)), (iter((5, 0)), (5, 0, 1)), (np.array(2), (2, 1, 1))],
)  # fmt: skip
def test_extents(grid, extents):
    assert extents_of(grid) == extents


WRONG = [(), (1, 1, 1, 1), -1, (1, -1), 2.5, (1.0,), True, np.True_, "3", None, ((1, 2), 3)]


@for_each("grid", WRONG)
def test_what_is_no_grid(grid):
    with pytest.raises(ValueError, match="a grid is 1 to 3 numbers that are not negative, not"):
        extents_of(grid)


LARGE = [10**30, 2**64 + 5, 2**31, (1, 65536), (1, 1, 65536)]


@pytest.mark.parametrize("grid", LARGE, ids=str)
@pytest.mark.parametrize("name", ["interpreter", "simt", "cpu"])
def test_grids_have_one_limit(name, grid):
    b = Builder()
    with b.kernel("nothing", x=pointer(F32)):
        pass
    with pytest.raises(LaunchError, match=r"TIR0710.* at most .* instances along .*, not"):
        executor(name).launch(b.module(), "nothing", grid, [np.zeros(1, np.float32)])


def test_the_limit_itself_is_a_grid():
    assert extents_of((2**31 - 1, 65535, 65535)) == (2**31 - 1, 65535, 65535)


@pytest.mark.parametrize("name", ["interpreter", "simt", "cpu"])
def test_executors(name):
    b = Builder()
    with b.kernel("ones", x=pointer(F32)) as (x,):
        x.store(1.0)
    module, out = b.module(), np.zeros(1, np.float32)
    for grid in (-1, (1, 1, 1, 1), 2.5, None):
        with pytest.raises(TileirError, match="a grid is 1 to 3 numbers"):
            executor(name).launch(module, "ones", grid, [out])
    executor(name).launch(module, "ones", (1, 0), [out])
    assert not out.any()
    executor(name).launch(module, "ones", np.int64(1), [out])
    assert out.all()
