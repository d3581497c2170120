"""Exponentials, logarithms and what is made of them, in f64.

Argument reduction and rational approximations are those of fdlibm (Sun Microsystems 1993);
powers and logarithms to other bases go through double-double logarithms. Only additions,
multiplications, divisions and square roots of IEEE f64 are used: the bits are the same anywhere.
"""

from __future__ import annotations

import numpy as np

from tileir.machine.double_double import over, plus, times
from tileir.machine.error_free import Pair, two_product, two_sum
from tileir.machine.tensor import Array

LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_PER_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_PER_LN10 = (0.4342944819032518, 1.098319650216765e-17)
_LOG10_2 = (0.3010299956639812, -2.8037281277851704e-18)

_P = (
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
    -1.65339022054652515390e-06, 4.13813679705723846039e-08,
)  # fmt: skip
_LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_SQRT_HALF = 0.7071067811865476


def horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    """The polynomial whose `coefficients` rise from the constant."""
    total: Array = np.multiply(x, coefficients[-1])
    for c in coefficients[-2:0:-1]:
        total = (total + c) * x
    return total + coefficients[0]


def scale(x: Array, k: Array) -> Array:
    """`x` times 2^k for integer-valued f64 `k` of at most 2100 in size, rounded once."""
    half = np.floor(k * 0.5)
    return x * _power(half) * _power(k - half)


def _power(k: Array) -> Array:
    return ((np.asarray(k).astype(np.int64) + 1023) << 52).view(np.float64)


def _core(high: Array, low: Array) -> Array:
    """exp(high + low) - 1 for |high| below 0.35."""
    r = high + low
    t = r * r
    c = r - t * horner(t, _P)
    return high + (low + (r * c) / (2.0 - c))


def exp_pair(high: Array, low: Array) -> Array:
    """exp of an unevaluated sum."""
    bounded = np.clip(high, -800.0, 800.0)
    k = np.rint(bounded * _PER_LN2[0])
    reduced, error = two_sum(bounded - k * _LN2_HIGH, -(k * _LN2_LOW))
    low = np.where(bounded == high, low, 0.0)
    value = scale(1.0 + _core(reduced, error + low), k)
    return np.where(np.isnan(high), high, value)


def exp(x: Array) -> Array:
    """e^x."""
    bounded = np.clip(x, -800.0, 800.0)
    k = np.rint(bounded * _PER_LN2[0])
    high = bounded - k * _LN2_HIGH
    return scale(1.0 + _core(high, -(k * _LN2_LOW)), k)


def exp2(x: Array) -> Array:
    """2^x."""
    bounded = np.clip(x, -1100.0, 1100.0)
    k = np.rint(bounded)
    high, low = two_product(bounded - k, np.asarray(LN2[0]))
    return scale(1.0 + _core(high, low + (bounded - k) * LN2[1]), k)


def expm1(x: Array) -> Array:
    """e^x - 1."""
    bounded = np.clip(x, -50.0, 800.0)
    k = np.rint(bounded * _PER_LN2[0])
    reduced, error = two_sum(bounded - k * _LN2_HIGH, -(k * _LN2_LOW))
    near = _core(reduced, error)
    value = scale((1.0 - scale(np.ones_like(k), -np.minimum(k, 1000.0))) + near, k)
    return np.where(k == 0, np.where(x == 0, x, near), value)


# Logarithms -----------------------------------------------------------------------------------


def _parts(x: Array) -> tuple[Array, Array]:
    """`m` in [sqrt(1/2), sqrt(2)) and integer-valued `k` with x = m 2^k."""
    m, k = np.frexp(x)
    small = m < _SQRT_HALF
    return np.where(small, m * 2, m), (k - small).astype(np.float64)


def _valid(x: Array, value: Array) -> Array:
    """`value` where `x` is positive and finite; the limits elsewhere."""
    value = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, value))
    return np.where((x == np.inf) | np.isnan(x), x, value)


def _series(f: Array) -> tuple[Array, Array]:
    """`s (f^2/2 + R)` and `f^2/2` of fdlibm's log for 1 + f in [sqrt(1/2), sqrt(2))."""
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    return s * (half + z * horner(z, _LG)), half


def log(x: Array) -> Array:
    """Natural logarithm."""
    m, k = _parts(x)
    f = m - 1.0
    tail, half = _series(f)
    return _valid(x, k * _LN2_HIGH - ((half - (tail + k * _LN2_LOW)) - f))


def log1p(x: Array) -> Array:
    """Natural logarithm of 1 + x."""
    u = 1.0 + x
    m, k = _parts(u)
    lost = np.where(x >= 1, 1.0 - (u - x), x - (u - 1.0)) / u
    f = np.where(k == 0, x, m - 1.0)
    tail, half = _series(f)
    value = k * _LN2_HIGH - ((half - (tail + (k * _LN2_LOW + np.where(k == 0, 0.0, lost)))) - f)
    value = np.where(np.abs(x) < 1e-17, x, value)
    return _valid(u, value)


_ODD = tuple(2.0 / n for n in range(5, 35, 2))
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def log_pair(x: Array) -> tuple[Pair, Array]:
    """Logarithm of the m of x = m 2^k as an unevaluated sum good for 64 bits, and k."""
    m, k = _parts(x)
    f = m - 1.0
    nothing = np.zeros_like(f)
    s = over((f, nothing), two_sum(f, np.asarray(2.0)))
    z = times(s, s)
    series = plus(_pair(_TWO_THIRDS), (z[0] * horner(z[0], _ODD), nothing))
    cubic = times(times(s, z), series)
    return plus((2.0 * s[0], 2.0 * s[1]), cubic), k


def _pair(constant: tuple[float, float]) -> Pair:
    return np.asarray(constant[0]), np.asarray(constant[1])


def log2(x: Array) -> Array:
    """Logarithm to base 2."""
    mantissa, k = log_pair(x)
    high, low = plus((k, np.zeros_like(k)), times(mantissa, _pair(_PER_LN2)))
    return _valid(x, high + low)


def log10(x: Array) -> Array:
    """Logarithm to base 10."""
    mantissa, k = log_pair(x)
    exponent_log = times((k, np.zeros_like(k)), _pair(_LOG10_2))
    high, low = plus(exponent_log, times(mantissa, _pair(_PER_LN10)))
    return _valid(x, high + low)


# Powers ---------------------------------------------------------------------------------------


def power(x: Array, y: Array) -> Array:
    """x^y, special cases as in C."""
    size = np.abs(x)
    usual = np.isfinite(size) & (size > 0) & np.isfinite(y)
    base, exponent = np.where(usual, size, 1.0), np.where(usual, np.clip(y, -1e300, 1e300), 0.0)
    mantissa, k = log_pair(base)
    logarithm = plus(times((k, np.zeros_like(k)), _pair(LN2)), mantissa)
    product = times(logarithm, (exponent, np.zeros_like(exponent)))
    huge = np.abs(logarithm[0] * exponent) > 1000.0
    high = np.where(huge, np.sign(logarithm[0] * exponent) * 2000.0, product[0])
    value = exp_pair(high, np.where(huge, 0.0, product[1]))
    return _power_cases(x, y, np.where(usual, value, _limits(size, y)))


def _limits(size: Array, y: Array) -> Array:
    """|x|^y where x is 0 or infinite, or y is infinite."""
    value = np.where((size > 1) == (y > 0), np.inf, 0.0)
    return np.where((size == 1) & np.isinf(y), 1.0, value)


def _power_cases(x: Array, y: Array, value: Array) -> Array:
    is_integer = np.floor(y) == y
    is_odd = is_integer & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
    value = np.where(np.signbit(x) & is_odd, -value, value)
    value = np.where((x < 0) & np.isfinite(x) & ~is_integer & np.isfinite(y), np.nan, value)
    value = np.where(np.isnan(x) | np.isnan(y), np.nan, value)
    return np.where((x == 1) | (y == 0), 1.0, value)


# Hyperbolic functions -------------------------------------------------------------------------


def sinh(x: Array) -> Array:
    """Hyperbolic sine."""
    size = np.abs(x)
    t = expm1(np.minimum(size, 700.0))
    small = 2.0 * t - t * t / (t + 1.0)
    value = 0.5 * np.where(size < 1.0, small, t + t / (t + 1.0))
    value = np.where(size > 22.0, _half_exp(size), value)
    return np.where(size < 1e-9, x, np.copysign(value, x))


def cosh(x: Array) -> Array:
    """Hyperbolic cosine."""
    size = np.abs(x)
    e = exp(np.minimum(size, 700.0))
    t = expm1(np.minimum(size, 700.0))
    w = 1.0 + t
    value = np.where(size < 0.3466, 1.0 + (t * t) / (w + w), 0.5 * e + 0.5 / e)
    return np.where(size > 22.0, _half_exp(size), value)


def _half_exp(size: Array) -> Array:
    bounded = np.minimum(size, 800.0)
    k = np.rint(bounded * _PER_LN2[0])
    near = 1.0 + _core(bounded - k * _LN2_HIGH, -(k * _LN2_LOW))
    return np.where(np.isnan(size), size, scale(near, k - 1.0))


def tanh(x: Array) -> Array:
    """Hyperbolic tangent."""
    size = np.abs(x)
    up = expm1(2.0 * np.minimum(size, 30.0))
    down = expm1(-2.0 * np.minimum(size, 30.0))
    value = np.where(size < 1.0, -down / (down + 2.0), 1.0 - 2.0 / (up + 2.0))
    value = np.where(size > 22.0, 1.0, value)
    return np.where(np.isnan(x) | (size < 1e-9), x, np.copysign(value, x))


def asinh(x: Array) -> Array:
    """Inverse hyperbolic sine."""
    size = np.abs(x)
    mild = np.minimum(size, 1e9)
    t = mild * mild
    small = log1p(mild + t / (1.0 + np.sqrt(1.0 + t)))
    large = log(2.0 * mild + 1.0 / (np.sqrt(t + 1.0) + mild))
    value = np.where(size > 2.0, large, small)
    value = np.where(size > 1e8, log(size) + LN2[0], value)
    return np.where(size < 1e-9, x, np.copysign(value, x))


def acosh(x: Array) -> Array:
    """Inverse hyperbolic cosine."""
    mild = np.clip(x, 1.0, 1e9)
    t = mild - 1.0
    small = log1p(t + np.sqrt(2.0 * t + t * t))
    large = log(2.0 * mild - 1.0 / (mild + np.sqrt(mild * mild - 1.0)))
    value = np.where(x > 2.0, large, small)
    value = np.where(x > 1e8, log(np.maximum(x, 1.0)) + LN2[0], value)
    return np.where(x < 1.0, np.nan, np.where(np.isnan(x), x, value))


def atanh(x: Array) -> Array:
    """Inverse hyperbolic tangent."""
    size = np.abs(x)
    inside = np.minimum(size, 0.75)
    t = inside + inside
    small = 0.5 * log1p(t + t * inside / (1.0 - inside))
    large = 0.5 * log1p(2.0 * size / (1.0 - size))
    value = np.where(size < 0.5, small, large)
    value = np.where(size > 1.0, np.nan, np.where(size == 1.0, np.inf, value))
    return np.where(np.isnan(x) | (size < 1e-9), x, np.copysign(value, x))
