"""Recipes: what metadata says about running a kernel."""

import numpy as np
import pytest

from tileir.errors import ToolError
from tileir.ir import Function, Module, Parameter
from tileir.tools.inputs import draw, recipe, unused_entries
from tileir.types import F32, I32, pointer
from tileir.values import Value


def module(**metadata):
    parameters = (Parameter(Value(pointer(F32), "x")), Parameter(Value(I32, "n")))
    kernel = Function("k", parameters, kernel=True)
    keys = {name.replace("_", ".", 1): value for name, value in metadata.items()}
    return Module({"k": kernel}, metadata=keys)


def test_buffers_and_numbers_are_drawn_by_name():
    arguments = draw(recipe(module(run_x="f32[3, 5] normal", run_n="7")), seed=1)
    assert arguments["x"].shape == (3, 5) and arguments["x"].dtype == np.float32
    assert arguments["n"] == 7


def test_a_seed_gives_the_same_arguments():
    plan = recipe(module(run_x="f32[64] uniform", run_n="1"))
    assert (draw(plan, 3)["x"] == draw(plan, 3)["x"]).all()
    assert (draw(plan, 3)["x"] != draw(plan, 4)["x"]).any()


def test_a_buffer_without_a_fill_starts_as_nan():
    assert np.isnan(draw(recipe(module(run_x="f32[4]", run_n="1")), 0)["x"]).all()


@pytest.mark.parametrize(
    "fill, expected",
    [("zeros", [0, 0, 0]), ("ones", [1, 1, 1]), ("arange", [0, 1, 2]), ("integers(5, 6)", [5] * 3)],
)
def test_fills(fill, expected):
    arguments = draw(recipe(module(run_x=f"f32[3] {fill}", run_n="1")), 0)
    assert arguments["x"].tolist() == expected


@pytest.mark.parametrize(
    "metadata, code, words",
    [
        ({"run_n": "1"}, "TIR0902", "run.x"),
        ({"run_x": "i32[3]", "run_n": "1"}, "TIR0903", "f32[SHAPE]"),
        ({"run_x": "f32[3] gaussian", "run_n": "1"}, "TIR0903", "run.x: 'gaussian' is none"),
        ({"run_x": "f32[3] integers", "run_n": "1"}, "TIR0903", "integers"),
        ({"run_x": "f32[3] integers(3, 1)", "run_n": "1"}, "TIR0903", "run.x cannot be drawn"),
        ({"run_x": "f32[999999999999999]", "run_n": "1"}, "TIR0903", "run.x cannot be drawn"),
        ({"run_x": "f32[3]", "run_n": "1", "run_grid": True}, "TIR0903", "run.grid"),
        ({"run_x": "f32[3]", "run_n": "many"}, "TIR0903", "run.n must be a number"),
        ({"run_x": "f32[3]", "run_n": "1", "run_grid": (0,)}, "TIR0903", "run.grid"),
        ({"run_x": "f32[3]", "run_n": "1", "run_kernel": "other"}, "TIR0707", "other"),
        ({"run_x": "f32[3]", "run_n": "1", "expect_y": "relu(x)"}, "TIR0903", "%y"),
        ({"run_x": "f32[3]", "run_n": "1", "expect_x": "x + 1"}, "TIR0903", "reference"),
        ({"run_x": "f32[3]", "run_n": "1", "expect_x": "relu(x)", "within_x": "a"}, "TIR0903", "a"),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(metadata, code, words):
    with pytest.raises(ToolError) as error:
        draw(recipe(module(**metadata)), 0)
    assert error.value.code == code
    assert words in str(error.value)


def test_entries_that_no_launch_reads_are_listed():
    read = {"run_x": "f32[3]", "run_n": "1", "run_grid": 2, "run_kernel": "k", "author": "me"}
    assert not unused_entries(module(**read, expect_x="relu(x)", within_x=1e-5))
    mistakes = module(**read, run_gridd=4, run_m="1", within_x=1e-5)
    assert unused_entries(mistakes) == ["run.gridd", "run.m", "within.x"]


def test_grid_and_expectations():
    plan = recipe(
        module(run_x="f32[3]", run_n="1", run_grid=(2, 3), expect_x="softmax(x)", within_x=1e-5)
    )
    assert plan.grid == (2, 3)
    assert plan.expected["x"].reference == "softmax"
    assert plan.expected["x"].arguments == ("x",)
    assert plan.expected["x"].within == 1e-5
