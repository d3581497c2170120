"""The exact remainder of a division, in f32 and f64."""

from __future__ import annotations

from tileir.backend.codegen.libm.expression import (
    Term,
    branch,
    copysign,
    fma,
    reciprocal,
    repeat,
    where,
)
from tileir.types import F32

_NEAR = {True: 2.0**22, False: 2.0**51}
"""Below this a quotient is exact in one step."""
_FAR = {True: (2.0**100, 15), False: (2.0**1000, 43)}
"""A power of two that quotients stay below, and steps enough for the whole range of exponents."""


def remainder(x: Term, y: Term) -> Term:
    """x - y trunc(x / y), with the sign of x (C's fmod): exact.

    Every step subtracts the divisor times the truncated rounded quotient. The remainder is a
    multiple of the divisor's last place and smaller than the dividend by about the bits of a
    significand, so that one fused multiply-add computes it exactly; it may be negative.
    """
    single = x.element is F32
    a, b = abs(x), abs(y)
    if single and x.thread.approximates:
        return _by_inverse(x, a, b)
    far = a >= b * _NEAR[single]
    (long,) = branch(far, (x.element,), lambda: [_long(a, b, *_FAR[single])])
    result = where(far, long, _step(a, b))
    result = where(result < 0.0, result + b, result)
    value = where(a < b, x, copysign(result, x))
    valid = (a < float("inf")) & (b > 0.0)
    return where(valid, value, float("nan"))


_BELOW = 2.0**20
"""Quotients that a product with the approximate inverse gives to less than one."""


def _by_inverse(x: Term, a: Term, b: Term) -> Term:
    """The remainder from an approximate inverse of the divisor.

    The quotient is increased by more than its error, so that it is exact or too large by one.
    Operands that are not finite or not close, and divisors with a subnormal inverse, take a branch
    with exact divisions.
    """
    ratio = a * reciprocal(b)
    near = (ratio < _BELOW) & (b < 2.0**126)
    quotient = fma(ratio, 2.0**-21, ratio).call("trunc")
    result = fma(-quotient, b, a)
    result = where(result < 0.0, result + b, result)

    def far() -> list[Term]:
        exact = _long(a, b, *_FAR[True])
        exact = where(exact < 0.0, exact + b, exact)
        exact = where(a < b, a, where(b > 0.0, exact, float("nan")))
        return [exact]

    (result,) = branch(~near, (F32,), far, [result])
    return copysign(result, x)


def _long(a: Term, b: Term, power: float, steps: int) -> Term:
    """The remainder, possibly minus `b`, computed in many steps, with multiples of `b` where the
    quotient would overflow."""
    large = b * power
    huge = large * power

    def step(dividend: Term) -> Term:
        size = abs(dividend)
        divisor = where(size >= large, where(size >= huge, huge, large), b)
        return _step(dividend, divisor)

    return repeat(steps, a, step)


def _step(a: Term, b: Term) -> Term:
    return fma(-(a / b).call("trunc"), b, a)
