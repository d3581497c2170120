"""Float formats, and rounding into them from f64 in any direction.

Rounding twice is not rounding once. Sums, products, quotients and square roots of formats with
p bits may pass through one with at least 2p + 2 bits (Figueroa 1995), so f16 and bf16 work in
f32. Everything else reaches `round_to` in f64 either exactly or rounded to odd (`exact.odd`),
from where any rounding to a format of 51 bits or fewer is the right one (Boldo and Melquiond
2008).
"""

from __future__ import annotations

from typing import Any

import attrs
import ml_dtypes
import numpy as np

from tileir.machine.tensor import Array

F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
BF16 = np.dtype(ml_dtypes.bfloat16)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


@attrs.frozen
class FloatFormat:
    """A binary format: bits of its significand after the point, exponents of its smallest and
    largest normal number, its largest number, what it has beyond numbers, its quiet NaN."""

    dtype: np.dtype[Any]
    mantissa: int
    low: int
    high: int
    largest: float
    infinity: bool
    nan: int | None


def _format(dtype: Any, mantissa: int, high: int, largest: float, **fields: Any) -> FloatFormat:
    low = fields.pop("low", 1 - high)
    return FloatFormat(np.dtype(dtype), mantissa, low, high, largest, **fields)


FORMATS: dict[np.dtype[Any], FloatFormat] = {
    f.dtype: f
    for f in (
        _format(ml_dtypes.float4_e2m1fn, 1, 2, 6.0, low=0, infinity=False, nan=None),
        _format(ml_dtypes.float8_e4m3fn, 3, 8, 448.0, low=-6, infinity=False, nan=0x7F),
        _format(ml_dtypes.float8_e5m2, 2, 15, 57344.0, infinity=True, nan=0x7E),
        _format(F16, 10, 15, 65504.0, infinity=True, nan=0x7E00),
        _format(BF16, 7, 127, (2 - 2**-7) * 2.0**127, infinity=True, nan=0x7FC0),
        _format(F32, 23, 127, (2 - 2**-23) * 2.0**127, infinity=True, nan=0x7FC00000),
        _format(F64, 52, 1023, 1.7976931348623157e308, infinity=True, nan=0x7FF8 << 48),
    )
}
"""Every format but f8e8m0, which has no sign and no zero, by dtype."""

_TO_INTEGER = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is one of the float formats."""
    return dtype in FORMATS or dtype == E8M0


def widen(data: Array) -> Array:
    """`data` exactly, as f64."""
    return data if data.dtype == F64 else data.astype(F64)


def quiet_nans(a: Array) -> Array:
    """`a` with every NaN a quiet one: numpy's `fmin` and `fmax` make NaN of a signalling NaN and a
    number, as IEEE 754-2008 had it."""
    wrong = np.isnan(a)
    return np.where(wrong, np.asarray(np.nan, a.dtype), a) if wrong.any() else a


def canonical(data: Array) -> Array:
    """`data` with every NaN replaced by the format's quiet NaN, so that no result depends on
    which operand's payload a CPU keeps."""
    nan = np.isnan(data)
    if not np.count_nonzero(nan):
        return data
    return np.where(nan, _quiet(data.dtype), data)


def _quiet(dtype: np.dtype[Any]) -> Any:
    bits = FORMATS[dtype].nan
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)


def round_to(
    exact: Array, dtype: np.dtype[Any], mode: str = "rn", *, saturate: bool = False
) -> Array:
    """f64 numbers rounded once into a format of at most 51 bits; `mode` is rn, rz, rm or rp.

    `saturate` maps infinities and overflow to the largest number of their sign.
    """
    if dtype == E8M0:
        return _powers(exact, mode, saturate)
    form = FORMATS[dtype]
    if mode == "rn" and not saturate and dtype == F32:
        return canonical(exact.astype(F32))
    rounded = _on_grid(exact, form, mode)
    rounded = _saturate_overflow(rounded, exact, form, mode, saturate)
    if form.nan is None:
        return np.where(np.isnan(rounded), form.largest, rounded).astype(dtype)
    return _with_nans(rounded, dtype)


def _with_nans(rounded: Array, dtype: np.dtype[Any]) -> Array:
    nan = np.isnan(rounded)
    if not nan.any():
        return rounded.astype(dtype)
    return np.where(nan, _quiet(dtype), np.where(nan, 0.0, rounded).astype(dtype))


def _on_grid(exact: Array, form: FloatFormat, mode: str) -> Array:
    """The neighbour of each number that `mode` chooses on the format's grid, unbounded above."""
    exponent = np.frexp(exact)[1] - 1
    unit = np.maximum(exponent, form.low) - form.mantissa
    steps = _TO_INTEGER[mode](np.ldexp(exact, -unit))
    return np.where(np.isfinite(exact), np.ldexp(steps, unit), exact)


def _saturate_overflow(
    rounded: Array, exact: Array, form: FloatFormat, mode: str, saturate: bool
) -> Array:
    """The result for numbers beyond the largest finite one: infinity, NaN in a format without
    infinity, or the largest finite number if the mode rounds towards it."""
    over = np.abs(rounded) > form.largest
    if not over.any():
        return rounded
    stays = np.zeros(over.shape, np.bool_)
    if mode != "rn":
        towards = {"rz": True, "rm": exact > 0, "rp": exact < 0}[mode]
        stays = np.isfinite(exact) & towards
    if saturate or form.nan is None:
        stays = over
    beyond = np.inf if form.infinity else np.nan
    limit = np.where(stays, form.largest, beyond)
    return np.where(over, np.copysign(limit, rounded), rounded)


def _powers(exact: Array, mode: str, saturate: bool) -> Array:
    """Rounding to f8e8m0: powers of two from -127 to 127, NaN for all that is not positive."""
    mantissa, exponent = np.frexp(exact)
    up = {"rn": mantissa >= 0.75, "rp": mantissa > 0.5}.get(mode, np.False_)
    power = np.maximum(exponent - 1 + up, -127)
    positive = exact > 0
    valid = positive & (power <= 127) & np.isfinite(exact)
    bits = np.where(valid, power + 127, 255)
    if saturate:
        bits = np.where(positive & ~valid, 254, bits)
        bits = np.where(exact <= 0, 0, bits)
    return bits.astype(np.uint8).view(E8M0)
