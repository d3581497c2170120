"""Trigonometric functions and their inverses in f32.

Polynomials are minimax in relative error, as in `exponential32`. Arguments are reduced by pi/2 in
three parts (Cody and Waite 1980), those of 2^16 and more by the bits of 2/pi that matter (Payne
and Hanek, "Radian reduction for trigonometric functions", 1983).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileir.backend.codegen.libm.expression import (
    Function,
    Term,
    branch,
    copysign,
    fma,
    horner,
    nan,
    reciprocal,
    sign_bit,
    where,
)
from tileir.backend.codegen.libm.payne_hanek import reduce32
from tileir.types import F32, I32

_SIN = (-0.16666655, 0.008332187, -0.00019517906)
_COS = (0.041666646, -0.001388731, 2.4432327e-05)
_TAN = (0.333331555, 0.13338834, 0.0534083843, 0.0244406182, 0.00310284924, 0.00939566363)
"""tan(r) / r - 1 in r^2, divided by r^2."""
_ATAN = (
    -0.333333, 0.1999853, -0.14264014, 0.10950861, -0.08399209, 0.057878915, -0.031093631,
    0.010866363, -0.001782176,
)  # fmt: skip
_ASIN = (0.166670144, 0.0748509616, 0.0466879979, 0.0185084585, 0.051208932)
_TWO_OVER_PI = 0.636619747
_PI_HALVES = (1.57079601287841796875, 3.13916473e-07, 5.39030253e-15)
_LARGE = 65536.0
_ROUNDER = 12582912.0
PI, HALF_PI, QUARTER_PI = 3.14159274, 1.57079637, 0.785398185
_PI_LOW, _HALF_PI_LOW = -8.74227766e-08, -4.37113883e-08


def _cosine(quadrant: Term, r: Term) -> Term:
    return _sine(quadrant + 1, r)


def _sine(quadrant: Term, r: Term) -> Term:
    """The sine in even quadrants, the cosine in odd ones: one polynomial whose coefficients are
    selected. Zeros keep their sign, since the first product is +0 for both."""
    odd, square = (quadrant & 1).same(1), r * r
    total = where(odd, fma(square.like(_COS[2]), square, _COS[1]), _SIN[2])
    for in_odd, in_even in ((_COS[0], _SIN[1]), (-0.5, _SIN[0])):
        total = fma(total, square, where(odd, square.like(in_odd), in_even))
    start = where(odd, 1.0, r)
    value = fma(fma(square, start, 0.0), total, start)
    return (value.bits() ^ ((quadrant & 2) << 30)).real()


def _tangent(quadrant: Term, r: Term) -> Term:
    """The tangent: a polynomial in even quadrants, its negated reciprocal in odd ones."""
    square = r * r
    value = fma(square * r, horner(square, _TAN), r)
    return where((quadrant & 1).same(1), -reciprocal(value), value)


_OF_REDUCED: Mapping[str, Callable[[Term, Term], Term]] = {
    "sin": _sine, "cos": _cosine, "tan": _tangent,
}  # fmt: skip
"""Functions of the quadrant of the argument and the remainder, by mnemonic."""
_TOGETHER = 2
"""Arguments that share a branch: their remainders are in registers across it."""


def by_reduction(name: str, xs: Sequence[Term], *, small: bool = False) -> list[Term]:
    """`sin`, `cos` or `tan` of several arguments. One branch reduces all arguments of 2^16 and
    more, so that the instructions for several arguments overlap. `small` states that all arguments
    are below that or not finite."""
    finish = _OF_REDUCED[name]
    groups = (xs[i : i + _TOGETHER] for i in range(0, len(xs), _TOGETHER))
    reduce = reduce_near if small else reduce_all
    return [finish(*part) for group in groups for part in reduce(group)]


def reduce_near(xs: Sequence[Term]) -> list[tuple[Term, Term]]:
    """Quadrants (their low two bits) and remainders in about -pi/4 to pi/4 of arguments below 2^16;
    NaN for arguments that are not finite. The multiple of pi/2 is added to 1.5 2^23, whose last
    place is 1."""
    parts: list[tuple[Term, Term]] = []
    for x in xs:
        near = fma(x, _TWO_OVER_PI, _ROUNDER)
        k = near - _ROUNDER
        r = fma(k, -_PI_HALVES[0], x)
        r = fma(k, -_PI_HALVES[1], r)
        parts.append((near.bits(), fma(k, -_PI_HALVES[2], r)))
    return parts


def reduce_all(xs: Sequence[Term]) -> list[tuple[Term, Term]]:
    """The quadrants and remainders of any arguments."""
    near, usual = reduce_near(xs), [abs(x) < _LARGE for x in xs]
    some = usual[0]
    for other in usual[1:]:
        some = some & other

    def far() -> list[Term]:
        parts = zip(usual, near, map(reduce32, xs), strict=True)
        return [where(u, a, b) for u, *pairs in parts for a, b in zip(*pairs, strict=True)]

    otherwise = [part for pair in near for part in pair]
    reduced = branch(~some, (I32, F32) * len(xs), far, otherwise)
    return list(zip(reduced[::2], reduced[1::2], strict=True))


# Inverses -------------------------------------------------------------------------------------


def atan(x: Term) -> Term:
    """Arc tangent. For arguments of 1 and above, that of the reciprocal."""
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
    """The angle of the point (x, y): the arc tangent of the smaller coordinate over the larger one,
    adjusted by octant."""
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
    """Arc sine: a polynomial; above 0.5625, pi/2 - 2 asin(sqrt((1 - x) / 2)). Above 1 the argument
    of the root is negative, so the result is NaN."""
    above, near = _near_asin(x)
    value = where(above, fma(near, -2.0, HALF_PI) + _HALF_PI_LOW, near)
    return copysign(value, x)


def acos(x: Term) -> Term:
    """Arc cosine, by the same two formulas."""
    above, near = _near_asin(x)
    outer = where(sign_bit(x), fma(near, -2.0, PI) + _PI_LOW, near + near)
    inner = HALF_PI - (copysign(near, x) - _HALF_PI_LOW)
    return where(above, outer, inner)


def _near_asin(x: Term) -> tuple[Term, Term]:
    """Whether the magnitude of `x` is above 0.5625, and the arc sine of the magnitude, or, above
    0.5625, of the root of (1 - magnitude) / 2."""
    size = abs(x)
    above = size > 0.5625
    square = where(above, fma(size, -0.5, 0.5), x * x)
    of = where(above, _root_of_half(square), size)
    return above, fma(of * square, horner(square, _ASIN), of)


def _root_of_half(x: Term) -> Term:
    """The square root of 0 or a number from 2^-25 to 1/4; NaN of a negative number."""
    if not x.thread.approximates:
        return x.call("sqrt")
    inverse = (x + 2.0**-100).ptx("rsqrt.approx.ftz.f32")
    near = x * inverse
    return fma(fma(-near, near, x), inverse * 0.5, near)


def _alone(name: str) -> Function:
    return lambda x: by_reduction(name, [x])[0]


FUNCTIONS: Mapping[str, Function] = {
    **{name: _alone(name) for name in _OF_REDUCED},
    "asin": asin, "acos": acos, "atan": atan, "atan2": atan2,
}  # fmt: skip
"""Functions by mnemonic."""
