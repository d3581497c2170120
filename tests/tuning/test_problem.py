"""What is tuned: grids that are refused, and what arguments are taken for."""

from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from problems import SPACE, problem

from tileir.backend.measurement.arguments import footprint_of
from tileir.backend.tuning import TuneError

POINT = next(iter(SPACE))


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (0,), (4, -1), (1.0,), 0])
def test_grids_that_are_none(grid):
    with pytest.raises(TuneError, match="a grid is one to three positive numbers, not"):
        attrs.evolve(problem(), grid=grid).job(POINT)


@pytest.mark.parametrize(
    ("grid", "extents"),
    [(7, (7,)), ((4, 2), (4, 2)), ([1, 2, 3], (1, 2, 3)), (lambda p: p["M"], (16,))],
)
def test_grids_are_numbers_or_functions_of_a_point(grid, extents):
    assert attrs.evolve(problem(), grid=grid).job(POINT).grid == extents


def test_only_arrays_whose_bytes_are_known_are_counted():
    """A device knows how much it moves at least; numbers and descriptors say nothing of that."""
    arguments = {"x": np.zeros((4, 8), np.float16), "n": 64, "to": SimpleNamespace(shape=(4, 8))}
    assert footprint_of(arguments) == 64.0
