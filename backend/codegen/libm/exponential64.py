"""Exponentials, logarithms and hyperbolic functions in f64.

The algorithms are those of `tileir.machine.exponential` (after fdlibm, Sun Microsystems 1993),
with fused multiply-add where it saves an operation or an error.
"""

from __future__ import annotations

from tileir.backend.codegen.libm.double_word import (
    Pair,
    constant,
    fast_sum,
    plus,
    times,
    two_product,
    two_sum,
)
from tileir.backend.codegen.libm.exponential32 import finite_exponent, power_cases
from tileir.backend.codegen.libm.expression import (
    Term,
    clamp,
    copysign,
    fma,
    horner,
    ldexp,
    nan,
    power_of_two,
    where,
)

_PER_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_PER_LN2_PAIR = (1.4426950408889634, 2.0355273740931033e-17)
_PER_LN10_PAIR = (0.4342944819032518, 1.098319650216765e-17)
_LOG10_2_PAIR = (0.3010299956639812, -2.8037281277851704e-18)
_P = (
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
    -1.65339022054652515390e-06, 4.13813679705723846039e-08,
)  # fmt: skip
_LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_ODD = tuple(2.0 / n for n in range(5, 35, 2))
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_SQRT_HALF = 0x3FE6A09E667F3BCD
"""Bits of sqrt(1/2)."""


def core(high: Term, low: Term) -> Term:
    """exp(high + low) - 1 for |high| below 0.35."""
    r = high + low
    square = r * r
    c = fma(-square, horner(square, _P), r)
    return high + (low + (r * c) / (2.0 - c))


def reduce_argument(x: Term) -> tuple[Term, Term, Term]:
    """n, integer-valued, and x - n ln 2 in two parts, for |x| below 1100."""
    n = (x * _PER_LN2).call("rint")
    high, low = two_sum(fma(n, -_LN2_HIGH, x), n * -_LN2_LOW)
    return n, high, low


def exp_of_pair(high: Term, low: Term, shift: int = 0) -> Term:
    """exp(high + low) 2^shift, 0 or infinite from |high| = 800 on."""
    bounded = clamp(high, -800.0, 800.0)
    n, reduced, error = reduce_argument(bounded)
    low = where(bounded.same(high), low, 0.0)
    return ldexp(core(reduced, error + low) + 1.0, n.to_integer() + shift)


def exp(x: Term) -> Term:
    """e^x."""
    return where(nan(x), x, exp_of_pair(x, x.like(0.0)))


def exp2(x: Term) -> Term:
    """2^x."""
    bounded = clamp(x, -1100.0, 1100.0)
    n = bounded.call("rint")
    reduced = bounded - n
    high, low = two_product(reduced, x.like(LN2[0]))
    value = ldexp(core(high, fma(reduced, LN2[1], low)) + 1.0, n.to_integer())
    return where(nan(x), x, value)


def expm1(x: Term) -> Term:
    """e^x - 1."""
    bounded = clamp(x, -50.0, 800.0)
    n, reduced, error = reduce_argument(bounded)
    near = core(reduced, error)
    exponent = n.to_integer()
    back = power_of_two(-where(exponent > 1000, exponent.like(1000), exponent))
    value = ldexp((1.0 - back) + near, exponent)
    value = where(n.same(0.0), where(x.same(0.0), x, near), value)
    return where(nan(x), x, value)


# Logarithms -----------------------------------------------------------------------------------


def _parts(x: Term) -> tuple[Term, Term]:
    """m from sqrt(1/2) to sqrt(2) and integer-valued k with x = m 2^k, for positive finite x."""
    tiny = x < 2.2250738585072014e-308
    bits = where(tiny, x * 18014398509481984.0, x).bits()
    k = (bits - _SQRT_HALF) >> 52
    m = (bits - (k << 52)).real()
    return m, where(tiny, k - 54, k).floating()


def valid(x: Term, value: Term) -> Term:
    """`value` where `x` is positive and finite; the limits of a logarithm elsewhere."""
    value = where(x.same(0.0), float("-inf"), value)
    value = where(x < 0.0, value.like(float("nan")), value)
    return where(nan(x) | x.same(float("inf")), x, value)


def _series(f: Term) -> tuple[Term, Term]:
    """`s (f^2/2 + R)` and `f^2/2` of fdlibm's log for 1 + f from sqrt(1/2) to sqrt(2)."""
    s = f / (f + 2.0)
    z = s * s
    half = f * 0.5 * f
    return s * fma(z, horner(z, _LG), half), half


def log(x: Term) -> Term:
    """Natural logarithm."""
    m, k = _parts(x)
    f = m - 1.0
    tail, half = _series(f)
    return valid(x, fma(k, _LN2_HIGH, -((half - fma(k, _LN2_LOW, tail)) - f)))


def log1p(x: Term) -> Term:
    """Natural logarithm of 1 + x."""
    u = x + 1.0
    m, k = _parts(u)
    lost = where(x >= 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    none = k.same(0.0)
    f = where(none, x, m - 1.0)
    tail, half = _series(f)
    correction = fma(k, _LN2_LOW, where(none, lost.like(0.0), lost))
    value = fma(k, _LN2_HIGH, -((half - (tail + correction)) - f))
    return valid(u, where(abs(x) < 1e-17, x, value))


def log_pair(x: Term) -> tuple[Pair, Term]:
    """Logarithm of the m of x = m 2^k as a pair good for 64 bits, and k."""
    m, k = _parts(x)
    f = m - 1.0
    top, bottom = two_sum(f, f.like(2.0))
    high = f / top
    remainder = fma(-high, top, f) - high * bottom
    s = fast_sum(high, remainder / top)
    z = times(s, s)
    tail = (z[0] * horner(z[0], _ODD), f.like(0.0))
    cubic = times(times(s, z), plus(constant(f, _TWO_THIRDS), tail))
    return plus((s[0] + s[0], s[1] + s[1]), cubic), k


def log2(x: Term) -> Term:
    """Logarithm to base 2."""
    mantissa, k = log_pair(x)
    value, _ = plus((k, k.like(0.0)), times(mantissa, constant(k, _PER_LN2_PAIR)))
    return valid(x, value)


def log10(x: Term) -> Term:
    """Logarithm to base 10."""
    mantissa, k = log_pair(x)
    exponent_log = times((k, k.like(0.0)), constant(k, _LOG10_2_PAIR))
    value, _ = plus(exponent_log, times(mantissa, constant(k, _PER_LN10_PAIR)))
    return valid(x, value)


# Powers ---------------------------------------------------------------------------------------


def pow_(x: Term, y: Term) -> Term:
    """x^y, special cases as in C."""
    size = abs(x)
    infinity = float("inf")
    usual = (size > 0.0) & (size < infinity) & (abs(y) < infinity)
    base = where(usual, size, 1.0)
    exponent = where(usual, finite_exponent(y), 0.0)
    mantissa, k = log_pair(base)
    logarithm = plus(times((k, k.like(0.0)), constant(k, LN2)), mantissa)
    product = times(logarithm, (exponent, k.like(0.0)))
    rough = logarithm[0] * exponent
    huge = abs(rough) > 1000.0
    high = where(huge, copysign(rough.like(2000.0), rough), product[0])
    value = exp_of_pair(high, where(huge, product[1].like(0.0), product[1]))
    value = where(usual, value, _power_limits(size, y))
    return power_cases(x, y, where(x.compare("uno", y), x.like(float("nan")), value))


def _power_limits(size: Term, y: Term) -> Term:
    """|x|^y where x is 0 or infinite, or y is infinite."""
    grows = (size > 1.0) ^ (y > 0.0)
    value = where(grows, size.like(0.0), float("inf"))
    return where(size.same(1.0), 1.0, value)


# Hyperbolic functions -------------------------------------------------------------------------


def sinh(x: Term) -> Term:
    """Hyperbolic sine."""
    size = abs(x)
    t = expm1(size.call("minimumnum", 30.0))
    quotient = t / (t + 1.0)
    value = where(size < 1.0, (t + t) - t * quotient, t + quotient) * 0.5
    value = where(size > 22.0, exp_of_pair(size, size.like(0.0), -1), value)
    return where(nan(x) | (size < 1e-9), x, copysign(value, x))


def cosh(x: Term) -> Term:
    """Hyperbolic cosine."""
    size = abs(x)
    half = exp_of_pair(size, size.like(0.0), -1)
    t = expm1(size.call("minimumnum", 1.0))
    w = t + 1.0
    value = where(size < 0.3466, 1.0 + (t * t) / (w + w), half + 0.25 / half)
    return where(nan(x), x, value)


def tanh(x: Term) -> Term:
    """Hyperbolic tangent."""
    size = abs(x)
    double = size.call("minimumnum", 30.0) * 2.0
    t = expm1(where(size < 1.0, -double, double))
    value = where(size < 1.0, t, 2.0) / (t + 2.0)
    value = where(size < 1.0, value, 1.0 - value)
    return where(nan(x) | (size < 1e-9), x, copysign(value, x))


def asinh(x: Term) -> Term:
    """Inverse hyperbolic sine."""
    size = abs(x)
    mild = size.call("minimumnum", 1e9)
    root = fma(mild, mild, 1.0).call("sqrt")
    value = log1p(mild + (mild * mild) / (root + 1.0))
    value = where(size > 1e8, log(size) + LN2[0], value)
    return where(nan(x) | (size < 1e-9), x, copysign(value, x))


def acosh(x: Term) -> Term:
    """Inverse hyperbolic cosine."""
    t = clamp(x, 1.0, 1e9) - 1.0
    value = log1p(t + fma(t, t, t + t).call("sqrt"))
    value = where(x > 1e8, log(x) + LN2[0], value)
    return where(x < 1.0, x.like(float("nan")), where(nan(x), x, value))


def atanh(x: Term) -> Term:
    """Inverse hyperbolic tangent."""
    size = abs(x)
    t = size + size
    below = size < 0.5
    quotient = where(below, t * size, t) / (1.0 - size)
    value = log1p(where(below, t + quotient, quotient)) * 0.5
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(nan(x) | (size < 1e-9), x, copysign(value, x))


FUNCTIONS = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh,
    "atanh": atanh, "pow": pow_,
}  # fmt: skip
"""Functions by mnemonic."""
