"""Special functions of float32, in float32, some of them of float64 too: polynomials fitted here
(Lawson's iteration, with coefficients rounded one after the other), and the target's approximate
divisions, roots and logarithms where their error is a fraction of the function's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tileir.builder import Builder, Expr
from tileir.types import F32, F64, I32, I64, element_of, with_element

_INFINITY = math.inf


def constant_like(x: Expr, value: float) -> Expr:
    """`value` at the type and shape of `x`."""
    return x.builder.constant(x.type, value)


def polynomial(b: Builder, x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial in `x` of `coefficients`, the highest first."""
    expr = constant_like(x, coefficients[0])
    for c in coefficients[1:]:
        expr = b.fma(expr, x, constant_like(x, c))
    return expr


_BIAS, _FRACTION_BITS = {F32: 127, F64: 1023}, {F32: 23, F64: 52}


def _format_of(x: Expr) -> Any:
    """The element type of `x`, F32 or F64."""
    return element_of(x.type)


def _bits(b: Builder, x: Expr) -> Expr:
    return b.bitcast(x, with_element(x.type, I32 if is_float32(x) else I64))


def _near_logarithm(b: Builder, x: Expr) -> Expr:
    """The natural logarithm by `lg2.approx`: within 2e-7, and 2^-22 of its size."""
    return b.log2(x, fast="approx") * math.log(2)


# Gamma ----------------------------------------------------------------------------------------

_GAMMA_AT_1 = (
    0.0178220049, -0.0623821132, 0.102547638, -0.118580811, 0.127221435, -0.143621325, 0.169376731,
    -0.2073908, 0.27058664, -0.400685728, 0.822466969, -0.577215672,
)  # fmt: skip
"""ln(gamma(1 + t)) / t for t from -0.3 to 0.7: interpolated at Chebyshev's nodes, as are these."""
_GAMMA_AT_2 = (
    4.35766233e-05, -0.000207585254, 0.000535863161, -0.00121009583, 0.00288787996, -0.0073820753,
    0.0205807555, -0.067352511, 0.322467029, 0.422784328,
)  # fmt: skip
"""ln(gamma(2 + t)) / t for t from -0.5 to 1."""
_GAMMA_FROM_3 = (
    -2.40873987e-09, 1.35002756e-08, -4.29682991e-08, 3.03575717e-07, -2.31179274e-06,
    1.59615756e-05, -0.000117030606, 0.000946378743, -0.00896778982, 0.122090615, 1.30586672,
)  # fmt: skip
"""(ln(gamma(x)) - ln 2) / (x - 3) by x - 5.5, for x from 3 to 8: by least squares."""
_STIRLING = (-1 / 360, 1 / 12)
"""x times the rest of Stirling's formula, by 1 / x^2, for x from 8."""
_SINE_OF_PI = (0.0776558965, -0.598290384, 2.55007744, -5.1677103, 3.14159274)
"""sin(pi x) / x by x^2, for x from -1/2 to 1/2."""


_LOGARITHM = (
    -0.07659546, 0.12929803, -0.13240016, 0.14177437, -0.1660887, 0.20002206, -0.25001603,
    0.33333322, -0.49999988,
)  # fmt: skip
"""(ln(1 + f) - f) / f^2 for 1 + f from sqrt(1/2) to sqrt(2)."""
_ROOT_OF_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


def _usual_logarithm(b: Builder, x: Expr) -> Expr:
    """The natural logarithm of a positive normal number within 1 ulp; of infinity a number."""
    bits = _bits(b, x)
    power = (bits - _ROOT_OF_HALF) & -(1 << 23)
    f = b.bitcast(bits - power, x.type) - 1.0
    near = b.fma(f * f, polynomial(b, f, _LOGARITHM), f)
    exponent = power.to(F32, signed=True)
    return b.fma(exponent, constant_like(x, math.log(2) * 2.0**-23), near)


def logarithm_of_gamma(b: Builder, x: Expr) -> Expr:
    """Within 4 ulp for x from -2; below, within 2e-6 or 4 ulp, since near the zeros of the function
    the reflection loses digits. The polynomials divide by its zeros at 1 and 2. The selections have
    no common logarithm, so that a warp computes only those that its elements need."""
    one = constant_like(x, 1.0)
    size = b.fabs(x)
    is_low = x < constant_like(x, -0.3)
    u = b.select(is_low, size, x)
    below, near = u < constant_like(x, 0.7), u < constant_like(x, 1.5)
    t = b.select(below, u, b.select(near, u - one, u - 2.0))
    quotient = b.select(near, polynomial(b, t, _GAMMA_AT_1), polynomial(b, t, _GAMMA_AT_2))
    small = t * quotient
    small = b.select(below, small - b.log(b.fabs(u)), small)
    inverse = b.fdiv(one, u, fast="approx", ftz=True)
    correction = polynomial(b, inverse * inverse, _STIRLING)
    correction = b.fma(correction, inverse, constant_like(x, math.log(2 * math.pi) / 2 - 0.5))
    far = b.fma(u - 0.5, _usual_logarithm(b, u) - one, correction)
    middle = polynomial(b, u - 5.5, _GAMMA_FROM_3)
    middle = b.fma(u - 3.0, middle, constant_like(x, math.log(2)))
    large = b.select(u < constant_like(x, 8.0), middle, far)
    result = b.select(u < constant_like(x, 3.0), small, large)
    fraction = x - b.frint(x)
    sine = b.fabs(fraction * polynomial(b, fraction * fraction, _SINE_OF_PI))
    reflection = math.log(math.pi) - _near_logarithm(b, size * sine) - result
    pole = b.floor(x) == x
    reflection = b.select(pole, constant_like(x, _INFINITY), reflection)
    return b.select(is_low, reflection, result)


# Error functions ------------------------------------------------------------------------------

_CENTRE = (
    4.67193229e-10, -2.04188417e-08, 3.44010147e-07, -2.69653356e-06, 6.5314307e-06, 3.89816378e-05,
    -0.000120025703, -0.00234002713, 0.0115509005, 0.232013479, 0.886226952,
)  # fmt: skip
"""erfinv(x) / x by w = -ln(1 - x^2), for w from 0 to 5: interpolated at Chebyshev's nodes."""
_TAIL = (
    0.000129241758, -0.000319926679, -7.60479015e-05, 0.00149722246, -0.00358781568, 0.00568267843,
    -0.00763913896, 0.00944574364, 1.00167501, 2.83297682,
)  # fmt: skip
"""The same by sqrt(w) - 3, for w from 5 to 16."""


def inverse_of_erf(b: Builder, x: Expr) -> Expr:
    """Within 3 ulp. The polynomial of the tail is infinite at 1 and -1, where its argument is."""
    w = b.log2(b.fma(-x, x, constant_like(x, 1.0)), fast="fast") * -math.log(2)
    centre = polynomial(b, w, _CENTRE)
    tail = polynomial(b, b.sqrt(w, fast="approx") - 3.0, _TAIL)
    return b.select(w < constant_like(x, 5.0), centre, tail) * x


_FAR = (
    6.16906157, -14.61532697, 14.52979708, -8.69997659, 3.89778498, -1.12108688, -0.03343313,
    1.00045594,
)  # fmt: skip
"""erfcinv(x) / sqrt(w) by 1 / sqrt(w), for w = -ln(x (2 - x)) from 5 to 105."""


def inverse_of_erfc(b: Builder, x: Expr) -> Expr:
    """Within 5 ulp."""
    one, two = constant_like(x, 1.0), constant_like(x, 2.0)
    small = b.fminnum(x, two - x)
    w = -_near_logarithm(b, small * (two - small))
    centre = polynomial(b, w, _CENTRE) * (one - x)
    root = b.sqrt(w, fast="approx")
    tail = root * polynomial(b, b.fdiv(one, root, fast="approx", ftz=True), _FAR)
    result = b.select(w < constant_like(x, 5.0), centre, b.copysign(tail, one - x))
    endless = b.copysign(constant_like(x, _INFINITY), one - x)
    at_end = small == constant_like(x, 0.0)
    undefined = (x != x) | (small < constant_like(x, 0.0))
    result = b.select(at_end, endless, result)
    return b.select(undefined, constant_like(x, math.nan), result)


_SCALED = (
    6.05714959e-05, 0.000163026751, -0.000350685354, -0.0014016896, 0.00121085043, 0.00869496725,
    -0.00801656395, -0.0542143919, 0.164049178, -0.16603069, -0.0927637666, 1.27697837,
)  # fmt: skip
"""(1 + 2 a) e^(a a) erfc(a) in (a - 2) / (a + 2), for all a from 0."""


def scaled_erfc(b: Builder, x: Expr) -> Expr:
    """`exp(x * x) * erfc(x)` within 5 ulp, for negative numbers 2 exp(x * x) less that of -x."""
    a, two = b.fabs(x), constant_like(x, 2.0)
    mild = b.fminnum(a, constant_like(x, 1e30))
    q = b.fdiv(mild - 2.0, mild + 2.0, fast="approx")
    size = b.fdiv(polynomial(b, q, _SCALED), b.fma(a, two, constant_like(x, 1.0)), fast="approx")
    square = a * a
    lost = b.fma(a, a, -square)
    power = b.exp(square)
    exact = b.fma(power, lost, power)
    power = b.select(power < constant_like(x, _INFINITY), exact, power)
    return b.select(x < constant_like(x, 0.0), b.fma(power, two, -size), size)


_ROOT_HALF = (0.707106769, 1.21016175e-08)
"""sqrt(1/2) in two parts."""


def normal(b: Builder, x: Expr) -> Expr:
    """The normal distribution below `x`, within 6 ulp. The rounding error of erfc's argument is
    compensated by the logarithmic derivative of erfc for large arguments, -2 a."""
    zero = constant_like(x, 0.0)
    a = x * -_ROOT_HALF[0]
    lost = b.fma(x, constant_like(x, -_ROOT_HALF[0]), -a)
    lost = b.fma(x, constant_like(x, -_ROOT_HALF[1]), lost)
    change = b.fmaxnum(a, zero) * -2.0 * lost
    change = b.select(b.fabs(x) < constant_like(x, 20.0), change, zero)
    half = b.erfc(a) * 0.5
    return b.fma(half, change, half)


def inverse_of_normal(b: Builder, x: Expr) -> Expr:
    """Within 6 ulp."""
    return inverse_of_erfc(b, x * 2.0) * -math.sqrt(2)


# Powers, roots, distances ---------------------------------------------------------------------

_LN10 = {F32: (2.30258512, -3.19754424e-08), F64: (2.302585092994046, -2.1707562233822494e-16)}
"""ln 10 in two parts."""


def exp10(b: Builder, x: Expr) -> Expr:
    """10^x within 3 ulp: e to the power of x ln 10, in two parts."""
    kind = _format_of(x)
    least = constant_like(x, -1.5 * _BIAS[kind] * math.log10(2))
    x = b.select(x < least, least, x)
    first, second = (constant_like(x, part) for part in _LN10[kind])
    high = x * first
    low = b.fma(x, second, b.fma(x, first, -high))
    power = b.exp(high)
    return b.select(power < constant_like(x, _INFINITY), b.fma(power, low, power), power)


def _scaled_squares(b: Builder, parts: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """The greatest size, the bits of a power of two near it, a multiple of 4 below its exponent,
    and the sum of the squares of all parts divided by that."""
    sizes = [b.fabs(x) for x in parts]
    most = sizes[0]
    for size in sizes[1:]:
        most = b.fmaxnum(most, size)
    bits = _bits(b, most)
    exponent = bits & _exponent(most, 2 * _BIAS[_format_of(most)] - 2)
    down = _inverse_power(b, most, exponent)
    total = constant_like(most, 0.0)
    for size in sizes:
        total = b.fma(size * down, size * down, total)
    return most, exponent, total


def _exponent(x: Expr, n: int) -> int:
    """The bits of the type of `x` whose exponent is `n`, with the bias."""
    return n << _FRACTION_BITS[_format_of(x)]


def _inverse_power(b: Builder, x: Expr, exponent: Expr) -> Expr:
    """1 / 2 of a power of two of the type of `x` and the bits `exponent`."""
    twice = constant_like(exponent, _exponent(x, 2 * _BIAS[_format_of(x)] - 1))
    return b.bitcast(twice - exponent, x.type)


def hypot(b: Builder, *parts: Expr) -> Expr:
    """The root of a sum of squares within 3 ulp, without overflow in between."""
    most, exponent, total = _scaled_squares(b, parts)
    up = b.bitcast(exponent + _exponent(most, 1), most.type)
    endless = constant_like(most, _INFINITY)
    return b.select(most == endless, endless, _root(b, total) * up)


def _root(b: Builder, x: Expr) -> Expr:
    """The square root of 0 or a number from 2^-100: of f64 by an inverse root, which takes no
    branches, and a correction."""
    if is_float32(x):
        return b.sqrt(x, fast="approx")
    inverse = b.rsqrt(b.fmaxnum(x, constant_like(x, 2.0**-200)))
    near = x * inverse
    return b.fma(b.fma(-near, near, x), inverse * 0.5, near)


def inverse_hypot(b: Builder, *parts: Expr) -> Expr:
    """The inverse of `hypot`, within 3 ulp."""
    most, exponent, total = _scaled_squares(b, parts)
    down = _inverse_power(b, most, exponent)
    endless = constant_like(most, _INFINITY)
    return b.select(most == endless, constant_like(most, 0.0), b.rsqrt(total) * down)


# Trigonometric functions of multiples of pi ------------------------------------------------------

_PI = {F32: (3.14159274, -8.74227766e-08), F64: (3.141592653589793, 1.2246467991473532e-16)}
_SINE: dict[Any, tuple[float, ...]] = {
    F32: (-0.00019517906, 0.008332187, -0.16666655),
    F64: (
        1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
        -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
    ),
}  # fmt: skip
"""(sin(r) - r) / r^3 by r^2, for |r| up to pi / 4, the highest first; of f64 those of fdlibm."""
_COSINE: dict[Any, tuple[float, ...]] = {
    F32: (2.4432327e-05, -0.001388731, 0.041666646, -0.5),
    F64: (
        -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
        2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02, -0.5,
    ),
}  # fmt: skip
"""(cos(r) - 1) / r^2."""


def _sine_of_pi_times(b: Builder, x: Expr, quarters: int) -> Expr:
    """sin(pi (x + quarters / 2)) within 2 ulp: multiples of 1/2 are subtracted, which is exact. To
    1.5 2^23 (in f64 2^52) is added what is rounded to an integer, in the low bits of the sum."""
    kind = _format_of(x)
    sine, cosine, pi = _SINE[kind], _COSINE[kind], _PI[kind]
    rounder = 1.5 * 2.0 ** _FRACTION_BITS[kind]
    reduced = b.fma(b.frint(x * 0.5), constant_like(x, -2.0), x)
    rounded = b.fma(reduced, constant_like(x, 2.0), constant_like(x, rounder))
    reduced = b.fma(rounded - rounder, constant_like(x, -0.5), reduced)
    r = b.fma(reduced, constant_like(x, pi[1]), reduced * pi[0])
    quadrant = _bits(b, rounded) + quarters
    odd = (quadrant & 1) == constant_like(quadrant, 1)
    square = r * r
    first = b.fma(constant_like(x, cosine[0]), square, constant_like(x, cosine[1]))
    total = b.select(odd, first, constant_like(x, sine[0]))
    for in_odd, in_even in zip(cosine[2:], sine[1:], strict=True):
        c = b.select(odd, constant_like(x, in_odd), constant_like(x, in_even))
        total = b.fma(total, square, c)
    start = b.select(odd, constant_like(x, 1.0), r)
    value = _bits(b, b.fma(square * start, total, start))
    sign = (quadrant & 2) << (kind.bits - 2)
    return b.bitcast(value ^ sign, x.type) + 0.0


def sinpi(b: Builder, x: Expr) -> Expr:
    """sin(pi x); 0 has its sign."""
    return b.select(x == constant_like(x, 0.0), x, _sine_of_pi_times(b, x, 0))


def cospi(b: Builder, x: Expr) -> Expr:
    """cos(pi x)."""
    return _sine_of_pi_times(b, x, 1)


def is_float32(x: Expr) -> bool:
    """Whether the elements of `x` are float32."""
    return element_of(x.type) is F32
