"""Literals hold exact bits; encoding rounds once, to nearest even."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.sizes import for_each
from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    Pointer,
    Scalar,
    Tile,
)
from tileir.values import Constant, constant, decode, encode

NUMPY = {
    F4E2M1: (np.uint8, ml_dtypes.float4_e2m1fn),
    F8E4M3: (np.uint8, ml_dtypes.float8_e4m3fn),
    F8E5M2: (np.uint8, ml_dtypes.float8_e5m2),
    F8E8M0: (np.uint8, ml_dtypes.float8_e8m0fnu),
    F16: (np.uint16, np.float16),
    BF16: (np.uint16, ml_dtypes.bfloat16),
}


@pytest.mark.parametrize("type_", NUMPY, ids=str)
def test_every_bit_pattern_decodes_as_ml_dtypes_says(type_: Scalar) -> None:
    bits_type, number_type = NUMPY[type_]
    patterns = np.arange(1 << type_.bits, dtype=np.uint32).astype(bits_type)
    with np.errstate(invalid="ignore"):
        numbers = patterns.view(number_type).astype(np.float64)
    for bits, number in zip(patterns.tolist(), numbers.tolist(), strict=True):
        decoded = decode(type_, bits)
        assert decoded == number or (math.isnan(number) and math.isnan(decoded))


@pytest.mark.parametrize("type_", [t for t in NUMPY if t is not F8E8M0], ids=str)
@given(number=st.floats(width=32, allow_nan=False))
def test_encode_rounds_as_ml_dtypes_does(type_: Scalar, number: float) -> None:
    bits_type, number_type = NUMPY[type_]
    with np.errstate(over="ignore"):
        expected = np.float32(number).astype(number_type)
    assert encode(type_, number) == int(expected.view(bits_type))


@for_each("type_", [*NUMPY, F32, F64])
@for_each("number", [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300])
def test_special_values_are_what_the_format_has_for_them(type_: Scalar, number: float) -> None:
    """NaN stays NaN where there is one, and infinity infinity; else it is NaN, or the largest."""
    decoded = decode(type_, encode(type_, number))
    number_type = {F32: np.float32, F64: np.float64}.get(type_) or NUMPY[type_][1]
    if type_ is F4E2M1 and not math.isfinite(number):
        assert abs(decoded) == 6.0
        return
    with np.errstate(over="ignore", invalid="ignore"):
        expected = float(np.float64(number).astype(number_type))
    assert decoded == expected or (math.isnan(decoded) and math.isnan(expected))


@pytest.mark.parametrize("power", [-127, -126, -1, 0, 1, 5, 126])
def test_powers_of_two_alone_are_the_nearest_ones_ties_up(power: int) -> None:
    """f8e8m0: up to half way to the next power down, from there on up."""
    one = math.ldexp(1.0, power)
    exponents = [
        encode(F8E8M0, one * x) - 127 - power for x in (1, 1.25, 1.4999, 1.5, 1.75, 1.9999, 2)
    ]
    assert exponents == [0, 0, 0, 1, 1, 1, 1]


def test_powers_of_two_end() -> None:
    """Zero, negative numbers and what is too large are NaN; what is too small is the smallest."""
    least, most = math.ldexp(1.0, -127), math.ldexp(1.0, 127)
    nan = (0.0, -1.0, math.inf, math.nan, most * 1.5, most * 2)
    assert [encode(F8E8M0, x) for x in nan] == [255] * 6
    assert [encode(F8E8M0, x) for x in (most, most * 1.25, most / 2)] == [254, 254, 253]
    assert [encode(F8E8M0, x) for x in (least, least / 2, least / 64)] == [0, 0, 0]


@given(st.floats())
def test_f64_keeps_every_bit(number: float) -> None:
    bits = encode(F64, number)
    assert bits == int(np.float64(number).view(np.uint64))
    assert np.float64(decode(F64, bits)).view(np.uint64) == bits


@given(st.floats(allow_nan=False))
def test_f32_rounds_once(number: float) -> None:
    with np.errstate(over="ignore"):
        expected = int(np.float64(number).astype(np.float32).view(np.uint32))
    assert encode(F32, number) == expected


@pytest.mark.parametrize(
    ("type_", "number", "bits"),
    [(I8, -1, 255), (I8, 255, 255), (I1, True, 1), (I64, -1, 2**64 - 1), (Pointer(F32), 0, 0)],
)
def test_integers_are_twos_complement(type_: Scalar, number: int, bits: int) -> None:
    assert encode(type_, number) == bits


@pytest.mark.parametrize(("type_", "number"), [(I8, 256), (I8, -129), (I1, 2), (I32, 2**32)])
def test_integers_must_fit(type_: Scalar, number: int) -> None:
    with pytest.raises(OverflowError, match="does not fit"):
        encode(type_, number)


def test_a_float_is_no_integer_literal() -> None:
    with pytest.raises(TypeError, match="not an integer"):
        encode(I32, 1.0)


def test_equality_is_of_bits() -> None:
    assert constant(F32, 0.0) != constant(F32, -0.0)
    assert constant(F32, math.nan) == constant(F32, math.nan)
    assert constant(Tile(I32, (4,)), 3) == Constant(Tile(I32, (4,)), 3)
    assert constant(I8, -1).value == -1
    assert constant(I1, 1).value is True
