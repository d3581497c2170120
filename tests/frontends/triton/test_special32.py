"""Special functions of float32 against the standard library's and series in float64: how far off
they are at worst, in units in the last place, and their values at the ends. They run on simulated
threads, whose approximate instructions are rounded, and in the interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.guarded_arms import guarded_selections
from tileir.builder import F32, F64, Builder, pointer
from tileir.executor import executor
from tileir.frontends.triton.language import special32

RANDOM = np.random.default_rng(29)


def evaluate(
    name: str, on: str, *operands: np.ndarray[Any, Any], kind: Any = F32
) -> np.ndarray[Any, Any]:
    count, dtype = len(operands[0]), np.float32 if kind is F32 else np.float64
    b = Builder()
    with b.kernel("k", x=pointer(kind), y=pointer(kind), out=pointer(kind)) as (x, y, out):
        i = b.arange(count)
        loaded = [(p + i).load() for p, _ in zip((x, y), operands, strict=False)]
        (out + i).store(getattr(special32, name)(b, *loaded))
    arrays = [v.astype(dtype) for v in operands]
    result = np.zeros(count, dtype)
    with np.errstate(all="ignore"):
        executor(on).launch(b.module(), "k", 1, [arrays[0], arrays[-1].copy(), result])
    return result


def scaled_erfc(x: float) -> float:
    if x < 4:
        return math.exp(x * x) * math.erfc(x)
    total = 0.0
    for k in range(300, 0, -1):
        total = k / 2 / (x + total)
    return 1 / math.sqrt(math.pi) / (x + total)


def logarithm_of_erfc(y: float) -> float:
    return math.log(math.erfc(y)) if y < 4 else -y * y + math.log(scaled_erfc(y))


def inverse_of_erfc(x: float) -> float:
    """By Newton's method on the logarithm, from a first guess."""
    small = min(x, 2 - x)
    y = math.sqrt(max(-math.log(small * (2 - small)), 1e-30)) * 0.9
    for _ in range(60):
        step = (logarithm_of_erfc(y) - math.log(small)) * scaled_erfc(y) * math.sqrt(math.pi) / 2
        y += step
        if abs(step) <= 1e-15 * y:
            break
    return y if x < 1 else -y


def inverse_of_erf(x: float) -> float:
    y = 0.0
    for _ in range(60):
        step = (math.erf(y) - x) * math.sqrt(math.pi) / 2 * math.exp(min(y * y, 30))
        y -= step
        if abs(step) <= 1e-15 * abs(y):
            break
    return y


def sine_of_multiple_of_pi(x: float) -> float:
    rest = math.fmod(x, 2)
    nearest = round(rest * 2)
    angle = math.pi * (rest - nearest / 2)
    s, c = math.sin(angle), math.cos(angle)
    return (s, c, -s, -c)[nearest % 4]


def around(low: float, high: float, count: int = 1500) -> np.ndarray[Any, Any]:
    return RANDOM.uniform(low, high, count).astype(np.float32)


def sizes(low: float, high: float, count: int = 500) -> np.ndarray[Any, Any]:
    """Numbers from e^low to e^high."""
    return np.exp(RANDOM.uniform(low, high, count)).astype(np.float32)


CASES: dict[str, tuple[Callable[[float], float], np.ndarray[Any, Any], float]] = {
    "exp10": (lambda x: 10.0**x, np.concatenate([around(-37, 38), around(-1, 1, 500)]), 1.5),
    "sinpi": (sine_of_multiple_of_pi, np.concatenate([around(-9, 9), around(-5e4, 5e4, 500)]), 1.6),
    "cospi": (
        lambda x: sine_of_multiple_of_pi(x + 0.5),
        np.concatenate([around(-9, 9), around(-5e4, 5e4, 500)]),
        1.5,
    ),
    "scaled_erfc": (scaled_erfc, np.concatenate([around(-9, 12), sizes(-20, 80)]), 2.5),
    "normal": (
        lambda x: math.erfc(-x * math.sqrt(0.5)) / 2,
        np.concatenate([around(-13, 6), -sizes(-20, 1)]),
        3.5,
    ),
    "inverse_of_erfc": (
        inverse_of_erfc,
        np.concatenate([around(0, 2), sizes(-100, -1), 2 - sizes(-15, -1)]),
        3.0,
    ),
    "inverse_of_normal": (
        lambda x: -math.sqrt(2) * inverse_of_erfc(2 * x),
        np.concatenate([around(0, 1), sizes(-85, -1)]),
        3.5,
    ),
    "inverse_of_erf": (
        inverse_of_erf,
        np.concatenate([around(-0.9999, 0.9999), sizes(-30, -1)]),
        2.0,
    ),
    "logarithm_of_gamma": (
        math.lgamma,
        np.concatenate([around(0, 40), sizes(-40, 20), around(0.9, 2.1)]),
        3.0,
    ),
}  # fmt: skip
"""Formula in float64, arguments, and the units that each is off at most."""


@pytest.mark.parametrize("name", sorted(CASES))
def test_functions_are_as_near_as_stated(name: str) -> None:
    formula, x, worst = CASES[name]
    exact = np.array([formula(float(v)) for v in x])
    usual = np.abs(exact) >= np.finfo(np.float32).tiny
    result = evaluate(name, "simt", x)
    off = np.abs(result - exact) / np.spacing(np.abs(exact.astype(np.float32)))
    assert off[usual & (exact != 0)].max() <= worst


@pytest.mark.parametrize("name", ["hypot", "inverse_hypot"])
def test_distances_neither_overflow_nor_underflow(name: str) -> None:
    x = np.concatenate([sizes(-100, 88), -sizes(80, 88)])
    y = np.concatenate([x[:500] * around(-3, 3, 500), RANDOM.permutation(x[500:])])
    exact = np.hypot(x.astype(np.float64), y.astype(np.float64))
    exact = exact if name == "hypot" else 1 / exact
    usual = (exact < 3.4e38) & (exact > 1.2e-38)
    result = evaluate(name, "simt", x, y)
    off = np.abs(result - exact) / np.spacing(exact.astype(np.float32))
    assert usual.sum() > 800 and off[usual].max() <= 2.5


def long_sine_of_pi(x: Any) -> Any:
    pi = np.longdouble("3.14159265358979323851")
    nearest = np.rint(x * 2)
    angle, quadrant = pi * (x - nearest / 2), nearest.astype(np.int64) % 4
    s, c = np.sin(angle), np.cos(angle)
    return np.choose(quadrant, [s, c, -s, -c])


CASES64: dict[str, tuple[Callable[..., Any], list[np.ndarray[Any, Any]], float]] = {
    "exp10": (
        lambda x: np.longdouble(10) ** x,
        [np.concatenate([RANDOM.uniform(-307, 308, 2000), RANDOM.uniform(-1, 1, 500)])],
        1.5,
    ),
    "sinpi": (long_sine_of_pi, [RANDOM.uniform(-9, 9, 2000)], 1.6),
    "cospi": (lambda x: long_sine_of_pi(x + 0.5), [RANDOM.uniform(-9, 9, 2000)], 1.6),
    "hypot": (np.hypot, [np.exp(RANDOM.uniform(-600, 600, 2000)) for _ in range(2)], 1.5),
    "inverse_hypot": (
        lambda x, y: 1 / np.hypot(x, y),
        [np.exp(RANDOM.uniform(-600, 600, 2000)) for _ in range(2)],
        2.0,
    ),
}
"""Formulas in numbers of 64 bits, operands, and the units that each is off at most."""


@pytest.mark.parametrize("on", ["simt", "interpreter"])
@pytest.mark.parametrize("name", sorted(CASES64))
def test_functions_of_float64_are_as_near_as_stated(name: str, on: str) -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("this machine has no numbers of 64 bits")
    formula, operands, worst = CASES64[name]
    exact = formula(*(v.astype(np.longdouble) for v in operands))
    result = evaluate(name, on, *operands, kind=F64)
    off = np.abs(result - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    assert off.max() <= worst


@pytest.mark.parametrize("on", ["simt", "interpreter"])
@pytest.mark.parametrize("name", ["exp10", "sinpi", "cospi"])
def test_ends_of_the_range_of_float64(name: str, on: str) -> None:
    x = np.array([0, -0.0, math.inf, -math.inf, math.nan, 1, 2, -1, 1e300, -1e300, 5e-324])
    expected = {
        "exp10": [1, 1, math.inf, 0, math.nan, 10, 100, 0.1, math.inf, 0, 1],
        "sinpi": [0, -0.0, math.nan, math.nan, math.nan, 0, 0, 0, 0, 0, 1.5e-323],
        "cospi": [1, 1, math.nan, math.nan, math.nan, -1, 1, -1, 1, 1, 1],
    }[name]
    result = evaluate(name, on, x, kind=F64)
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-322)
    if name == "sinpi":
        assert np.signbit(result[:2]).tolist() == [False, True]


@pytest.mark.parametrize("on", ["simt", "interpreter"])
def test_distances_of_float64_at_the_ends(on: str) -> None:
    x = np.array([0, math.inf, math.nan, math.nan, 5e-324, 1e308, 3e-320])
    y = np.array([0, math.nan, -math.inf, 1, 0, 0, 4e-320])
    result = evaluate("hypot", on, x, y, kind=F64)
    np.testing.assert_allclose(result, np.hypot(x, y), rtol=1e-14)
    result = evaluate("inverse_hypot", on, x, y, kind=F64)
    np.testing.assert_array_equal(result[:5], [math.inf, 0, 0, math.nan, math.inf])


ENDS = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    2.0,
    2.0**-149,
    3e38,
    -3e38,
    200.0,
    -200.0,
]
EXPECTED: dict[str, list[float]] = {
    "exp10": [1, 1, math.inf, 0, math.nan, 10, 0.1, 100, 1, math.inf, 0, math.inf, 0],
    "sinpi": [0, -0.0, math.nan, math.nan, math.nan, 0, 0, 0, 4e-45, 0, 0, 0, 0],
    "cospi": [1, 1, math.nan, math.nan, math.nan, -1, -1, 1, 1, 1, 1, 1, 1],
    "scaled_erfc": [
        1, 1, 0, math.inf, math.nan, 0.427583576, 5.00898008, 0.255395676, 1, 1.9e-39, math.inf,
        0.00282091, math.inf,
    ],
    "normal": [
        0.5, 0.5, 1, 0, math.nan, 0.841344746, 0.158655254, 0.977249868, 0.5, 1, 0, 1, 0,
    ],
    "inverse_of_erfc": [
        math.inf, math.inf, math.nan, math.nan, math.nan, 0, math.nan, -math.inf, 10.0198336,
        math.nan, math.nan, math.nan, math.nan,
    ],
    "inverse_of_erf": [
        0, -0.0, math.nan, math.nan, math.nan, math.inf, -math.inf, math.nan, 1e-45, math.nan,
        math.nan, math.nan, math.nan,
    ],
    "logarithm_of_gamma": [
        math.inf, math.inf, math.inf, math.inf, math.nan, 0, math.inf, 0, 103.278931, math.inf,
        math.inf, 857.933655, math.inf,
    ],
}  # fmt: skip


@pytest.mark.parametrize("on", ["simt", "interpreter"])
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_ends_of_the_range(name: str, on: str) -> None:
    result = evaluate(name, on, np.array(ENDS))
    expected = np.array(EXPECTED[name])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-39)
    if name in ("sinpi", "inverse_of_erf"):
        assert np.signbit(result[:2]).tolist() == [False, True]


@pytest.mark.parametrize("on", ["simt", "interpreter"])
def test_distances_at_the_ends(on: str) -> None:
    x = np.array([0, math.inf, math.nan, math.nan, 2.0**-149, 3e38])
    y = np.array([0, math.nan, -math.inf, 1, 0, 0])
    np.testing.assert_allclose(evaluate("hypot", on, x, y), np.hypot(x, y), rtol=1e-6)
    result = evaluate("inverse_hypot", on, x, y)
    np.testing.assert_array_equal(result[:5], [math.inf, 0, 0, math.nan, math.inf])


def test_gamma_of_usual_arguments_takes_no_logarithm() -> None:
    """Each of the three logarithms is in a branch of its own."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), out=pointer(F32)) as (x, out):
        i = b.arange(128)
        (out + i).store(special32.logarithm_of_gamma(b, (x + i).load()))
    function = compile_kernel(b.module(), "sm_90a").stages["barriers"].functions["k"]
    guarded = guarded_selections(function).selections.values()
    arms = [arm for selection in guarded for arm in selection.arms]
    divided = [op for arm in arms for op in arm]
    logarithms = [op for op in function.ops if op.mnemonic in ("log", "log2")]
    by_bits = [op for op in function.ops if op.mnemonic == "sitofp"]
    assert len(logarithms) == 2 and len(by_bits) == 1
    assert all(op in divided for op in logarithms + by_bits)


@pytest.mark.parametrize("name", ["logarithm_of_gamma", "inverse_of_erfc"])
def test_a_number_is_inverted_by_one_instruction(name: str) -> None:
    b = Builder()
    with b.kernel("k", x=pointer(F32), out=pointer(F32)) as (x, out):
        out.store(getattr(special32, name)(b, x.load()))
    ptx = compile_kernel(b.module(), "sm_90a").ptx
    assert "rcp.approx.ftz.f32" in ptx and "div." not in ptx
