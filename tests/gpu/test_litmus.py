"""Litmus tests on a GPU: shorter than `python -m tileir.testing.litmus`."""

import pytest

from tileir.executor import executor
from tileir.testing import litmus

pytestmark = pytest.mark.gpu

TESTS = {test.name: test for test in litmus.tests()}


@pytest.mark.parametrize("name", TESTS)
def test_only_allowed_outcomes_occur(name):
    test = TESTS[name]
    outcomes = litmus.outcomes(test, executor("gpu"), 100_000, 64)
    assert outcomes.total() >= 100_000
    assert all(map(test.is_allowed, outcomes)), outcomes


def test_additions_under_locks():
    assert litmus.locked_accumulation(executor("gpu"), 500) == (500, 0)
