"""Mathematical functions in f64 against 60 digits, within the bound that each op states."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor
from tileir.op import lookup

from .high_precision import FUNCTIONS, real

MACHINE = Machine()
RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-740, 709), (-1, 1), (-1e-8, 1e-8)],
    "exp2": [(-1074, 1023), (-1, 1)],
    "expm1": [(-40, 709), (-1, 1), (-1e-8, 1e-8)],
    "log": [(1e-300, 1e-290), (0.5, 2), (0.99, 1.01), (1, 1e6)],
    "log2": [(1e-300, 1e-290), (0.5, 2), (0.99, 1.01), (1, 1e6)],
    "log10": [(1e-300, 1e-290), (0.5, 2), (0.99, 1.01), (1, 1e6)],
    "log1p": [(-0.999, 1), (-1e-9, 1e-9), (1, 1e6), (-0.31, -0.295)],
    "sin": [(-4, 4), (-1e-6, 1e-6), (1e5, 2e6), (1e15, 1e22), (1e300, 1e305)],
    "cos": [(-4, 4), (1.57, 1.5709), (1e5, 2e6), (1e15, 1e22), (1e300, 1e305)],
    "tan": [(-4, 4), (1.57, 1.5709), (-1e-6, 1e-6), (1e5, 2e6), (1e15, 1e22)],
    "asin": [(-1, 1), (0.999, 1), (-1e-6, 1e-6)],
    "acos": [(-1, 1), (0.999, 1), (-1, -0.999)],
    "atan": [(-3, 3), (-1e-6, 1e-6), (1e3, 1e9)],
    "sinh": [(-1, 1), (-30, 30), (700, 710.4)],
    "cosh": [(-1, 1), (-30, 30), (700, 710.4)],
    "tanh": [(-1, 1), (-25, 25), (-1e-6, 1e-6)],
    "asinh": [(-3, 3), (-1e-6, 1e-6), (1e5, 1e12)],
    "acosh": [(1, 1.01), (1, 3), (1e5, 1e12)],
    "atanh": [(-1, 1), (0.4, 0.6), (-1e-6, 1e-6)],
    "erf": [(-3, 3), (-1e-6, 1e-6), (0.8, 1.3)],
    "erfc": [(-3, 3), (0.8, 1.3), (3, 12)],
    "cbrt": [(-10, 10), (1e-300, 1e-299), (1e200, 1e201)],
    "rsqrt": [(1e-3, 10), (1e200, 1e201)],
}
POWERS = [(0.5, 2, -300, 300), (1e-5, 1e5, -40, 40), (0.999, 1.001, -1e5, 1e5), (1, 1e300, 0, 1)]
ANGLES = [(-3, 3, -3, 3), (1e-3, 1e3, -1e-3, 1e3), (-1, 1, -1e9, -1e8)]


def bound(name: str) -> float:
    entry = lookup(name)
    assert entry is not None and entry.numerics.ulp is not None
    return entry.numerics.ulp


def off(got: float, exact: Decimal) -> float:
    """Distance in units in the last place of the real value."""
    unit = Decimal(math.ulp(float(exact)))
    return float(abs(Decimal(got) - exact) / unit)


def check(name: str, *operands: Any) -> None:
    got = MACHINE.elementwise(name, *map(Tensor, operands)).data
    worst = max(
        off(float(g), real(name, *map(float, items)))
        for g, *items in zip(got, *operands, strict=True)
    )
    assert worst <= bound(name), worst


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", RANGES)
def test_functions_are_within_their_bound(name: str) -> None:
    rng = np.random.default_rng(12)
    for low, high in RANGES[name]:
        check(name, rng.uniform(low, high, 25))


@pytest.mark.parametrize(("name", "ranges"), [("pow", POWERS), ("atan2", ANGLES)])
def test_functions_of_two_are_within_their_bound(name: str, ranges: Any) -> None:
    rng = np.random.default_rng(13)
    for a, b, c, d in ranges:
        check(name, rng.uniform(a, b, 25), rng.uniform(c, d, 25))


def test_every_inexact_function_is_checked() -> None:
    assert set(FUNCTIONS) == {*RANGES, "pow", "atan2"} == set(_ops_with_ulp())


def _ops_with_ulp() -> list[str]:
    from tileir.op import all_ops

    return [
        o.mnemonic
        for o in all_ops()
        if o.elementwise and o.numerics.ulp and not o.mnemonic.startswith("gpu.")
    ]


def test_hard_arguments_of_the_sine() -> None:
    """Numbers next to multiples of pi/2, the first the nearest that f64 has (Muller 2006)."""
    hard = np.array([6381956970095103.0 * 2.0**797, math.pi, 355.0, 5419351.0 / 2, 1e22])
    check("sin", hard)
    check("cos", hard)


def test_logarithms_correct_the_rounding_of_one_plus_x() -> None:
    # 1 + x is rounded; from sqrt(2) on the logarithm is not taken of x itself
    x = np.array([0.41423249534239603, 0.44159135372281344, 0.5604077404633626, 1.7024010035947486])
    check("log1p", x)
    got = MACHINE.elementwise("log1p", Tensor(x)).data
    assert max(off(float(g), real("log1p", float(v))) for g, v in zip(got, x, strict=True)) < 0.8


@for_each(("name", "operand", "result"), [
        ("exp", -math.inf, 0.0), ("exp", 710.0, math.inf), ("exp", -746.0, 0.0),
        ("exp2", 1024.0, math.inf), ("exp2", -1074.0, 5e-324), ("exp2", 10.0, 1024.0),
        ("expm1", -math.inf, -1.0), ("expm1", -0.0, -0.0), ("log", 0.0, -math.inf),
        ("log", -1.0, math.nan), ("log2", 8.0, 3.0), ("log2", 5e-324, -1074.0),
        ("log10", 1e15, 15.0), ("log1p", -1.0, -math.inf), ("log1p", 1e-300, 1e-300),
        ("sin", math.inf, math.nan), ("sin", -0.0, -0.0), ("cos", 0.0, 1.0),
        ("asin", 1.0, math.pi / 2), ("asin", 1.1, math.nan), ("acos", -1.0, math.pi),
        ("atan", math.inf, math.pi / 2), ("sinh", 711.0, math.inf), ("cosh", -711.0, math.inf),
        ("tanh", -math.inf, -1.0), ("acosh", 0.9, math.nan), ("acosh", math.inf, math.inf),
        ("asinh", -math.inf, -math.inf), ("atanh", 1.0, math.inf), ("atanh", -1.0, -math.inf),
        ("erf", math.inf, 1.0), ("erfc", -math.inf, 2.0), ("erfc", 30.0, 0.0),
        ("cbrt", -27.0, -3.0), ("cbrt", -0.0, -0.0), ("rsqrt", -0.0, -math.inf),
        ("rsqrt", math.inf, 0.0), ("rsqrt", -1.0, math.nan),
    ])  # fmt: skip
def test_ends_and_exact_values(name: str, operand: float, result: float) -> None:
    for dtype in (np.float64, np.float32):
        if dtype is np.float32 and name in ("log2", "log1p", "exp2", "expm1"):
            continue
        got = MACHINE.elementwise(name, Tensor(np.array(operand, dtype))).data
        np.testing.assert_array_equal(got, dtype(result))
        if result == 0:
            assert np.signbit(got) == np.signbit(result)


def test_powers_of_special_operands_are_those_of_c() -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, math.inf, -math.inf, math.nan]
    a, b = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    got = MACHINE.elementwise("pow", Tensor(a), Tensor(b)).data
    for x, y, g, e in zip(a, b, got, expected, strict=True):
        if np.isfinite(e) and e == e and abs(e) not in (0, 1):
            assert off(float(g), Decimal(e)) <= bound("pow")
        else:
            assert (g == e and np.signbit(g) == np.signbit(e)) or (g != g and e != e), (x, y, g, e)


def test_angles_of_special_points_are_those_of_c() -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 1e-320, 1e300]
    for y in numbers:
        for x in numbers:
            got = MACHINE.elementwise("atan2", Tensor(np.array(y)), Tensor(np.array(x))).data
            expected = math.atan2(y, x)
            assert abs(float(got) - expected) <= 2 * math.ulp(expected), (y, x)
            assert np.signbit(got) == (math.copysign(1, expected) < 0)


def test_cube_roots_are_rounded_once_but_for_a_thousandth() -> None:
    x = np.random.default_rng(13).uniform(1, 8, 400)
    got = MACHINE.elementwise("cbrt", Tensor(x)).data
    assert max(off(float(g), real("cbrt", float(v))) for g, v in zip(got, x, strict=True)) <= 0.501
