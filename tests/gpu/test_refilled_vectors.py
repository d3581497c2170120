"""Vectors that a recurrence copies ahead into stages that it refills, many times."""

import pytest

from tests.backend.test_refilled_vectors import (
    OPTIONS,
    TOKENS,
    check,
    problem,
    recurrence,
    states_and_outputs,
)
from tileir.backend.executors import GpuExecutor

pytestmark = pytest.mark.gpu

INSTANCES = 4096


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("n", range(1, TOKENS + 1))
def test_no_copy_reaches_a_stage_before_it_is_read(n, gated):
    """The copies after the last iteration fill their stages with zeros at once."""
    arguments = problem(INSTANCES, n)
    results, module = states_and_outputs(*arguments, gated=gated), recurrence(gated=gated)
    for _ in range(20):
        arrays = [x.copy() for x in arguments]
        GpuExecutor().launch(module, None, INSTANCES, [*arrays, n], **OPTIONS)
        check(arrays, results)
