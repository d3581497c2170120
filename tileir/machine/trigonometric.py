"""Trigonometric functions and their inverses, in f64, after fdlibm (Sun Microsystems 1993).

Arguments are reduced by pi/2 in four parts; those of 2^20 and more, one by one, by an integer
multiple of 2/pi of 1,300 bits (Payne and Hanek 1983).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tileir.machine.error_free import Pair, two_sum
from tileir.machine.exponential import horner
from tileir.machine.tensor import Array

_TWO_OVER_PI = 6.36619772367581382433e-01
_PI_HALVES = (
    1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21,
    8.47842766036889956997e-32,
)  # fmt: skip
_LARGE = 2.0**20
_S = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_C = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
PI = (3.141592653589793, 1.2246467991473532e-16)


def sin(x: Array) -> Array:
    """Sine."""
    quadrant, (y, tail) = reduce(x)
    value = np.where(quadrant & 1, _cos(y, tail), _sin(y, tail))
    value = np.where(quadrant & 2, -value, value)
    return np.where(np.isinf(x), np.nan, np.where(np.abs(x) < 1e-9, x, value))


def cos(x: Array) -> Array:
    """Cosine."""
    quadrant, (y, tail) = reduce(x)
    value = np.where(quadrant & 1, _sin(y, tail), _cos(y, tail))
    value = np.where((quadrant + 1) & 2, -value, value)
    return np.where(np.isinf(x), np.nan, value)


def tan(x: Array) -> Array:
    """Tangent."""
    quadrant, (y, tail) = reduce(x)
    s, c = _sin(y, tail), _cos(y, tail)
    swap = (quadrant & 1) != 0
    value = np.where(swap, -c, s) / np.where(swap, s, c)
    return np.where(np.isinf(x), np.nan, np.where(np.abs(x) < 1e-9, x, value))


def _sin(y: Array, tail: Array) -> Array:
    z = y * y
    v = z * y
    r = horner(z, _S[1:])
    return y - ((z * (0.5 * tail - v * r) - tail) - v * _S[0])


def _cos(y: Array, tail: Array) -> Array:
    z = y * y
    r = z * horner(z, _C)
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * r - y * tail))


def reduce(x: Array) -> tuple[Array, Pair]:
    """Quadrant (mod 4) and remainder in -pi/4 to pi/4 as an unevaluated sum."""
    usual = np.abs(x) < _LARGE
    bounded = np.where(usual, x, 0.0)
    k = np.rint(bounded * _TWO_OVER_PI)
    high, low = two_sum(bounded - k * _PI_HALVES[0], -(k * _PI_HALVES[1]))
    high, more = two_sum(high, -(k * _PI_HALVES[2]))
    high, low = two_sum(high, low + more - k * _PI_HALVES[3])
    quadrant = k.astype(np.int64) & 3
    large = ~usual & np.isfinite(x)
    if large.any():
        quadrant, high, low = (np.array(v) for v in (quadrant, high, low))
        for lane in map(tuple, np.argwhere(large)):
            quadrant[lane], high[lane], low[lane] = _reduce_large(float(x[lane]))
    return quadrant, (np.where(np.isnan(x), x, high), low)


_BITS = 1300


@cache
def _pi() -> int:
    """pi times 2^1300, by Machin's formula."""
    one = 1 << (_BITS + 32)
    return (16 * _arc_cotangent(5, one) - 4 * _arc_cotangent(239, one)) >> 32


def _arc_cotangent(n: int, one: int) -> int:
    term = total = one // n
    divisor, sign = 1, 1
    while term:
        term //= n * n
        divisor, sign = divisor + 2, -sign
        total += sign * (term // divisor)
    return total


def _reduce_large(x: float) -> tuple[int, float, float]:
    numerator, denominator = abs(x).as_integer_ratio()
    quarters = (numerator << (2 * _BITS + 1)) // (_pi() * denominator)
    quadrant = (quarters + (1 << (_BITS - 1))) >> _BITS
    fraction = (quarters - (quadrant << _BITS)) * _pi() >> (_BITS + 1)
    high = fraction / (1 << _BITS)
    low = (fraction - int(high * 2.0**200) * (1 << (_BITS - 200))) / (1 << _BITS)
    return (quadrant & 3, high, low) if x > 0 else (-quadrant & 3, -high, -low)


# Inverses -------------------------------------------------------------------------------------

_ATAN_HIGH = np.array(
    [4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01,
     1.57079632679489655800e00, 0.0]
)  # fmt: skip
_ATAN_LOW = np.array(
    [2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17,
     6.12323399573676603587e-17, 0.0]
)  # fmt: skip
_AT = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
    -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
    6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
    -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip
_ASIN_P = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
_ASIN_Q = (
    1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip


def atan(x: Array) -> Array:
    """Arc tangent."""
    size = np.abs(x)
    interval = np.digitize(size, (0.4375, 0.6875, 1.1875, 2.4375)) - 1
    mild = np.minimum(size, 1e300)
    t = np.select(
        [interval == 0, interval == 1, interval == 2, interval == 3],
        [(2.0 * mild - 1.0) / (2.0 + mild), (mild - 1.0) / (mild + 1.0),
         (mild - 1.5) / (1.0 + 1.5 * mild), -1.0 / np.maximum(mild, 1.0)],
        mild,
    )  # fmt: skip
    z = t * t
    tail = z * horner(z, _AT)
    value = _ATAN_HIGH[interval] - ((t * tail - _ATAN_LOW[interval]) - t)
    return np.where(np.isnan(x) | (size < 1e-9), x, np.copysign(value, x))


def _rational(t: Array) -> Array:
    return t * horner(t, _ASIN_P) / horner(t, _ASIN_Q)


def asin(x: Array) -> Array:
    """Arc sine."""
    size = np.abs(x)
    near = np.minimum(size, 0.5)
    small = near + near * _rational(near * near)
    t = 0.5 * (1.0 - np.clip(size, 0.5, 1.0))
    s = np.sqrt(t)
    high = _short(s)
    correction = (t - high * high) / np.where(s == 0, 1.0, s + high)
    p = 2.0 * s * _rational(t) - (6.12323399573676603587e-17 - 2.0 * correction)
    quarter = 0.25 * PI[0]
    large = quarter - (p - (quarter - 2.0 * high))
    value = np.where(size < 0.5, small, large)
    value = np.where(size > 1.0, np.nan, value)
    return np.where(np.isnan(x) | (size < 1e-9), x, np.copysign(value, x))


def acos(x: Array) -> Array:
    """Arc cosine."""
    size = np.abs(x)
    near = np.clip(x, -0.5, 0.5)
    middle = 0.5 * PI[0] - (near - (0.5 * PI[1] - near * _rational(near * near)))
    z = 0.5 * (1.0 - np.clip(size, 0.5, 1.0))
    s = np.sqrt(z)
    high = _short(s)
    correction = (z - high * high) / np.where(s == 0, 1.0, s + high)
    right = 2.0 * (high + (_rational(z) * s + correction))
    left = PI[0] - 2.0 * (s + (_rational(z) * s - 0.5 * PI[1]))
    value = np.where(size < 0.5, middle, np.where(x > 0, right, left))
    return np.where(size > 1.0, np.nan, np.where(np.isnan(x), x, value))


def _short(s: Array) -> Array:
    """The upper 21 bits of the significand."""
    return (np.asarray(s).view(np.int64) & ~0xFFFFFFFF).view(np.float64)


def atan2(y: Array, x: Array) -> Array:
    """Angle of the point (x, y)."""
    are_infinite = np.isinf(x) & np.isinf(y)
    dividend, divisor = (
        np.where(are_infinite, 1.0, np.abs(y)),
        np.where(are_infinite, 1.0, np.abs(x)),
    )
    ratio = np.where((divisor == 0) & (dividend == 0), 0.0, dividend / divisor)
    z = atan(ratio)
    angle = np.where(np.signbit(x), PI[0] - (z - PI[1]), z)
    angle = np.copysign(angle, y)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, angle)
