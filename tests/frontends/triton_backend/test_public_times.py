"""Times of cases that ran in both orders of the compilers, and comparison of their errors."""

import pytest


def row(**us):
    kernels = [{"kernel": name, "us": x, "registers": 32} for name, x in us.items()]
    return {"case": "a", "kernels": kernels, "other_us": 1.0, "host_us": 20.0}


def test_the_least_time_of_each_kernel_counts(benchmarks):
    least = benchmarks("public.measure").with_least_times
    first, repeated = row(f=2.0, g=3.0, h=1.0), row(f=2.1, g=2.5)
    repeated["host_us"] = 15.0
    assert least(first, repeated) == {**row(f=2.0, g=2.5, h=1.0), "host_us": 15.0}


def test_a_case_that_fails_once_keeps_its_times(benchmarks):
    least = benchmarks("public.measure").with_least_times
    failed = {"case": "a", "error": "over 25 s"}
    assert least(row(f=2.0), failed) == row(f=2.0)
    assert least(failed, row(f=2.0)) == failed


@pytest.mark.parametrize(
    ("ours", "theirs", "is_wrong"),
    [
        (2e-3, 1e-3, False),
        (3e-3, 1e-3, True),
        (9e8, 1e8, False),
        (2e9, 1e8, True),
        (2.0, 0.9, True),
    ],
)
def test_errors_are_compared_with_those_of_triton(benchmarks, ours, theirs, is_wrong):
    case = {"triton": {"errors": [0.0, theirs]}, "tileir": {"errors": [0.0, ours]}}
    assert bool(benchmarks("public.report").wrong({"a": case})) == is_wrong


@pytest.mark.parametrize(
    ("ours", "limits"),
    [
        ({"maps": False}, "spills 9 for 0"),
        ({"maps": True}, "tileir launches a version whose code is not recorded"),
        ({"maps": True, "compiled_by": "triton"}, "compiled by Triton"),
    ],
)
def test_code_that_is_not_launched_explains_no_time(benchmarks, ours, limits):
    ours = {"compiled_by": "tileir", "spills": 9, **ours}
    assert benchmarks("public.report").limits(ours, {"spills": 0}) == limits
