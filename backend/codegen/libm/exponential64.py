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
    is_usual,
    ldexp,
    nan,
    nearest_integer,
    power_of_two,
    quotient,
    reciprocal,
    small_floating,
    where,
)
from tileir.types import F64

_PER_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_PER_LN2_PAIR = (1.4426950408889634, 2.0355273740931033e-17)
_PER_LN10_PAIR = (0.4342944819032518, 1.098319650216765e-17)
_LOG10_2_PAIR = (0.3010299956639812, -2.8037281277851704e-18)
_EXP = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.00833333333332614, 0.001388888888888375,
    0.00019841269874806302, 2.480158732553751e-05, 2.7557255418377935e-06, 2.755727365608672e-07,
    2.5105209441237487e-08, 2.0914681566952084e-09,
)  # fmt: skip
"""(e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, to 2^-60 (interpolated at the roots of a Chebyshev
polynomial)."""
_LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_ODD = (
    0.4, 0.28571428571428564, 0.22222222222228444, 0.18181818179652515, 0.1538461576181261,
    0.13333296483973292, 0.11766815303406082, 0.10456278375778207, 0.10762867423643212,
)  # fmt: skip
"""(2 atanh(s) / s - 2 - 2 z / 3) / z^2 as a polynomial in z = s^2 up to 0.0295, to 2^-55."""
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_SQRT_HALF = 0x3FE6A09E667F3BCD
"""Bits of sqrt(1/2)."""


def core(high: Term, low: Term) -> Term:
    """exp(high + low) - 1 for |high| below 0.35."""
    r = high + low
    return high + fma(r * r, horner(r, _EXP), low)


def reduce_argument(x: Term) -> tuple[Term, Term, Term]:
    """n, an i32, and x - n ln 2 in two parts, for |x| below 1100."""
    n, integer = nearest_integer(x, _PER_LN2)
    high = fma(n, -_LN2_HIGH, x)
    r = fma(n, -_LN2_LOW, high)
    return integer, r, fma(n, -_LN2_LOW, high - r)


def exp_of_pair(high: Term, low: Term, shift: int = 0) -> Term:
    """exp(high + low) 2^shift, 0 or infinite from |high| = 800 on."""
    n, reduced, error = reduce_argument(high)
    return _within_range(high, ldexp(core(reduced, error + low) + 1.0, n + shift))


def _within_range(x: Term, value: Term, most: float = 800.0) -> Term:
    """`value` for |x| below `most`; beyond, 0 or infinity; NaN for NaN."""
    return where(abs(x) < most, value, where(x < 0.0, 0.0, x + float("inf")))


def exp(x: Term) -> Term:
    """e^x."""
    n, high, low = reduce_argument(x)
    return _within_range(x, ldexp(core(high, low) + 1.0, n))


def exp2(x: Term) -> Term:
    """2^x."""
    rounded, n = nearest_integer(x)
    reduced = x - rounded
    high, low = two_product(reduced, x.like(LN2[0]))
    value = ldexp(core(high, fma(reduced, LN2[1], low)) + 1.0, n)
    return _within_range(x, value, 1100.0)


def expm1(x: Term) -> Term:
    """e^x - 1."""
    n, high, low = reduce_argument(clamp(x, -50.0, 800.0))
    near = core(high, low)
    back = power_of_two(-where(n > 1000, n.like(1000), n), F64)
    value = ldexp((1.0 - back) + near, n)
    value = where(n.same(0), where(x.same(0.0), x, near), value)
    return where(nan(x), x, value)


# Logarithms -----------------------------------------------------------------------------------


def _parts(x: Term) -> tuple[Term, Term]:
    """m from sqrt(1/2) to sqrt(2) and integer-valued k with x = m 2^k, for positive finite x."""
    tiny = x < 2.2250738585072014e-308
    bits = where(tiny, x * 18014398509481984.0, x).bits()
    k = (bits - _SQRT_HALF) >> 52
    m = (bits - (k << 52)).real()
    return m, small_floating(k) - where(tiny, x.like(54.0), 0.0)


def valid(x: Term, value: Term) -> Term:
    """`value` where `x` is positive and finite; the limits of a logarithm elsewhere."""
    value = where(x.same(0.0), float("-inf"), value)
    value = where(x < 0.0, value.like(float("nan")), value)
    return where(nan(x) | x.same(float("inf")), x, value)


def _series(f: Term) -> tuple[Term, Term]:
    """`s (f^2/2 + R)` and `f^2/2` of fdlibm's log for 1 + f from sqrt(1/2) to sqrt(2)."""
    s = quotient(f, f + 2.0)
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
    lost = where(x >= 1.0, 1.0 - (u - x), x - (u - 1.0))
    lost = lost * reciprocal(u) if x.thread.approximates else lost / u
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
    inverse = reciprocal(top)
    high = f * inverse
    remainder = fma(-high, top, f) - high * bottom
    s = fast_sum(high, remainder * inverse)
    z = times(s, s)
    tail = (z[0] * horner(z[0], _ODD), f.like(0.0))
    cubic = times(times(s, z), plus(constant(f, _TWO_THIRDS), tail))
    return plus((s[0] + s[0], s[1] + s[1]), cubic), k


def _log_to_base(x: Term, scale: tuple[float, float], step: tuple[float, float]) -> Term:
    """The logarithm of x = m 2^k as log(m) `scale` + k `step`; both are numbers in two parts."""
    m, k = _parts(x)
    f = m - 1.0
    tail, half = _series(f)
    high = f - half
    low = ((f - high) - half) + tail
    mantissa = high * scale[0]
    rest = fma(low, scale[0], fma(high, scale[1], fma(high, scale[0], -mantissa)))
    exponent = k * step[0]
    value, error = fast_sum(exponent, mantissa)
    rest = rest + fma(k, step[1], fma(k, step[0], -exponent))
    return valid(x, value + (error + rest))


def log2(x: Term) -> Term:
    """Logarithm to base 2."""
    return _log_to_base(x, _PER_LN2_PAIR, (1.0, 0.0))


def log10(x: Term) -> Term:
    """Logarithm to base 10."""
    return _log_to_base(x, _PER_LN10_PAIR, _LOG10_2_PAIR)


# Powers ---------------------------------------------------------------------------------------


def pow_(x: Term, y: Term) -> Term:
    """x^y, special cases as in C."""
    size = abs(x)
    usual = is_usual(size) & (abs(y) < float("inf"))
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
    part = quotient(t, t + 1.0)
    value = where(size < 1.0, (t + t) - t * part, t + part) * 0.5
    value = where(size > 22.0, exp_of_pair(size, size.like(0.0), -1), value)
    return where(size >= 1e-9, copysign(value, x), x)


def cosh(x: Term) -> Term:
    """Hyperbolic cosine."""
    size = abs(x)
    half = exp_of_pair(size, size.like(0.0), -1)
    inverse = quotient(half.like(0.25), half.call("minimumnum", 1e30))
    return where(nan(x), x, half + inverse)


def tanh(x: Term) -> Term:
    """Hyperbolic tangent."""
    size = abs(x)
    double = size.call("minimumnum", 30.0) * 2.0
    t = expm1(where(size < 1.0, -double, double))
    value = quotient(where(size < 1.0, t, 2.0), t + 2.0)
    value = where(size < 1.0, value, 1.0 - value)
    return where(size >= 1e-9, copysign(value, x), x)


def asinh(x: Term) -> Term:
    """Inverse hyperbolic sine."""
    size = abs(x)
    mild = size.call("minimumnum", 1e9)
    root = fma(mild, mild, 1.0).call("sqrt")
    value = log1p(mild + quotient(mild * mild, root + 1.0))
    value = where(size > 1e8, log(size) + LN2[0], value)
    return where(size >= 1e-9, copysign(value, x), x)


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
    bounded = (1.0 - size).call("maximumnum", 1e-30)
    part = quotient(where(below, t * size, t), bounded)
    value = log1p(where(below, t + part, part)) * 0.5
    value = where(size.same(1.0), float("inf"), value)
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(size >= 1e-9, copysign(value, x), x)


FUNCTIONS = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh,
    "atanh": atanh, "pow": pow_,
}  # fmt: skip
"""Functions by mnemonic."""
