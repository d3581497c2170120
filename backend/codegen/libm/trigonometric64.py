"""Trigonometric functions and their inverses in f64: the algorithms of
`tileir.machine.trigonometric` (after fdlibm, Sun Microsystems 1993)."""

from __future__ import annotations

from tileir.backend.codegen.libm.double_word import Pair
from tileir.backend.codegen.libm.expression import (
    Term,
    branch,
    copysign,
    flip_sign,
    fma,
    horner,
    nan,
    near_inverse_root,
    nearest_integer,
    quotient,
    reciprocal,
    sign_bit,
    where,
)
from tileir.backend.codegen.libm.payne_hanek import reduce64
from tileir.types import F64, I32

_TWO_OVER_PI = 6.36619772367581382433e-01
_PI_HALVES = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""Half of pi in three parts of 53 bits."""
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
    quadrant, y = reduce(x)
    return where(x.same(0.0), x, _by_quadrant(quadrant, y))


def cos(x: Term) -> Term:
    """Cosine."""
    quadrant, y = reduce(x)
    return _by_quadrant(quadrant + 1, y)


def tan(x: Term) -> Term:
    """Tangent."""
    quadrant, y = reduce(x)
    s, c = _sin(y), _cos(y)
    swap = (quadrant & 1).same(1)
    value = quotient(where(swap, -c, s), where(swap, s, c))
    return where(x.same(0.0), x, value)


def _by_quadrant(quadrant: Term, y: Term) -> Term:
    value = where((quadrant & 1).same(1), _cos(y), _sin(y))
    return flip_sign(value, (quadrant & 2).same(2))


def _sin(y: Term) -> Term:
    """The sine for |y| up to pi / 4."""
    z = y * y
    return fma(z * y, horner(z, _S), y)


def _cos(y: Term) -> Term:
    """The cosine for |y| up to pi / 4."""
    z = y * y
    return fma(z, fma(z, horner(z, _C), -0.5), 1.0)


def reduce(x: Term) -> tuple[Term, Term]:
    """Quadrant (its low two bits) and remainder in -pi/4 to pi/4 within 1 ulp. The first part of
    pi/2 is subtracted exactly: the difference is small, and a multiple of the last place. The third
    part matters only where the first two cancel."""
    usual = abs(x) < _LARGE
    k, near = nearest_integer(x, _TWO_OVER_PI)
    r = x
    for part in _PI_HALVES:
        r = fma(k, -part, r)

    def large() -> tuple[Term, Term]:
        quadrant, (first, _) = reduce64(x)
        return quadrant, first

    quadrant, r = branch(~usual, (I32, F64), large, (near, r))
    return quadrant, r


# Inverses -------------------------------------------------------------------------------------

_ATAN = (
    -0.3333333333333333, 0.19999999999999554, -0.14285714285648404, 0.11111111107234799,
    -0.09090908969557403, 0.07692305354678655, -0.06666636435777692, 0.05882074956371294,
    -0.05261265735709454, 0.04752086773576656, -0.04308119655330471, 0.03872640214042632,
    -0.033750132001619734, 0.027567942297344678, -0.020238706986393514, 0.012756172907694298,
    -0.006575683344151699, 0.002622977891906089, -0.0007518472526973822, 0.0001368724853148122,
    -1.1832505417555692e-05,
)  # fmt: skip
"""(atan(t) / t - 1) / t^2 in t^2 up to 1, to 2^-54: interpolated at Chebyshev's nodes."""
_ASIN_P = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
_ASIN_Q = (
    1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip


def atan(x: Term) -> Term:
    """Arc tangent. For arguments above 1, that of the reciprocal."""
    size = abs(x)
    above = size > 1.0
    t = where(above, reciprocal(size.call("minimumnum", 1e300)), size)
    z = t * t
    near = fma(t * z, horner(z, _ATAN), t)
    value = where(above, 0.5 * _PI[0] - (near - 0.5 * _PI[1]), near)
    return where(nan(x), x, copysign(value, x))


def _rational(t: Term) -> Term:
    return quotient(t * horner(t, _ASIN_P), horner(t, _ASIN_Q))


def asin(x: Term) -> Term:
    """Arc sine. Above 0.5, pi/2 - 2 asin(s), where s is the root of (1 - magnitude) / 2."""
    size = abs(x)
    above = size >= 0.5
    t = where(above, fma(size, -0.5, 0.5), size * size)
    ratio = _rational(t)
    s, low = _root_of_half(t)
    rest = fma(s + s, ratio, fma(low, 2.0, -0.5 * _PI[1]))
    large = (0.5 * _PI[0] - (s + s)) - rest
    value = where(above, large, fma(size, ratio, size))
    return where(size >= 1e-9, copysign(value, x), x)


def acos(x: Term) -> Term:
    """Arc cosine."""
    size = abs(x)
    inner = size < 0.5
    z = where(inner, x * x, fma(size, -0.5, 0.5))
    ratio = _rational(z)
    middle = 0.5 * _PI[0] - (x - (0.5 * _PI[1] - x * ratio))
    s, low = _root_of_half(z)
    near = fma(ratio, s, low)
    left = _PI[0] - (s + (near - 0.5 * _PI[1])) * 2.0
    outer = where(sign_bit(x), left, (s + near) * 2.0)
    return where(inner, middle, outer)


def _root_of_half(t: Term) -> Pair:
    """The square root of 0 or a number from 2^-54 to 1/4, and what it misses; NaN of a negative
    number."""
    if t.thread.approximates:
        inverse = near_inverse_root(t + 2.0**-200)
        s = t * inverse
        return s, fma(-s, s, t) * (inverse * 0.5)
    s = t.call("sqrt")
    return s, fma(-s, s, t) / (s + s).call("maximumnum", 2.0**-200)


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
