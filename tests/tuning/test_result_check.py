"""Right and wrong results, and what is compared how."""

import ml_dtypes
import numpy as np
import pytest

from tileir.backend.tuning import TuneError
from tileir.backend.tuning.measuring_process import MeasuringProcess, Opening
from tileir.backend.tuning.result_check import Reference, difference, spacing

RANDOM = np.random.default_rng(0)


def verdict(actual, expected, within=None):
    try:
        Reference({"y": np.asarray(expected)}, within).check({"y": np.asarray(actual)})
    except TuneError as error:
        assert error.code == "TIR1107"
        return str(error)
    return None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_floats_may_be_off_by_some_spacings(dtype):
    expected = RANDOM.standard_normal(300_000).astype(dtype)
    near, far = expected.copy(), expected.copy()
    one = np.float64(1 + 8 * spacing(dtype))
    near[-1] = dtype(np.float64(expected[-1]) * one)
    far[-1] = dtype(np.float64(expected[-1]) + 40 * spacing(dtype) * max(1, abs(expected[-1])))
    assert verdict(near, expected) is None
    assert "y is off by" in verdict(far, expected)
    assert verdict(far, expected, within=1.0) is None
    assert verdict(near, expected, within={"y": 0.0}) is not None
    assert verdict(near, expected, within={"x": 0.0}) is None


def test_an_error_of_all_that_is_allowed_is_right():
    """What is allowed is a number of the result's type too, as what is off by it."""
    expected = np.zeros(3, np.float32)
    assert verdict(np.full(3, 0.1, np.float32), expected, within=0.1) is None
    beyond = np.full(3, np.nextafter(np.float32(0.1), np.float32(1)))
    assert verdict(beyond, expected, within=0.1) is not None


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.bool_])
def test_integers_are_exact(dtype):
    expected = RANDOM.integers(0, 2, 100).astype(dtype)
    other = expected.copy()
    other[7] = not other[7]
    assert verdict(expected.copy(), expected) is None
    assert verdict(other, expected) is not None


def test_large_integers_are_exact():
    expected = np.array([1 << 24, (1 << 31) - 1], np.int32)
    assert verdict(expected + np.array([1, 0], np.int32), expected) is not None


def test_what_is_no_number_has_to_be_none():
    expected = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert verdict(expected.copy(), expected) is None
    assert verdict(-expected, expected) is not None
    for i, other in ((0, 1.0), (3, np.nan), (1, 1e30), (3, np.inf)):
        changed = expected.copy()
        changed[i] = other
        assert verdict(changed, expected) is not None, (i, other)


def test_errors_are_relative_to_the_size_of_all_values():
    expected = np.array([1000.0, -1000.0, 0.001], np.float32)
    off = np.array([1000.0, -1000.0, 0.0011], np.float32)
    assert verdict(off, expected) is None
    assert verdict(off[2:], expected[2:]) is not None
    assert difference(off[2:], expected[2:]) == pytest.approx(1e-4, rel=1e-3)


def test_empty_arrays_are_right():
    assert verdict(np.zeros((0, 3), np.float16), np.zeros((0, 3), np.float16)) is None
    assert difference(np.zeros(0), np.zeros(0)) == 0.0


def test_the_first_result_goes_to_other_processes_as_it_is(tmp_path):
    opening = Opening(None, dict, None, None, str(tmp_path / "reference.npz"))
    first, second = MeasuringProcess(opening, None, None), MeasuringProcess(opening, None, None)
    assert second.expected_results() is None
    arrays = {
        "a": RANDOM.standard_normal(8).astype(ml_dtypes.bfloat16),
        "b": np.arange(3, dtype=np.int64), "c": np.array([True, False]),
    }  # fmt: skip
    first.keep(arrays)
    kept = second.expected_results().expected
    assert {n: kept[n].dtype for n in kept} == {n: arrays[n].dtype for n in arrays}
    second.expected_results().check(arrays)
    with pytest.raises(TuneError):
        second.expected_results().check({**arrays, "b": np.arange(1, 4)})


@pytest.mark.parametrize("size", [0.001, 1.0, 3.0, 1000.0])
def test_differences_are_relative_to_the_largest_of_one_and_what_is_expected(size):
    expected = np.array([size, -size, size, -size])
    off = np.array([0.0, 0.001, 0.0, 0.0])
    assert difference(expected + off, expected) == pytest.approx(0.001 / max(1.0, size))
    assert difference(expected - 2 * off, expected) == pytest.approx(0.002 / max(1.0, size))
    assert np.isnan(difference(expected * [1, np.nan, 1, 1], expected))
    same = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert difference(same, same) == 0.0
