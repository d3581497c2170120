"""The ends of floats: new NaNs, what is too large, powers of two alone, and zeros."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.machine.shapes import lanes_of
from tileir.op import lookup
from tileir.types import BF16, F8E4M3, F8E5M2, F8E8M0, F16, F32, F64, Scalar

MACHINE = Machine()
MODES = ("rn", "rz", "rm", "rp")
OPS = ("fadd", "fsub", "fmul", "fdiv", "fma")

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"  # infinities, NaNs and overflow are among the operands on purpose
)

NAN_BITS = {
    F8E4M3: 0x7F, F8E5M2: 0x7E, F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000,
    F64: 0x7FF8 << 48,
}  # fmt: skip
"""Quiet, positive, of no payload (IEEE 754-2019 6.2.1; OCP 8-bit floating point)."""


@pytest.mark.parametrize("element", NAN_BITS, ids=str)
def test_a_new_nan_is_the_canonical_one(element: Scalar) -> None:
    word = f"u{element.bytes}"
    for source in (F32, F64):
        if source is element:
            continue
        operand = Tensor(np.array([np.nan, -np.nan]).astype(dtype_of(source)))
        got = MACHINE.convert("fpcast", operand, element, rounding="rn", saturate=False).data
        assert got.view(word).tolist() == [NAN_BITS[element]] * 2
    if element.bits < 16:
        return
    with np.errstate(all="ignore"):
        one, infinite = (np.array([n]).astype(dtype_of(element)) for n in (1.0, np.inf))
    for case in (
        ("fsub", infinite, infinite),
        ("fmul", one * 0, infinite),
        ("fdiv", one * 0, one * 0),
    ):
        name, *operands = case
        result = MACHINE.elementwise(name, *map(Tensor, operands)).data
        assert result.view(word).tolist() == [NAN_BITS[element]], name


LARGE = {F16: 2.0**15, BF16: 2.0**127, F32: 2.0**127, F64: 2.0**1023}


@pytest.mark.parametrize("element", LARGE, ids=str)
def test_what_is_too_large_is_infinite_unless_rounded_towards_zero(element: Scalar) -> None:
    dtype = dtype_of(element)
    most = float((np.finfo(dtype) if element is not BF16 else _Brain).max)
    modes = MODES if element.bits >= 32 else ("rn",)
    for name, mode in product(OPS, modes):
        for sign in (1.0, -1.0):
            x = Tensor(np.array([sign * LARGE[element]]).astype(dtype))
            two = Tensor(np.array([2.0]).astype(dtype))
            operands = {
                "fadd": (x, x), "fsub": (x, Tensor(-x.data)), "fmul": (x, two),
                "fdiv": (x, Tensor(np.array([0.5]).astype(dtype))), "fma": (x, two, x),
            }[name]  # fmt: skip
            (got,) = MACHINE.elementwise(name, *operands, rounding=mode).data.astype(np.float64)
            stays = mode == "rz" or mode == ("rm" if sign > 0 else "rp")
            assert got == sign * (most if stays else np.inf), (name, mode, sign)


class _Brain:
    max = (2 - 2.0**-7) * 2.0**127


@pytest.mark.parametrize("mode", MODES)
def test_powers_of_two_are_reached_from_the_side_that_the_mode_says(mode: str) -> None:
    """Of f8e8m0; half way, to nearest, is up."""
    for exponent in (-127, -126, -3, 0, 5, 126):
        for mantissa in (1.0, 1 + 2.0**-40, 1.25, 1.5 - 2.0**-40, 1.5, 1.75, 2 - 2.0**-40):
            up = {"rp": mantissa > 1.0, "rn": mantissa >= 1.5}.get(mode, False)
            operand = Tensor(np.array([mantissa * 2.0**exponent]))
            for saturate in (False, True):
                got = MACHINE.convert("fpcast", operand, F8E8M0, rounding=mode, saturate=saturate)
                assert float(got.data[0]) == 2.0 ** (exponent + up), (exponent, mantissa)
    wrong = Tensor(np.array([0.0, -1.0, -np.inf, np.nan]))
    got = MACHINE.convert("fpcast", wrong, F8E8M0, rounding=mode, saturate=False).data
    assert np.isnan(got.astype(np.float64)).all()


@pytest.mark.parametrize("element", [F32, F64], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_the_sign_of_zero(element: Scalar, mode: str) -> None:
    """That of a multiplication or division is of its operands; that of an addition of both, else
    minus only when rounding down (IEEE 754-2019 6.3)."""
    numbers = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5]
    for x in numbers:
        for y in numbers:
            a, b = (Tensor(np.array([n]).astype(dtype_of(element))) for n in (x, y))
            for name in ("fadd", "fsub", "fmul", "fdiv"):
                other = -y if name == "fsub" else y
                (got,) = MACHINE.elementwise(name, a, b, rounding=mode).data
                if got != 0:
                    continue
                same = math.copysign(1, x) == math.copysign(1, other)
                negative = math.copysign(1, x) < 0 if same else mode == "rm"
                if name in ("fmul", "fdiv"):
                    negative = not same
                assert bool(np.signbit(got)) == negative, (name, x, y)


REAL = {
    "fadd": lambda x, y: x + y, "fsub": lambda x, y: x - y, "fmul": lambda x, y: x * y,
    "fdiv": lambda x, y: x / y,
}  # fmt: skip


@for_each("element", [F32, F64])
@for_each("name", REAL)
def test_rounded_up_and_down_the_real_result_is_between_neighbours(
    name: str, element: Scalar
) -> None:
    rng = np.random.default_rng(6)
    x, y = (rng.standard_normal(40) * 2.0 ** rng.integers(-9, 9, 40) for _ in range(2))
    a, b = (v.astype(dtype_of(element)) for v in (x, y))
    low, high, near, cut = (
        MACHINE.elementwise(name, Tensor(a), Tensor(b), rounding=mode).data
        for mode in ("rm", "rp", "rn", "rz")
    )
    for i in range(40):
        real = REAL[name](Fraction(float(a[i])), Fraction(float(b[i])))
        below, above = Fraction(float(low[i])), Fraction(float(high[i]))
        assert below <= real <= above
        assert high[i] == (
            low[i] if below == real else np.nextafter(low[i], low.dtype.type(np.inf))
        )
        nearest = min((below, above), key=lambda n, real=real: abs(n - real))
        assert abs(Fraction(float(near[i])) - real) == abs(nearest - real)
        assert cut[i] == (low[i] if real > 0 else high[i])


@pytest.mark.parametrize("mode", MODES)
def test_the_smallest_power_of_two_stands_for_what_is_smaller(mode: str) -> None:
    """f8e8m0 has no zero, and 2^-127 for all that is positive and below."""
    operand = Tensor(np.array([2.0**-127, 2.0**-128, 2.0**-140, 2.0**-1074]))
    result = MACHINE.convert("fpcast", operand, F8E8M0, rounding=mode, saturate=False).data
    assert result.view(np.uint8).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("element", [F16, F32, F64], ids=str)
def test_a_sum_of_negative_zeros_is_negative(element: Scalar) -> None:
    dtype = dtype_of(element)
    numbers = np.array([[-0.0, 1.0, -0.0], [0.0, -1.0, -0.0], [-0.0, 1.0, 0.0], [2.0, 3.0, -6.0]])
    a, b, c = (Tensor(x.astype(dtype)) for x in numbers.T)
    result = MACHINE.elementwise("fma", a, b, c).data
    assert (result == 0).all()
    assert np.signbit(result).tolist() == [True, True, False, False]


@for_each("count", range(1, 70))
@for_each("element", [F16, BF16, F32, F64])
def test_only_negative_zeros_alone_add_up_to_one(element: Scalar, count: int) -> None:
    """However many: by rows, by columns, and under a predicate, whose other lanes are 0."""
    dtype = dtype_of(element)
    zeros = np.full((count, 2), -0.0, dtype)
    zeros[count // 3, 1] = 0.0
    op = lookup("reduce")
    for axis, data in ((0, zeros), (1, np.ascontiguousarray(zeros.T))):
        result = MACHINE.reduce((Tensor(data),), axis, "fadd", op).data
        assert (result == 0).all()
        assert np.signbit(result).tolist() == [True, False]
    under = Machine()
    under.active = np.signbit(zeros)
    result = under.reduce((Tensor(zeros),), 0, "fadd", op)
    assert np.signbit(result.data)[~lanes_of(result)].all()


@for_each("mode", MODES)
@for_each("element", [F32, F64])
def test_a_multiplication_beyond_the_range_is_no_infinity(element: Scalar, mode: str) -> None:
    """What is added to it may be one, of the other sign."""
    dtype = dtype_of(element)
    most = np.finfo(dtype).max
    a, b, c = np.array([[most, 3, -np.inf], [most, -3, np.inf], [np.inf, 3, -np.inf]], dtype).T
    result = MACHINE.elementwise("fma", *map(Tensor, (a, b, c)), rounding=mode).data
    np.testing.assert_array_equal(result, np.array([-np.inf, np.inf, np.nan], dtype))
