"""Cases in one test: each is run, and a failure says which. No test depends on another."""

import numpy as np
import pytest

from tests.sizes import for_each


def test_every_value_is_run_and_a_failure_says_which():
    seen = []

    @for_each("number", range(5))
    def odd(number, other):
        seen.append((number, other))
        assert number != 3

    with pytest.raises(AssertionError) as caught:
        odd(other="x")
    assert seen == [(n, "x") for n in range(4)]
    assert caught.value.__notes__ == ["number = 3"]


@pytest.mark.parametrize("other", ["x", "y"])
@for_each("number", range(3))
def test_other_parameters_and_fixtures_are_those_of_the_test(number, other, tmp_path):
    assert other in ("x", "y") and tmp_path.is_dir() and number in range(3)


@pytest.mark.parametrize(
    ("name", "values"), [("number", ()), ("other", (1,)), (("number", "other"), ((1, 2),))]
)
def test_a_test_has_values_for_a_parameter_of_its_own(name, values):
    with pytest.raises(AssertionError):
        for_each(name, values)(lambda number: None)


def test_values_of_several_parameters_come_together():
    seen = []

    @for_each(("left", "right"), [(1, 2), (3, 4)])
    def check_left(left, right):
        seen.append(left + right)
        assert left < 3

    with pytest.raises(AssertionError) as caught:
        check_left()
    assert seen == [3, 7]
    assert caught.value.__notes__ == ["left = 3, right = 4"]


CHANCE = np.random.default_rng(3)


@pytest.mark.parametrize("time", [1, 2])
def test_generators_of_a_module_start_over_for_each_test(time):
    assert CHANCE.integers(1 << 60) == np.random.default_rng(3).integers(1 << 60), time
