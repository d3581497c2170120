"""Trigonometric functions and their inverses in f32.

Polynomials are minimax in relative error, as in `exponential32`. Arguments are reduced by pi/2 in
three parts (Cody and Waite 1980), those of 2^16 and more by the bits of 2/pi that matter (Payne
and Hanek, "Radian reduction for trigonometric functions", 1983).
"""

from __future__ import annotations

from tileir.backend.codegen.libm.exponential32 import reciprocal
from tileir.backend.codegen.libm.expression import (
    Term,
    branch,
    copysign,
    flipped,
    fma,
    horner,
    nan,
    sign_bit,
    where,
)
from tileir.backend.codegen.libm.payne_hanek import reduce32
from tileir.types import F32, I32

_SIN = (-0.16666655, 0.008332187, -0.00019517906)
_COS = (0.041666646, -0.001388731, 2.4432327e-05)
_ATAN = (
    -0.333333, 0.1999853, -0.14264014, 0.10950861, -0.08399209, 0.057878915, -0.031093631,
    0.010866363, -0.001782176,
)  # fmt: skip
_ASIN = (0.16666752, 0.074953064, 0.04546977, 0.02418081, 0.042166322)
_TWO_OVER_PI = 0.636619747
_PI_HALVES = (1.57079601287841796875, 3.13916473e-07, 5.39030253e-15)
_LARGE = 65536.0
PI, HALF_PI, QUARTER_PI = 3.14159274, 1.57079637, 0.785398185
_PI_LOW, _HALF_PI_LOW = -8.74227766e-08, -4.37113883e-08


def sin(x: Term) -> Term:
    """Sine."""
    quadrant, r = reduce(x)
    value = _by_quadrant(quadrant, r)
    return where(x.same(0.0), x, value)


def cos(x: Term) -> Term:
    """Cosine."""
    quadrant, r = reduce(x)
    return _by_quadrant(quadrant + 1, r)


def tan(x: Term) -> Term:
    """Tangent: sine over cosine."""
    quadrant, r = reduce(x)
    s, c = _sin(r), _cos(r)
    swap = (quadrant & 1).same(1)
    value = where(swap, -c, s) / where(swap, s, c)
    return where(x.same(0.0), x, value)


def _by_quadrant(quadrant: Term, r: Term) -> Term:
    value = where((quadrant & 1).same(1), _cos(r), _sin(r))
    return flipped(value, (quadrant & 2).same(2))


def _sin(r: Term) -> Term:
    square = r * r
    return fma(r * square, horner(square, _SIN), r)


def _cos(r: Term) -> Term:
    square = r * r
    return fma(square * square, horner(square, _COS), fma(square, -0.5, 1.0))


def reduce(x: Term) -> tuple[Term, Term]:
    """Quadrant (its low two bits) and remainder in about -pi/4 to pi/4; NaN for what is not
    finite."""
    usual = abs(x) < _LARGE
    argument = where(usual, x, 0.0)
    k = (argument * _TWO_OVER_PI).call("rint")
    r = fma(k, -_PI_HALVES[0], argument)
    r = fma(k, -_PI_HALVES[1], r)
    r = fma(k, -_PI_HALVES[2], r)
    far, rest = branch(~usual, (I32, F32), lambda: reduce32(x))
    return where(usual, k.whole(), far), where(usual, r, rest)


# Inverses -------------------------------------------------------------------------------------


def atan(x: Term) -> Term:
    """Arc tangent: of the reciprocal from 1 on."""
    size = abs(x)
    above = size >= 1.0
    near = _near_atan(where(above, reciprocal(size), size))
    value = where(above, HALF_PI - (near - _HALF_PI_LOW), near)
    return where(nan(x), x, copysign(value, x))


def _near_atan(t: Term) -> Term:
    """Arc tangent of 0 to 1."""
    square = t * t
    return fma(t * square, horner(square, _ATAN), t)


def atan2(y: Term, x: Term) -> Term:
    """Angle of the point (x, y): of the smaller over the larger, then by octant."""
    a, b = abs(y), abs(x)
    low, high = a.call("minimumnum", b), a.call("maximumnum", b)
    ratio = low / high
    positive = high > 0.0
    ratio = where(high.same(0.0), 0.0, where(low.same(high) & positive, ratio.like(1.0), ratio))
    near = _near_atan(ratio)
    angle = where((a >= b) & positive, HALF_PI - (near - _HALF_PI_LOW), near)
    angle = where(sign_bit(x), PI - (angle - _PI_LOW), angle)
    return where(y.compare("uno", x), y.like(float("nan")), copysign(angle, y))


def asin(x: Term) -> Term:
    """Arc sine: a polynomial to 1/2; above, pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    size = abs(x)
    root, near = _asin_parts(size)
    value = where(size > 0.5, _HALF_PI_LOW + (HALF_PI - (near + near)), near)
    value = where(size > 1.0, root.like(float("nan")), value)
    return where(nan(x), x, copysign(value, x))


def acos(x: Term) -> Term:
    """Arc cosine, by the same two."""
    size = abs(x)
    _, near = _asin_parts(size)
    double = near + near
    outer = where(sign_bit(x), PI - (double - _PI_LOW), double)
    inner = HALF_PI - (copysign(near, x) - _HALF_PI_LOW)
    value = where(size > 0.5, outer, inner)
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(nan(x), x, value)


def _asin_parts(size: Term) -> tuple[Term, Term]:
    """What the arc sine is taken of, and the arc sine of it."""
    above = size > 0.5
    square = where(above, fma(size, -0.5, 0.5), size * size)
    root = where(above, square.call("maximumnum", 0.0).call("sqrt"), size)
    return root, fma(root * square, horner(square, _ASIN), root)


FUNCTIONS = {
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2,
}  # fmt: skip
"""By mnemonic."""
