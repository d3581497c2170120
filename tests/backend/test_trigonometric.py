"""sin, cos and tan of f64 as formulas over threads, against numbers of 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tests.backend.test_function_accuracy import DIGITS, HALF_PI, evaluate
from tileir.backend.codegen.rules.math import _DOUBLE
from tileir.types import F64

WORST = {"sin": 1.4, "cos": 1.4, "tan": 2.52}
"""Units in the last place that each is off at most, as measured on 24,000 numbers. The remainder
has one part: the bounds of the ops are 2 and 4."""


def series(x: Decimal, first: int) -> Decimal:
    """The sum of (-1)^k x^n / n! over every other n from `first`, 0 or 1, on."""
    term = total = x if first else Decimal(1)
    for n in range(first + 2, 60, 2):
        term = -term * x * x / (n * (n - 1))
        total += term
    return total


def exact(name: str, x: float) -> Decimal:
    quarters = round(Fraction(x) / HALF_PI)
    rest = Fraction(x) - quarters * HALF_PI
    number = Decimal(rest.numerator) / Decimal(rest.denominator)
    s, c = series(number, 1), series(number, 0)
    for _ in range(quarters % 4):
        s, c = c, -s
    return {"sin": s, "cos": c, "tan": s / c}[name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(WORST))
def test_as_near_as_measured(name: str) -> None:
    r = np.random.default_rng(3)
    x = np.concatenate([
        r.uniform(-0.8, 0.8, 300), r.uniform(-20, 20, 300), r.uniform(-1e5, 1e5, 100),
        np.exp(r.uniform(-40, 0, 100)), np.arange(1, 60) * np.pi / 4, np.ldexp(1.1, [60, 300, 900]),
    ])  # fmt: skip
    result = evaluate(_DOUBLE[name], F64, x).handle.array
    with localcontext() as context:
        context.prec = DIGITS
        off = []
        for number, value in zip(x.tolist(), result.tolist(), strict=True):
            expected = exact(name, number)
            unit = Decimal(float(np.spacing(abs(float(expected)))))
            off.append(abs(Decimal(value) - expected) / unit)
    assert float(max(off)) <= WORST[name]


@pytest.mark.parametrize("name", sorted(WORST))
def test_values_at_ends(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324])
    result = evaluate(_DOUBLE[name], F64, x).handle.array
    zero = np.ones(2) if name == "cos" else np.array([0.0, -0.0])
    assert (result[:2] == zero).all() and (np.signbit(result[:2]) == np.signbit(zero)).all()
    assert np.isnan(result[2:5]).all()
    assert (result[5:] == (1 if name == "cos" else x[5:])).all()
