"""Trigonometric functions and their inverses in f64: the algorithms of
`tileir.machine.trigonometric` (after fdlibm, Sun Microsystems 1993)."""

from __future__ import annotations

from tileir.backend.codegen.libm.double_word import Pair, fast_sum, two_product, two_sum
from tileir.backend.codegen.libm.expression import (
    Term,
    branch,
    clamp,
    copysign,
    flip_sign,
    fma,
    horner,
    nan,
    nearest_integer,
    quotient,
    sign_bit,
    where,
)
from tileir.backend.codegen.libm.payne_hanek import reduce64
from tileir.types import F64, I32

_TWO_OVER_PI = 6.36619772367581382433e-01
_PI_HALVES = (1.57079632673412561417e00, 6.077100506506192e-11, 3.5215598651832e-27)
"""Half of pi: 33 bits, whose multiples by integers below 2^20 are exact, and twice 53."""
_LARGE = 2.0**20
_S = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_C = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
_PI = (3.141592653589793, 1.2246467991473532e-16)


def sin(x: Term) -> Term:
    """Sine."""
    quadrant, (y, tail) = reduce(x)
    return where(x.same(0.0), x, _by_quadrant(quadrant, y, tail))


def cos(x: Term) -> Term:
    """Cosine."""
    quadrant, (y, tail) = reduce(x)
    return _by_quadrant(quadrant + 1, y, tail)


def tan(x: Term) -> Term:
    """Tangent."""
    quadrant, (y, tail) = reduce(x)
    s, c = _sin(y, tail), _cos(y, tail)
    swap = (quadrant & 1).same(1)
    value = quotient(where(swap, -c, s), where(swap, s, c))
    return where(x.same(0.0), x, value)


def _by_quadrant(quadrant: Term, y: Term, tail: Term) -> Term:
    value = where((quadrant & 1).same(1), _cos(y, tail), _sin(y, tail))
    return flip_sign(value, (quadrant & 2).same(2))


def _sin(y: Term, tail: Term) -> Term:
    z = y * y
    v = z * y
    r = horner(z, _S[1:])
    return y - ((z * (tail * 0.5 - v * r) - tail) - v * _S[0])


def _cos(y: Term, tail: Term) -> Term:
    z = y * y
    r = z * horner(z, _C)
    half = z * 0.5
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * r - y * tail))


def reduce(x: Term) -> tuple[Term, Pair]:
    """Quadrant (its low two bits) and remainder in -pi/4 to pi/4 as a pair."""
    usual = abs(x) < _LARGE
    argument = where(usual, x, 0.0)
    k, near = nearest_integer(argument * _TWO_OVER_PI)
    above = fma(-k, _PI_HALVES[0], argument)
    multiple, beyond = two_product(k, k.like(_PI_HALVES[1]))
    high, low = two_sum(above, -multiple)
    high, low = fast_sum(high, fma(-k, _PI_HALVES[2], low - beyond))

    def large() -> tuple[Term, Term, Term]:
        quadrant, (first, second) = reduce64(x)
        return quadrant, first, second

    far, first, second = branch(~usual, (I32, F64, F64), large)
    return where(usual, near, far), (where(usual, high, first), where(usual, low, second))


# Inverses -------------------------------------------------------------------------------------

_ATAN_HIGH = (
    4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01,
    1.57079632679489655800e00,
)  # fmt: skip
_ATAN_LOW = (
    2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17,
    6.12323399573676603587e-17,
)  # fmt: skip
_AT = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
    -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
    6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
    -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip
_LIMITS = (0.4375, 0.6875, 1.1875, 2.4375)
_ASIN_P = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
_ASIN_Q = (
    1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip


def atan(x: Term) -> Term:
    """Arc tangent. The interval of the operand selects a quotient near 0."""
    size = abs(x)
    mild = size.call("minimumnum", 1e300)
    numerator, denominator = mild, mild.like(1.0)
    high, low = mild.like(0.0), mild.like(0.0)
    quotients = (
        (fma(mild, 2.0, -1.0), mild + 2.0), (mild - 1.0, mild + 1.0),
        (mild - 1.5, fma(mild, 1.5, 1.0)), (mild.like(-1.0), mild),
    )  # fmt: skip
    for limit, (above, below), first, second in zip(
        _LIMITS, quotients, _ATAN_HIGH, _ATAN_LOW, strict=True
    ):
        inside = size >= limit
        numerator = where(inside, above, numerator)
        denominator = where(inside, below, denominator)
        high, low = where(inside, high.like(first), high), where(inside, low.like(second), low)
    t = quotient(numerator, denominator)
    z = t * t
    tail = z * horner(z, _AT)
    value = high - ((t * tail - low) - t)
    return where(size >= 1e-9, copysign(value, x), x)


def _rational(t: Term) -> Term:
    return quotient(t * horner(t, _ASIN_P), horner(t, _ASIN_Q))


def asin(x: Term) -> Term:
    """Arc sine."""
    size = abs(x)
    near = size.call("minimumnum", 0.5)
    above = size >= 0.5
    t = where(above, (1.0 - clamp(size, 0.5, 1.0)) * 0.5, near * near)
    ratio = _rational(t)
    s = t.call("sqrt")
    high, low = _short(s, t)
    p = (s + s) * ratio - (6.12323399573676603587e-17 - (low + low))
    large = 0.25 * _PI[0] - (p - (0.25 * _PI[0] - (high + high)))
    value = where(above, large, fma(near, ratio, near))
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(size >= 1e-9, copysign(value, x), x)


def acos(x: Term) -> Term:
    """Arc cosine."""
    size = abs(x)
    near = clamp(x, -0.5, 0.5)
    inner = size < 0.5
    z = where(inner, near * near, (1.0 - clamp(size, 0.5, 1.0)) * 0.5)
    ratio = _rational(z)
    middle = 0.5 * _PI[0] - (near - (0.5 * _PI[1] - near * ratio))
    s = z.call("sqrt")
    high, low = _short(s, z)
    right = (high + fma(ratio, s, low)) * 2.0
    left = _PI[0] - (s + fma(ratio, s, -0.5 * _PI[1])) * 2.0
    value = where(inner, middle, where(x > 0.0, right, left))
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(nan(x), x, value)


def _short(s: Term, t: Term) -> Pair:
    """The root `s` of `t` in two parts: its upper 21 bits, and the rest."""
    high = (s.bits() & ~0xFFFFFFFF).real()
    low = fma(-high, high, t) / where(s.same(0.0), s.like(1.0), s + high)
    return high, low


def atan2(y: Term, x: Term) -> Term:
    """Angle of the point (x, y)."""
    a, b = abs(y), abs(x)
    infinity = float("inf")
    same_limit = (a.same(infinity) & b.same(infinity)) | (a.same(0.0) & b.same(0.0))
    zero = a.same(0.0)
    dividend = where(same_limit, where(zero, a.like(0.0), 1.0), a)
    divisor = where(same_limit, b.like(1.0), b)
    z = atan(dividend / divisor)
    angle = where(sign_bit(x), _PI[0] - (z - _PI[1]), z)
    angle = copysign(angle, y)
    return where(y.compare("uno", x), y.like(float("nan")), angle)


FUNCTIONS = {
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2,
}  # fmt: skip
"""Functions by mnemonic."""
