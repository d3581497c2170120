"""Errors of results against references."""

import math

import numpy as np
import pytest

from tileir.errors import ToolError
from tileir.ir import Function, Parameter
from tileir.tools.check import largest_error, verdicts
from tileir.tools.inputs import Expectation, Recipe
from tileir.types import F32, pointer
from tileir.values import Value


def plan(reference, *arguments, within=None):
    kernel = Function("k", (Parameter(Value(pointer(F32), "y")),), kernel=True)
    return Recipe(kernel, (1,), {"y": ""}, {"y": Expectation(reference, arguments, within)})


def test_errors_are_absolute_below_one_and_relative_above():
    assert largest_error(np.float32([0.5, 1000]), np.float32([0.25, 1001])) == 0.25
    assert largest_error(np.float32([0, 2000]), np.float32([0, 1000])) == 1.0


def test_equal_infinities_and_nans_do_not_differ():
    same = np.float32([np.inf, -np.inf, np.nan])
    assert largest_error(same, same) == 0


def test_a_nan_on_one_side_is_no_match():
    assert math.isnan(largest_error(np.float32([np.nan]), np.float32([1])))
    before, after = {"y": np.ones(2, np.float32)}, {"y": np.full(2, np.nan, np.float32)}
    (verdict,) = verdicts(plan("copy", "y"), before, after)
    assert not verdict.good


def test_a_result_is_judged_against_its_reference():
    before = {"y": np.float32([-1, 2])}
    (good,) = verdicts(plan("relu", "y"), before, {"y": np.float32([0, 2])})
    (bad,) = verdicts(plan("relu", "y"), before, {"y": np.float32([0, 2.1])})
    assert good.good and good.error == 0
    assert not bad.good


@pytest.mark.parametrize(
    "reference, arguments",
    [("eval", ("y",)), ("add", ("y",)), ("add", ("y", "__import__")), ("softmax", ("1",))],
)
def test_only_known_references_of_fitting_arguments_are_applied(reference, arguments):
    values = {"y": np.zeros(2, np.float32)}
    with pytest.raises(ToolError) as error:
        verdicts(plan(reference, *arguments), values, values)
    assert error.value.code == "TIR0903"
