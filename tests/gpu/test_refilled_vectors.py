"""Vectors that a recurrence copies ahead into stages that it refills, many times."""

import pytest

from tests.backend.test_refilled_vectors import (
    TOKENS,
    check,
    problem,
    recurrence,
    states_and_outputs,
)
from tileir.backend.executors import GpuExecutor

pytestmark = pytest.mark.gpu

INSTANCES = 4096


@pytest.mark.parametrize("n", range(1, TOKENS + 1))
def test_no_copy_reaches_a_stage_before_it_is_read(n):
    """The copies after the last iteration fill their stages with zeros at once."""
    arguments = problem(INSTANCES, n)
    results = states_and_outputs(*arguments)
    for _ in range(20):
        arrays = [x.copy() for x in arguments]
        GpuExecutor().launch(recurrence(), None, INSTANCES, [*arrays, n], num_warps=4)
        check(arrays, results)
