"""Generated matmuls give one result in any order of additions; no two instances write one place."""

import numpy as np
import pytest

from tileir.testing.executors import interpreter
from tileir.testing.matmul_programs.features import Features, draw
from tileir.testing.matmul_programs.kernels import program

HALVES, SQUARES, ROWS = ("element", (5, 0, 0)), ("epilogue", (0, 4, 0)), ("tile", (3, 0, 0))
ALONG_M, ALONG_N = (3, 0, 0), (7, 0, 0)


@pytest.mark.parametrize("output", [ALONG_M, ALONG_N])
@pytest.mark.parametrize("family", range(6))
def test_dots_of_halves_are_exact(family, output):
    """Whole numbers up to 2048 are; their squares, summed over all rows, would be more."""
    features = Features(
        dict([HALVES, SQUARES, ROWS, ("output", output), ("family", (family, 0, 0))])
    )
    actual = interpreter()(program(features), 0).outputs["more"].astype(np.float64)
    assert 4 < np.abs(actual).max() <= 2048
    assert (actual == np.round(actual)).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("choice", range(4))
@pytest.mark.parametrize("family", [3, 5])
def test_instances_share_what_they_write(family, choice):
    """Chains write all columns, tiles two of them: the interpreter would find a race."""
    for shape in range(6):
        features = Features({"family": (family, choice, 0), "shape": (shape, shape, shape)})
        cpu_program = program(features)
        actual = interpreter()(cpu_program, 0).outputs["z"]
        m, n = (cpu_program.numbers[x] for x in "mn")
        assert np.count_nonzero(actual) > m * n // 8 or not cpu_program.numbers["k"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["pipeline-chained-matmuls", "persist", "sink-wgmma-waits"])
def test_few_programs_have_no_meaning(name):
    lost = 0
    for seed in range(40):
        try:
            interpreter()(program(Features.of(draw(seed, name))), seed)
        except Exception as error:
            assert "race" in str(error)
            lost += 1
    assert lost <= 2
