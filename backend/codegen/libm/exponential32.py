"""Exponentials, logarithms and hyperbolic functions in f32.

Polynomials are minimax in relative error (Lawson's iteration, with coefficients rounded to f32 one
after the other). The error of each is stated in ulp of the function's result. Argument reductions
are those of Cody and Waite ("Software Manual for the Elementary Functions", 1980). If the target
has approximate instructions (`Thread.approximates`), they compute powers, reciprocals and roots:
`ex2.approx` within 2 ulp, `rcp.approx` within 1 (PTX ISA, "Floating-Point Instructions").
"""

from __future__ import annotations

from tileir.backend.codegen.libm.double_word import fast_sum
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
    where,
)
from tileir.types import F32

_PER_LN2 = 1.44269504
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
_LN2 = 0.693147182
_LOG2E = (1.442695, 1.925963e-08)
"""log2(e) in two parts."""
_EXP = (0.49999997, 0.16666542, 0.04166743, 0.008366875, 0.0013871863)
"""(e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, to 0.25 ulp of e^r - 1."""
_LOG = (
    -0.49999988, 0.33333322, -0.25001603, 0.20002206, -0.1660887, 0.14177437, -0.13240016,
    0.12929803, -0.07659546,
)  # fmt: skip
"""(ln(1 + f) - f) / f^2 for 1 + f from sqrt(1/2) to sqrt(2), to 0.1 ulp."""
_LOG2 = (
    -0.72134733, 0.4808982, -0.36069867, 0.28857142, -0.23956735, 0.20448658, -0.19139083,
    0.18708819, -0.1102559,
)  # fmt: skip
_LOG10 = (
    -0.21714719, 0.14476478, -0.10858089, 0.08686871, -0.0721233, 0.061558347, -0.05755757,
    0.05628913, -0.033308346,
)  # fmt: skip
_SQRT_HALF = 0x3F3504F3
"""Bits of sqrt(1/2)."""


def reduce_argument(x: Term) -> tuple[Term, Term]:
    """n, an i32, and x - n ln 2, for |x| below 150."""
    n, integer = nearest_integer(x, _PER_LN2)
    r = fma(n, -_LN2_HIGH, x)
    return integer, fma(n, -_LN2_LOW, r)


def near_exp(r: Term) -> Term:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return fma(r * r, horner(r, _EXP), r)


def root(x: Term) -> Term:
    """The square root of 0 or a finite number above 2^-100, within 1 ulp: `sqrt.rn` takes a branch
    for subnormals."""
    if not x.thread.approximates:
        return x.call("sqrt")
    inverse = x.call("maximumnum", 2.0**-100).ptx("rsqrt.approx.ftz.f32")
    near = x * inverse
    return fma(fma(-near, near, x), inverse * 0.5, near)


def exp_scaled(x: Term) -> Term:
    """e^x for |x| below 150; with approximate instructions for all x."""
    if x.thread.approximates:
        return exp_by_instruction(x)
    n, r = reduce_argument(x)
    return ldexp(near_exp(r) + 1.0, n)


def exp_by_instruction(x: Term, x_low: Term | None = None) -> Term:
    """e^(x + rest) in 8 instructions, where `x_low` is the rest: 2^r 2^n with x log2(e) = n + r. n
    is clamped to -126 to 126 by a saturated FMA, and r is from 0 to 1 unless n was clamped.
    Subnormal results are therefore rounded once, large ones overflow, and a NaN stays. A number
    that is larger than n by 1.5 2^23 has n + 127 in its low byte. The error is 0.2 ulp more than
    that of the instruction on numbers from 0 to 1."""
    unit = x.ptx("fma.rn.sat.f32", 1.442695 / 252, 0.5)
    low = unit.ptx("fma.rm.f32", 252.0, 12582913.0)
    n = low - 12583039.0
    r = fma(x, _LOG2E[0], -n)
    r = fma(x, _LOG2E[1], r)
    if x_low is not None:
        r = fma(x_low, _LOG2E[0], r)
    power = (low.bits() << 23).real()
    return r.ptx("ex2.approx.ftz.f32") * power


def exp(x: Term) -> Term:
    """e^x within 1 ulp, or, with approximate instructions, within 1 ulp of the rounded result of
    `ex2.approx`. x is clamped to a range whose ends overflow and underflow."""
    if x.thread.approximates:
        return exp_by_instruction(x)
    return where(nan(x), x, exp_scaled(clamp(x, -105.0, 90.0)))


def exp2(x: Term) -> Term:
    """2^x within 1 ulp, exact for integers: the difference from the nearest one is exact.
    `ex2.approx` may be 2 ulp off the rounded result, more than the op's bound."""
    clamped = clamp(x, -151.0, 129.0)
    n = clamped.call("rint")
    value = ldexp(near_exp((clamped - n) * _LN2) + 1.0, n.to_integer())
    return where(nan(x), x, value)


def expm1(x: Term) -> Term:
    """e^x - 1: twice 2^(n - 1) (e^r - 1) + (2^(n - 1) - 1/2), since 2^n might overflow."""
    n, r = reduce_argument(x.call("maximum", -18.0).call("minimum", 89.0))
    half = power_of_two(n - 1)
    value = fma(near_exp(r), half, half - 0.5)
    return copysign(value + value, x)


# Logarithms -----------------------------------------------------------------------------------


LEAST_NORMAL = 2.0**-126


def mantissa(x: Term, normal: bool = False) -> tuple[Term, Term]:
    """f and integer-valued e with x = (1 + f) 2^e and 1 + f from sqrt(1/2) to sqrt(2), for
    positive finite x. `normal` states that x is not subnormal."""
    tiny = None if normal else x < LEAST_NORMAL
    bits = (x if tiny is None else where(tiny, x * 8388608.0, x)).bits()
    power = (bits - _SQRT_HALF) & ~0x7FFFFF
    f = (bits - power).real() - 1.0
    if tiny is None:
        return f, power.floating() * 2.0**-23
    return f, fma(power.floating(), 2.0**-23, where(tiny, x.like(-23.0), 0.0))


def _or_limit(x: Term, value: Term, normal: bool = False) -> Term:
    """`value` where `x` is positive and finite; elsewhere its logarithm: -inf for zeros, inf for
    inf, and NaN. The limits are computed by FMAs, which have eight times the throughput of the
    logarithm instruction. `normal` states that x is not 0."""
    infinity = float("inf")
    value = where(x.bits().compare("ult", 0x7F800000), value, fma(x, infinity, infinity))
    return value if normal else where(x.same(0.0), -infinity, value)


def log(x: Term, normal: bool = False) -> Term:
    """Natural logarithm, within 1 ulp. `normal` states that x is at least `LEAST_NORMAL` or NaN, as
    in the other logarithms."""
    f, e = mantissa(x, normal)
    near = fma(f * f, horner(f, _LOG), f)
    return _or_limit(x, fma(e, _LN2, near), normal)


def log2(x: Term, normal: bool = False) -> Term:
    """Logarithm to base 2: log2(e) in two parts."""
    f, e = mantissa(x, normal)
    near = fma(f, 1.442695, f * fma(f, horner(f, _LOG2), 1.925963e-08))
    return _or_limit(x, e + near, normal)


def log10(x: Term, normal: bool = False) -> Term:
    """Logarithm to base 10: log10(e) and log10(2) in two parts."""
    f, e = mantissa(x, normal)
    near = fma(f, 0.4342945, f * fma(f, horner(f, _LOG10), -1.010305e-08))
    return _or_limit(x, fma(e, 0.301025390625, fma(e, 4.6050389811952e-06, near)), normal)


def log1p(x: Term) -> Term:
    """Natural logarithm of 1 + x, which has the sign of x."""
    return copysign(_or_limit(x + 1.0, near_log1p(x)), x)


def near_log1p(x: Term) -> Term:
    """ln(1 + x) for x above -1: with 1 + x = m 2^e, m - 1 is x 2^-e + (2^-e - 1). Where e is not 0,
    x is at least 1/4 in magnitude, so that the first product is a subtraction from its exponent;
    2^(2 - e) is normal up to e = 128."""
    power = ((x + 1.0).bits() - _SQRT_HALF) & ~0x7FFFFF
    scaled, quadruple = (x.bits() - power).real(), (0x40800000 - power).real()
    f = scaled + fma(quadruple, 0.25, -1.0)
    near = fma(f * f, horner(f, _LOG), f)
    e = power.floating()
    return fma(e, _LN2_HIGH * 2.0**-23, fma(e, _LN2_LOW * 2.0**-23, near))


# Hyperbolic functions -------------------------------------------------------------------------

_SINH = (0.16666667, 0.0083333105, 0.00019842896, 2.7822132e-06)
_TANH = (-0.33333316, 0.13332546, -0.053847857, 0.02105254, -0.006246141)


def sinh(x: Term) -> Term:
    """Hyperbolic sine: a polynomial below 1, exponentials above."""
    size = abs(x)
    square = x * x
    small = fma(x * square, horner(square, _SINH), x)
    quarter = _quarter_exp(size)
    large = fma(quarter, 2.0, reciprocal(quarter) * -0.125)
    return where(size >= 1.0, copysign(large, x), small)


def _quarter_exp(size: Term) -> Term:
    """e^size / 4 within 1 ulp for a magnitude: 2^(n - 2) is normal, or infinite where e^size / 2
    is."""
    n, r = reduce_argument(size.call("minimumnum", 90.0))
    power = power_of_two(n - 2)
    return (near_exp(r) + 1.0) * power


def cosh(x: Term) -> Term:
    """Hyperbolic cosine, from e^|x| / 4."""
    quarter = _quarter_exp(abs(x))
    return where(nan(x), x, fma(quarter, 2.0, reciprocal(quarter) * 0.125))


def tanh(x: Term) -> Term:
    """Hyperbolic tangent: a polynomial below 0.55, 1 - 2 / (e^2x + 1) above."""
    size = abs(x)
    square = x * x
    small = fma(x * square, horner(square, _TANH), x)
    if x.thread.approximates:
        power = (size * (2 * _LOG2E[0])).ptx("ex2.approx.ftz.f32")
    else:
        power = exp_scaled(clamp(size + size, 0.0, 40.0))
    large = fma(reciprocal(power + 1.0), -2.0, 1.0)
    return copysign(where(size >= 0.55, large, small), x)


def asinh(x: Term) -> Term:
    """Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(1 + a^2)))."""
    size = abs(x)
    mild = size.call("minimumnum", 1e9)
    square = mild * mild
    usual = near_log1p(fma(square, reciprocal(root(fma(mild, mild, 1.0)) + 1.0), mild))
    value = where(size > 1e9, log(size) + _LN2, usual)
    return where(size > 0.0, copysign(value, x), x)


def acosh(x: Term) -> Term:
    """Inverse hyperbolic cosine: log1p(t + sqrt(2 t + t^2)) with t = x - 1."""
    t = clamp(x, 1.0, 1e9) - 1.0
    usual = near_log1p(t + root(fma(t, t, t + t)))
    value = where(x > 1e9, log(x) + _LN2, usual)
    return where(x < 1.0, x.like(float("nan")), where(nan(x), x, value))


def atanh(x: Term) -> Term:
    """Inverse hyperbolic tangent: log1p(2 a / (1 - a)) / 2."""
    size = abs(x)
    part = quotient(size + size, 1.0 - size)
    value = log1p(where(size.same(1.0), x.like(float("inf")), part)) * 0.5
    value = where(size > 1.0, x.like(float("nan")), value)
    return where(size > 0.0, copysign(value, x), x)


# Powers ---------------------------------------------------------------------------------------

_ATANH = (0.012499999, 0.0022321853, 0.00043319783, 9.5490344e-05)
"""(ln((2 + q) / (2 - q)) - q - q^3 / 12) / q^5 in q^2."""
_TWELFTH = (0.083333336, -2.4835269e-09)
_LN2_PAIR = (0.693359375, -0.000212194442)
"""ln 2, the first part short enough for exact products with exponents."""


def _log_pair(x: Term) -> tuple[Term, Term]:
    """ln x for positive finite x as an unevaluated sum, accurate to about 38 bits: with 1 + f = x
    2^-e, q = 2 f / (2 + f) in two parts, ln(1 + f) = q + q^3 / 12 + q^5 P(q^2)."""
    f, e = mantissa(x)
    inverse, twice = reciprocal(f + 2.0), f + f
    q = twice * inverse
    error = fma(q, -f, fma(q, -2.0, twice)) * inverse
    s = q * q
    w, w_low = fast_sum(x.like(_TWELFTH[0]), fma(s, horner(s, _ATANH), _TWELFTH[1]))
    c = q * s
    c_low = fma(error * 3.0, s, fma(q, fma(q, q, -s), fma(q, s, -c)))
    cubic = c * w
    cubic_low = fma(c, w_low, fma(c_low, w, fma(c, w, -cubic)))
    high, low = fast_sum(q, cubic)
    high, more = fast_sum(e * _LN2_PAIR[0], high)
    return fast_sum(high, more + fma(e, _LN2_PAIR[1], low + (error + cubic_low)))


def pow_(x: Term, y: Term) -> Term:
    """x^y, special cases as in C. Zeros, infinities and NaNs stand for their logarithm, and the
    exponential of an infinite product is 0 or infinity."""
    size, power = abs(x), finite_exponent(y)
    high, low = _log_pair(size)
    high = where(is_usual(size), high, where(size.same(0.0), float("-inf"), size))
    product = high * power
    huge = abs(product) > 150.0
    error = where(huge, x.like(0.0), fma(low, power, fma(high, power, -product)))
    if x.thread.approximates:
        value = exp_by_instruction(product, error)
    else:
        n, r = reduce_argument(clamp(product, -150.0, 150.0))
        value = ldexp(near_exp(r + error) + 1.0, n)
        value = where(nan(product), product, value)
    return power_cases(x, y, value)


def finite_exponent(y: Term) -> Term:
    """A finite replacement for an infinite exponent `y`, so that 1 to its power is 1: an even
    number for which the powers of all other numbers are 0 or infinite."""
    most = 3e38 if y.element is F32 else 1e300
    return y.call("maximum", -most).call("minimum", most)


def power_cases(x: Term, y: Term, value: Term) -> Term:
    """The special cases of `value` = |x|^y: NaN operands, the sign, and the cases of C for negative
    numbers, 1 and 0."""
    power = finite_exponent(y)
    parity = fma((power * 0.5).call("trunc"), -2.0, power)
    odd = abs(parity).same(1.0)
    broken = is_usual(-x) & ~(odd | parity.same(0.0))
    value = (value.bits() ^ (x.bits() & where(odd, x.bits().like(_sign(x)), 0))).real()
    value = where(broken, x.like(float("nan")), value)
    return where(x.same(1.0) | y.same(0.0), 1.0, value)


def _sign(x: Term) -> int:
    return 1 << (x.element.bits - 1)


FUNCTIONS = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh,
    "atanh": atanh, "pow": pow_,
}  # fmt: skip
"""Functions by mnemonic."""
LOGARITHMS = {"log": log, "log2": log2, "log10": log10}
"""Functions by mnemonic that take whether their operand is normal."""
