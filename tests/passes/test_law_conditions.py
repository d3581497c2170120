"""The conditions of laws and the literals they compute, on every i8: a condition that is too
strict breaks no law, it only keeps one from applying."""

from __future__ import annotations

import itertools
import math

import pytest

from tests.sizes import for_each
from tileir.passes.laws import integers
from tileir.passes.laws.floats import reciprocal
from tileir.passes.laws.integers import INTEGERS, as_signed, bits, log2, width
from tileir.passes.laws.law import Law
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, pointer, tile
from tileir.values import Constant, Value, constant

EVERY = [Constant(I8, n) for n in range(256)]


def law(text: str) -> Law:
    (matching,) = [each for each in INTEGERS if each.text == text]
    return matching


def test_a_literal_as_a_number() -> None:
    assert [bits(c) for c in EVERY] == list(range(256))
    assert [as_signed(c) for c in EVERY] == [*range(128), *range(-128, 0)]
    assert (as_signed(Constant(I64, 1 << 63)), as_signed(Constant(I1, 1))) == (-(1 << 63), -1)
    assert [width(t) for t in (I1, I8, tile(I32, (4,)))] == [1, 8, 32]


def test_powers_of_two() -> None:
    exponents = {1 << k: k for k in range(7)}
    assert [log2(c) for c in EVERY] == [exponents.get(n) for n in range(256)]


@for_each(
    ("text", "name", "expected"),
    [
        ("urem(x, C) = and(x, M)", "M", lambda c: c - 1 if c in (1, 2, 4, 8, 16, 32, 64) else None),
        ("lshr(shl(x, C), C) = and(x, M)", "M", lambda c: 255 >> c if c < 8 else None),
        ("shl(lshr(x, C), C) = and(x, M)", "M", lambda c: 256 - (1 << c) if c < 8 else None),
        ("shl(ashr(x, C), C) = and(x, M)", "M", lambda c: 256 - (1 << c) if c < 8 else None),
        ("udiv(x, C) = lshr(x, K)", "K", lambda c: {1 << k: k for k in range(7)}.get(c)),
    ],
)
def test_literals_that_laws_compute(text: str, name: str, expected: object) -> None:
    compute = law(text).let[name]
    computed = [compute({"C": c}) for c in EVERY]
    assert computed == [expected(n) for n in range(256)]  # type: ignore[operator]


@pytest.mark.parametrize("shift", ["shl", "lshr", "ashr"])
def test_counts_of_shifts_that_add_up(shift: str) -> None:
    where = law(f"{shift}({shift}(x, C), D) = {shift}(x, add(C, D))").where
    assert where is not None
    for c, d in itertools.product(range(10), repeat=2):
        assert where({"C": EVERY[c], "D": EVERY[d]}) is (c + d < 8)


def test_divisors_that_fit_when_multiplied() -> None:
    where = law("udiv(udiv(x, C), D) = udiv(x, mul(C, D))").where
    assert where is not None
    for c, d in itertools.product((0, 1, 2, 3, 5, 15, 16, 17, 51, 85, 128, 255), repeat=2):
        assert where({"C": EVERY[c], "D": EVERY[d]}) is (0 < c * d < 256)


def test_offsets_that_fit_when_added() -> None:
    where = law("getelementptr(getelementptr(x, C), D) = getelementptr(x, add(C, D))").where
    assert where is not None
    for c, d in itertools.product((0, 1, -1, 63, 64, 100, 127, -27, -28, -64, -127), repeat=2):
        fits = abs(c + d) < 128
        assert where({"C": constant(I8, c), "D": constant(I8, d)}) is fits
    assert not where({"C": constant(I8, 1), "D": constant(I16, 1)})


def test_an_address_that_went_through_an_integer_of_its_width() -> None:
    where = law("inttoptr(y: ptrtoint(x)) = x").where
    assert where is not None
    x = Value(pointer(F32), "x")
    assert where({"x": x, "y": Value(I64, "y")})
    assert not where({"x": x, "y": Value(I32, "y")})


def test_comparisons_are_swapped_for_a_literal_on_the_left_alone() -> None:
    for each in integers.SWAPPED_COMPARISON:
        assert each.where is not None and each.where({"x": Value(I8, "x"), "C": EVERY[1]})
        assert not each.where({"x": EVERY[2], "C": EVERY[1]})


@for_each(("element", "least"), [(F16, -14), (BF16, -126), (F32, -126), (F64, -1022)])
def test_reciprocals(element: object, least: int) -> None:
    for exponent in (least - 1, least, least + 1, -1, 0, 1, -least - 1, -least, -least + 1):
        number = math.ldexp(1.0, exponent)
        for sign in (1.0, -1.0):
            quotient = reciprocal({"C": constant(element, sign * number)})  # type: ignore[arg-type]
            assert quotient == (sign / number if least <= exponent <= -least else None)
    for number in (0.0, -0.0, math.inf, -math.inf, math.nan, 3.0, 0.75, 1.5):
        assert reciprocal({"C": constant(element, number)}) is None  # type: ignore[arg-type]
