"""Float kernels: numpy arrays in, one array out, NaNs canonical, every rounding the right one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tileir.machine import error_free
from tileir.machine.float_formats import BF16, F16, F32, F64, canonical, quiet_nans, round_to, widen
from tileir.machine.tensor import Array, from_raw, raw

Kernel = Callable[..., Array]

_NARROW = (F16, BF16)
_TINY = np.float32(2.0**-126)


def narrow(wide: Array, dtype: np.dtype[Any]) -> Array:
    """An f32 result of f16 or bf16 operands, rounded to their format."""
    return canonical(wide).astype(dtype)


def flush(data: Array) -> Array:
    """f32 with subnormals replaced by zeros of their sign."""
    return np.where(np.abs(data) < _TINY, np.copysign(np.float32(0), data), data)


def _arithmetic(near: Kernel, pair: Callable[..., error_free.Pair], real: Kernel) -> Kernel:
    """An operation rounded once: nearest by the CPU's own, other directions by its error."""

    def nearest(a: Array, b: Array) -> Array:
        if a.dtype not in _NARROW:
            return canonical(np.asarray(near(a, b)))
        return narrow(np.asarray(near(a.astype(F32), b.astype(F32))), a.dtype)

    def kernel(a: Array, b: Array, *, rounding: str = "rn", ftz: bool = False) -> Array:
        if ftz:
            a, b = flush(a), flush(b)
        if rounding == "rn":
            result = nearest(a, b)
        else:
            result = _compute_directed(a, b, rounding, near, pair, real)
        return flush(result) if ftz else result

    return kernel


def _compute_directed(
    a: Array, b: Array, mode: str, near: Kernel, pair: Callable[..., error_free.Pair], real: Kernel
) -> Array:
    """f32 or f64 `a` and `b` combined and rounded in a direction."""
    dtype, x, y = a.dtype, widen(a), widen(b)
    middle, error = map(np.asarray, pair(x, y))
    middle = np.asarray(near(x, y))
    special = ~np.isfinite(x) | ~np.isfinite(y) | ((y == 0) & (near is np.divide))
    error = np.where(special, 0.0, error)
    if near is np.add or near is np.subtract:
        middle = _sign_of_zero(middle, x, y if near is np.add else -y, mode)
    if dtype == F32:
        return round_to(error_free.odd(middle, error), F32, mode)
    wild = ~special & ~error_free.tame(x, y, middle)
    return canonical(
        _exactly(error_free.correct_direction(middle, error, mode), wild, real, mode, x, y)
    )


def _sign_of_zero(total: Array, x: Array, y: Array, mode: str) -> Array:
    """A sum that cancels is -0.0 when rounding down (IEEE 754-2019 6.3)."""
    if mode != "rm":
        return total
    positive = ~np.signbit(x) & ~np.signbit(y)
    return np.where((total == 0) & ~positive, -0.0, total)


def _exactly(near: Array, lanes: Array, real: Kernel, mode: str, *operands: Array) -> Array:
    """`near` with the results in `lanes` replaced by the exact result, rounded in the mode
    `mode`."""
    if not np.any(lanes):
        return near
    result = np.array(near)
    for lane in map(tuple, np.argwhere(lanes)):
        value: Any = real(*[Fraction(float(x[lane])) for x in operands])
        if value != 0:
            result[lane] = towards(value, mode)
    return result


def towards(value: Fraction, mode: str) -> float:
    """A fraction as f64, rounded in the mode `mode`."""
    near = error_free.nearest(value)
    error = (value - Fraction(near)) if np.isfinite(near) else -Fraction(int(np.sign(near)))
    if mode == "rn" or error == 0:
        return near
    down = mode == "rm" or (mode == "rz" and value > 0)
    if (error < 0) == down:
        return float(np.nextafter(near, -np.inf if down else np.inf))
    return near


def fma(a: Array, b: Array, c: Array, *, rounding: str = "rn", ftz: bool = False) -> Array:
    """`a * b + c`, rounded once."""
    if ftz:
        a, b, c = flush(a), flush(b), flush(c)
    x, y, z = widen(a), widen(b), widen(c)
    if a.dtype == F64:
        return canonical(_fma64(x, y, z, rounding))
    product = x * y
    total, error = map(np.asarray, error_free.two_sum(product, z))
    error = np.where(np.isfinite(total), error, 0.0)
    total = _sign_of_zero(total, product, z, rounding)
    result = round_to(error_free.odd(total, error), a.dtype, rounding)
    return flush(result) if ftz else result


def _fma64(x: Array, y: Array, z: Array, mode: str) -> Array:
    product, finite_product = x * y, np.isfinite(x) & np.isfinite(y)
    # A product that overflows is no infinity that another one could cancel.
    total = np.where(finite_product & np.isinf(z), z, product + z)
    plain = _sign_of_zero(total, product, z, mode)
    finite = finite_product & np.isfinite(z)
    tame = error_free.tame(x, y, z, plain) & (plain != 0)
    if mode == "rn":
        plain = np.where(finite & tame, error_free.fma(x, y, z), plain)
        wild = finite & ~tame
    else:
        wild = finite
    return _exactly(plain, wild, lambda a, b, c: a * b + c, mode, x, y, z)


def sqrt(a: Array) -> Array:
    """Square root, rounded once."""
    if a.dtype in _NARROW:
        return narrow(np.sqrt(a.astype(F32)), a.dtype)
    return canonical(np.asarray(np.sqrt(a)))


def frem(a: Array, b: Array) -> Array:
    """Remainder of truncated division: exact."""
    remainder = np.fmod(widen(a), widen(b))
    return (
        canonical(np.asarray(remainder))
        if a.dtype == F64
        else round_to(np.asarray(remainder), a.dtype)
    )


# Signs, order ---------------------------------------------------------------------------------


def _sign(a: Array) -> Any:
    return np.array(1 << (8 * a.dtype.itemsize - 1), f"u{a.dtype.itemsize}")


def fneg(a: Array) -> Array:
    """The sign bit flipped."""
    return from_raw(np.asarray(raw(a) ^ _sign(a)), a.dtype)


def fabs(a: Array) -> Array:
    """The sign bit cleared."""
    return from_raw(np.asarray(raw(a) & ~_sign(a)), a.dtype)


def copysign(a: Array, b: Array) -> Array:
    """Bits of `a` with the sign bit of `b`."""
    return from_raw(np.asarray((raw(a) & ~_sign(a)) | (raw(b) & _sign(b))), a.dtype)


def _extreme(compare: Kernel, zeros: Kernel) -> Kernel:
    """Minimum or maximum; of two zeros the bits are combined by `zeros`."""

    def kernel(a: Array, b: Array) -> Array:
        narrowed = a.dtype in _NARROW
        chosen = compare(a.astype(F32), b.astype(F32)) if narrowed else compare(a, b)
        chosen = canonical(np.asarray(chosen))
        result = chosen.astype(a.dtype) if narrowed else chosen
        are_zero = (a == 0) & (b == 0)
        if are_zero.any():
            result = np.where(
                are_zero, from_raw(np.asarray(zeros(raw(a), raw(b))), a.dtype), result
            )
        return result

    return kernel


fminnum = _extreme(lambda a, b: np.fmin(quiet_nans(a), quiet_nans(b)), np.bitwise_or)
fmaxnum = _extreme(lambda a, b: np.fmax(quiet_nans(a), quiet_nans(b)), np.bitwise_and)


def clampf(value: Array, low: Array, high: Array, *, nan: str = "all") -> Array:
    """`value` between `low` and `high`."""
    result = fminnum(fmaxnum(value, low), high)
    return canonical(np.where(np.isnan(value), value, result)) if nan == "all" else result


# Rounding to integers -------------------------------------------------------------------------


def _integral(compute: Kernel) -> Kernel:
    def kernel(a: Array) -> Array:
        wide = a.astype(F32) if a.dtype in _NARROW else a
        return canonical(np.asarray(compute(wide))).astype(a.dtype, copy=False)

    return kernel


def half_away(a: Array) -> Array:
    """Nearest integer, halves away from zero."""
    truncated = np.trunc(a)
    step = np.abs(a - truncated) >= 0.5
    return np.copysign(np.abs(truncated) + step.astype(a.dtype), a)


KERNELS: dict[str, Kernel] = {
    "fadd": _arithmetic(np.add, error_free.two_sum, lambda a, b: a + b),
    "fsub": _arithmetic(np.subtract, lambda a, b: error_free.two_sum(a, -b), lambda a, b: a - b),
    "fmul": _arithmetic(np.multiply, error_free.two_product, lambda a, b: a * b),
    "fdiv": _arithmetic(np.divide, error_free.quotient, lambda a, b: a / b),
    "frem": frem,
    "fma": fma,
    "fneg": fneg,
    "fabs": fabs,
    "copysign": copysign,
    "fminimum": _extreme(np.minimum, np.bitwise_or),
    "fmaximum": _extreme(np.maximum, np.bitwise_and),
    "fminnum": fminnum,
    "fmaxnum": fmaxnum,
    "clampf": clampf,
    "sqrt": sqrt,
    "floor": _integral(np.floor),
    "ceil": _integral(np.ceil),
    "ftrunc": _integral(np.trunc),
    "fround": _integral(half_away),
    "frint": _integral(np.rint),
}
"""Kernels by mnemonic."""


def _ordered_compare(compute: Kernel) -> Kernel:
    return lambda a, b: compute(a, b) & ~_is_unordered(a, b)


def _or_nan(compute: Kernel) -> Kernel:
    return lambda a, b: compute(a, b) | _is_unordered(a, b)


def _is_unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


RELATIONS: dict[str, Kernel] = {
    "false": lambda a, b: np.zeros(a.shape, np.bool_),
    "true": lambda a, b: np.ones(a.shape, np.bool_),
    "ord": lambda a, b: ~_is_unordered(a, b),
    "uno": _is_unordered,
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": _ordered_compare(np.not_equal),
    "ueq": _or_nan(np.equal),
    "ugt": _or_nan(np.greater),
    "uge": _or_nan(np.greater_equal),
    "ult": _or_nan(np.less),
    "ule": _or_nan(np.less_equal),
    "une": np.not_equal,
}
"""Float relations by the word of `fcmp`."""
