"""One rounding, in every direction, against exact rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Machine, Tensor, dtype_of
from tileir.machine.casts import from_integer
from tileir.types import BF16, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, F32, F64, Scalar

from .ops_exact import LAYOUT, round_fraction

MACHINE = Machine()

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"  # infinities, NaNs and overflow are among the operands on purpose
)
MODES = ("rn", "rz", "rm", "rp")
REAL: dict[str, Callable[..., Fraction]] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fmul": lambda a, b: a * b,
    "fdiv": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def bits(dtype: Any, count: int, seed: int) -> Any:
    """Finite numbers of any exponent: random bits."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << (8 * dtype.itemsize), count, dtype=np.uint64)
    data = raw.astype(f"u{dtype.itemsize}").view(dtype)
    return np.where(np.isfinite(data), data, dtype.type(1)).astype(dtype)


def near(data: Any, seed: int) -> Any:
    """Numbers of exponents near those of `data`, so that sums round."""
    rng = np.random.default_rng(seed)
    wide = data.astype(np.float64) * 2.0 ** rng.integers(-13, 13, data.shape)
    with np.errstate(all="ignore"):
        neighbours = (wide * rng.uniform(0.5, 2, data.shape)).astype(data.dtype)
    return np.where(np.isfinite(neighbours), neighbours, data)


def cases(element: Scalar) -> list[tuple[str, str]]:
    modes = MODES if element.bits >= 32 else ("rn",)
    return [(name, mode) for name in REAL for mode in modes]


@pytest.mark.slow
@pytest.mark.parametrize("element", [F16, BF16, F32, F64], ids=str)
def test_arithmetic_rounds_once(element: Scalar) -> None:
    dtype, count = dtype_of(element), 300
    for number, (name, mode) in enumerate(cases(element)):
        a = bits(dtype, count, number)
        b, c = near(a, number + 1), near(a, number + 2)
        b[::3] = bits(dtype, count, number + 3)[::3]
        operands = (a, b, c) if name == "fma" else (a, b)
        if name == "fma":
            c = near((a.astype(np.float64) * b.astype(np.float64)).astype(dtype), 5)
            operands = (a, b, np.where(np.isfinite(c), c, a).astype(dtype))
        got = MACHINE.elementwise(name, *map(Tensor, operands), rounding=mode).data
        check(name, mode, dtype, operands, got)


def check(name: str, mode: str, dtype: Any, operands: Any, got: Any) -> None:
    for lane in range(len(got)):
        items = [Fraction(float(x[lane])) for x in operands]
        if name == "fdiv" and items[1] == 0:
            continue
        real = REAL[name](*items)
        if real == 0:
            assert got[lane] == 0
            continue
        expected = round_fraction(real, dtype, mode)
        number = float(got[lane])
        assert number == expected and math.copysign(1, number) == math.copysign(1, expected), (
            name, mode, [float(x[lane]) for x in operands], number, expected)  # fmt: skip


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_square_roots_of_every_number(element: Scalar) -> None:
    dtype = dtype_of(element)
    every = np.arange(1 << 15, dtype=np.uint16).view(dtype)
    got = MACHINE.elementwise("sqrt", Tensor(every)).data.astype(np.float64)
    wide = every.astype(np.float64)
    up, down = (_step(got, dtype, s) for s in (1, -1))
    finite = np.isfinite(wide) & (wide > 0)
    middle_up, middle_down = (got + up) / 2, (got + down) / 2
    assert (wide <= middle_up**2)[finite].all() and (wide >= middle_down**2)[finite].all()


def _step(data: Any, dtype: Any, by: int) -> Any:
    raw = data.astype(dtype).view(np.uint16).astype(np.int32) + by
    return np.maximum(raw, 0).astype(np.uint16).view(dtype).astype(np.float64)


FORMATS = [F4E2M1, F8E4M3, F8E5M2, F16, BF16, F32]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_conversion_rounds_once(target: Scalar, mode: str) -> None:
    dtype = dtype_of(target)
    exponent_bits, mantissa = LAYOUT[dtype.name]
    rng = np.random.default_rng(7)
    scale = 2.0 ** rng.integers(
        -(1 << (exponent_bits - 1)) - mantissa, 1 << (exponent_bits - 1), 400
    )
    whole = rng.integers(1 << mantissa, 2 << mantissa, 400).astype(np.float64) / (1 << mantissa)
    half = 2.0 ** -(mantissa + 1) * rng.integers(0, 2, 400)
    sticky = 2.0**-45 * rng.integers(-1, 2, 400)
    data = (whole + half + sticky) * scale * rng.choice([-1.0, 1.0], 400)
    got = MACHINE.convert("fpcast", Tensor(data), target, rounding=mode, saturate=False).data
    for number, converted in zip(data, got, strict=True):
        expected = round_fraction(Fraction(float(number)), dtype, mode)
        assert same(float(converted), expected, target), (number, converted, expected)


def same(actual: float, expected: float, target: Scalar) -> bool:
    if math.isinf(expected) and target is F8E4M3:
        return math.isnan(actual)
    if math.isinf(expected) and target is F4E2M1:
        return actual == math.copysign(6.0, expected)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


@for_each(
    ("target", "data", "saturate", "expected"),
    [
        (F8E4M3, math.inf, True, 448.0),
        (F8E4M3, -1e9, True, -448.0),
        (F8E4M3, math.inf, False, math.nan),
        (F8E4M3, 464.0, False, 448.0),
        (F8E4M3, 464.1, False, math.nan),
        (F8E5M2, math.inf, False, math.inf),
        (F8E5M2, math.inf, True, 57344.0),
        (F8E5M2, 61440.0, False, math.inf),
        (F4E2M1, math.nan, False, 6.0),
        (F4E2M1, -math.inf, False, -6.0),
        (F8E8M0, 0.0, False, math.nan),
        (F8E8M0, 0.0, True, 2.0**-127),
        (F8E8M0, 3.0, False, 4.0),
        (F8E8M0, 2.9, False, 2.0),
        (F8E8M0, 1e39, False, math.nan),
        (F8E8M0, 1e39, True, 2.0**127),
        (F16, 65520.0, False, math.inf),
        (F16, 65519.9, False, 65504.0),
        (F16, 1e9, True, 65504.0),
        (F32, math.nan, True, math.nan),
    ],
)
def test_the_ends_of_formats(target: Scalar, data: float, saturate: bool, expected: float) -> None:
    value = Tensor(np.array([data]))
    got = MACHINE.convert("fpcast", value, target, rounding="rn", saturate=saturate).data
    np.testing.assert_array_equal(got.astype(np.float64), [expected])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", [F4E2M1, F8E4M3, F8E5M2, F8E8M0], ids=str)
@pytest.mark.parametrize("target", [F8E4M3, F8E5M2, F16, BF16, F32, F64], ids=str)
def test_every_small_float_converts(source: Scalar, target: Scalar) -> None:
    if source is target:
        return
    every = np.arange(1 << source.bits, dtype=np.uint8).view(dtype_of(source))
    got = MACHINE.convert("fpcast", Tensor(every), target, rounding="rn", saturate=False).data
    for number, converted in zip(every.astype(np.float64), got.astype(np.float64), strict=True):
        if not math.isfinite(number):
            assert math.isnan(converted) or converted == number
        elif number == 0:
            assert converted == 0 and np.signbit(converted) == np.signbit(number)
        else:
            expected = round_fraction(Fraction(number), dtype_of(target))
            assert same(converted, expected, target)


def test_f64_to_bf16_does_not_pass_through_f32() -> None:
    trap = np.array([1.0 + 2.0**-8 + 2.0**-40, 1.0 + 2.0**-8 - 2.0**-40])
    got = MACHINE.convert("fptrunc", Tensor(trap), BF16, rounding="rn", saturate=False).data
    assert got.astype(np.float64).tolist() == [1.0 + 2.0**-7, 1.0]


def test_small_quotients_of_bf16_survive_f32() -> None:
    """Among subnormals f32 has too few bits for the general theorem; every pair of significands
    at every exponent there shows that it has enough."""
    dtype, significands = dtype_of(BF16), np.arange(128.0, 256.0)
    a, b = (x.reshape(-1) for x in np.meshgrid(significands, significands))
    for exponent in range(120, 138):
        x, y = (a * 2.0**-60).astype(dtype), (b * 2.0 ** (exponent - 60)).astype(dtype)
        got = MACHINE.elementwise("fdiv", Tensor(x), Tensor(y)).data
        real = Tensor(a / b * 2.0**-exponent)
        once = MACHINE.convert("fpcast", real, BF16, rounding="rn", saturate=False).data
        np.testing.assert_array_equal(got.view(np.uint16), once.view(np.uint16))


def test_nans_are_canonical() -> None:
    payloads = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    one = Tensor(np.ones(3, np.float32))
    for name in ("fadd", "fsub", "fmul", "fdiv", "fminimum"):
        got = MACHINE.elementwise(name, Tensor(payloads), one).data
        assert (got.view(np.uint32) == 0x7FC00000).all(), name
    zero = Tensor(np.zeros(1, np.float32))
    assert MACHINE.elementwise("fdiv", zero, zero).data.view(np.uint32) == 0x7FC00000


def test_cancelling_sums_are_negative_zero_only_when_rounding_down() -> None:
    a, b = Tensor(np.array([1.0], np.float32)), Tensor(np.array([-1.0], np.float32))
    for mode in MODES:
        got = MACHINE.elementwise("fadd", a, b, rounding=mode).data
        assert bool(np.signbit(got)[0]) == (mode == "rm")


_PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""The digits of a significand, the implied one included (IEEE 754-2019, 3.6)."""


def _nearest(number: int, digits: int) -> int:
    """`number` rounded to so many binary digits, ties to even."""
    size = abs(number)
    excess = size.bit_length() - digits
    if excess <= 0:
        return number
    kept, rest = divmod(size, 1 << excess)
    half = 1 << (excess - 1)
    kept += rest > half or (rest == half and kept & 1)
    return (kept << excess) * (1 if number >= 0 else -1)


@pytest.mark.parametrize("integers", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("kind", [BF16, F16, F32, F64], ids=str)
def test_integers_are_rounded_once(integers, kind):
    """Sums of three powers of two: ties, and what is near them, at every size and of both signs."""
    limits, bits = np.iinfo(integers), np.iinfo(integers).bits
    sums = {
        sign * ((1 << a) + (1 << b) + low)
        for a in range(bits) for b in range(a + 1) for low in (-1, 0, 1) for sign in (1, -1)
    }  # fmt: skip
    numbers = sorted(n for n in {*sums, limits.min, limits.max} if limits.min <= n <= limits.max)
    to = dtype_of(kind)
    result = from_integer(np.array(numbers, integers), to)
    expected = [float(_nearest(n, _PRECISION[to.name])) for n in numbers]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, np.array(expected).astype(to))
