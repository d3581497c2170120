"""Special functions, as libdevice has them: gamma, and inverses of the error function.

`lgamma` and `erfinv` of float32 and narrower types are computed in float32, all else in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tileir.builder import Builder, Expr
from tileir.frontends.triton.language.debugging import refused_function
from tileir.frontends.triton.language.device_functions import FUNCTIONS, number, of_floats
from tileir.types import F32, F64, element_of

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip
"""Coefficients for g = 7 (Lanczos, SIAM J. Numer. Anal. B 1, 1964; as Godfrey computed them)."""


def _logarithm_of_gamma(b: Builder, x: Expr) -> Expr:
    """Of gamma's size, by reflection below one half."""
    low = x < number(x, 0.5)
    z = b.select(low, number(x, 1.0) - x, x) - 1.0
    total = number(x, _LANCZOS[0])
    for i, c in enumerate(_LANCZOS[1:]):
        total = total + number(x, c) / (z + (i + 1.0))
    t = z + 7.5
    result = (z + 0.5) * b.log(t) - t + b.log(total * math.sqrt(2 * math.pi))
    sine = b.fabs(b.sin((x - b.floor(x)) * math.pi))
    result = b.select(low, math.log(math.pi) - b.log(sine) - result, result)
    pole = (x <= number(x, 0.0)) & (b.floor(x) == x)
    endless = number(x, math.inf)
    return b.select(pole | (b.fabs(x) == endless), endless, result)


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
_STIRLING = (0.000504312804, -0.000567126262, 0.000792606617, -0.00277776364, 0.0833333358)
"""x times the rest of Stirling's formula, by 1 / x^2, for x from 3."""
_SINE_OF_PI = (0.0776558965, -0.598290384, 2.55007744, -5.1677103, 3.14159274)
"""sin(pi x) / x by x^2, for x from -1/2 to 1/2."""


def _logarithm_of_gamma32(b: Builder, x: Expr) -> Expr:
    """Within 4 ulp of float32 for x from -2; below, within 2e-6 or 4 ulp, since near the zeros of
    the function the reflection loses digits. The polynomials divide by its zeros at 1 and 2."""
    one, zero = number(x, 1.0), number(x, 0.0)
    size = b.fabs(x)
    is_low = x < number(x, -0.3)
    u = b.select(is_low, size, x)
    below, near = u < number(x, 0.7), u < number(x, 1.5)
    logarithm = b.log(b.fabs(u))
    t = b.select(below, u, b.select(near, u - one, u - 2.0))
    quotient = b.select(near, _polynomial(b, t, _GAMMA_AT_1), _polynomial(b, t, _GAMMA_AT_2))
    small = t * quotient - b.select(below, logarithm, zero)
    inverse = b.fdiv(one, u, fast="approx")
    rest = _polynomial(b, inverse * inverse, _STIRLING)
    rest = b.fma(rest, inverse, number(x, math.log(2 * math.pi) / 2 - 0.5))
    large = b.fma(u - 0.5, logarithm - one, rest)
    result = b.select(u < number(x, 3.0), small, large)
    fraction = x - b.frint(x)
    sine = b.fabs(fraction * _polynomial(b, fraction * fraction, _SINE_OF_PI))
    reflection = math.log(math.pi) - b.log(size * sine) - result
    pole = (x <= zero) & (b.floor(x) == x)
    return b.select(pole, number(x, math.inf), b.select(is_low, reflection, result))


def _gamma(b: Builder, x: Expr) -> Expr:
    size = b.exp(_logarithm_of_gamma(b, x))
    half = b.floor(x) * 0.5
    odd = (x < number(x, 0.0)) & (b.floor(half) != half)
    undefined = (x < number(x, 0.0)) & (b.floor(x) == x)
    return b.select(undefined, number(x, math.nan), b.select(odd, -size, size))


_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Of Giles, "Approximating the erfinv function", GPU Computing Gems, 2011."""


def _polynomial(b: Builder, x: Expr, coefficients: Sequence[float]) -> Expr:
    expr = number(x, coefficients[0])
    for c in coefficients[1:]:
        expr = b.fma(expr, x, number(x, c))
    return expr


def _inverse_of_erf(b: Builder, x: Expr) -> Expr:
    """Giles' approximation, and two steps of Newton's method."""
    w = -b.log((number(x, 1.0) - x) * (x + 1.0))
    centre = _polynomial(b, w - 2.5, _CENTRE)
    tail = _polynomial(b, b.sqrt(b.fmaxnum(w, number(x, 0.0))) - 3.0, _TAIL)
    result = b.select(w < number(x, 5.0), centre, tail) * x
    for _ in range(2):
        result = result - (b.erf(result) - x) * (math.sqrt(math.pi) / 2) * b.exp(result * result)
    endless = b.copysign(number(x, math.inf), x)
    return b.select(b.fabs(x) == number(x, 1.0), endless, result)


_CENTRE32 = (
    4.67193229e-10, -2.04188417e-08, 3.44010147e-07, -2.69653356e-06, 6.5314307e-06, 3.89816378e-05,
    -0.000120025703, -0.00234002713, 0.0115509005, 0.232013479, 0.886226952,
)  # fmt: skip
"""erfinv(x) / x by w = -ln(1 - x^2), for w from 0 to 5: interpolated at Chebyshev's nodes."""
_TAIL32 = (
    0.000129241758, -0.000319926679, -7.60479015e-05, 0.00149722246, -0.00358781568, 0.00568267843,
    -0.00763913896, 0.00944574364, 1.00167501, 2.83297682,
)  # fmt: skip
"""The same by sqrt(w) - 3, for w from 5 to 16."""


def _inverse_of_erf32(b: Builder, x: Expr) -> Expr:
    """Within 3 ulp of float32."""
    w = -b.log(b.fma(-x, x, number(x, 1.0)))
    centre = _polynomial(b, w, _CENTRE32)
    tail = _polynomial(b, b.sqrt(w, fast="approx") - 3.0, _TAIL32)
    result = b.select(w < number(x, 5.0), centre, tail) * x
    endless = b.copysign(number(x, math.inf), x)
    return b.select(b.fabs(x) == number(x, 1.0), endless, result)


def _inverse_of_erfc(b: Builder, x: Expr) -> Expr:
    """Small ones by the tail and Newton's method on erfc, which keeps their digits."""
    small = b.fminnum(x, number(x, 2.0) - x)
    w = -b.log(small * (number(x, 2.0) - small))
    result = b.select(
        w < number(x, 5.0),
        _polynomial(b, w - 2.5, _CENTRE),
        _polynomial(b, b.sqrt(b.fmaxnum(w, number(x, 0.0))) - 3.0, _TAIL),
    ) * (number(x, 1.0) - small)
    for _ in range(4):
        step = (b.erfc(result) - small) * (math.sqrt(math.pi) / 2) * b.exp(result * result)
        result = result + step
    result = b.select(small == number(x, 0.0), number(x, math.inf), result)
    return b.select(x > number(x, 1.0), -result, result)


def _scaled_erfc(b: Builder, x: Expr) -> Expr:
    """`exp(x * x) * erfc(x)`; far out, the continued fraction of erfc."""
    far = number(x, 0.0)
    for k in range(60, 0, -1):
        far = number(x, k / 2.0) / (x + far)
    far = number(x, 1 / math.sqrt(math.pi)) / (x + far)
    return b.select(x > number(x, 2.0), far, b.exp(x * x) * b.erfc(x))


def _normal(b: Builder, x: Expr) -> Expr:
    """The normal distribution below `x`."""
    return b.erfc(x * -math.sqrt(0.5)) * 0.5


def _normal_inverse(b: Builder, x: Expr) -> Expr:
    return _inverse_of_erfc(b, x * 2.0) * -math.sqrt(2)


_IN_FLOAT32: dict[str, Callable[[Builder, Expr], Expr]] = {
    "lgamma": _logarithm_of_gamma32,
    "erfinv": _inverse_of_erf32,
}


def _in_float32_or_64(
    formula: Callable[[Builder, Expr], Expr], narrow: Callable[[Builder, Expr], Expr] | None
) -> Callable[[Builder, Expr], Expr]:
    """`narrow` in float32 for operands that fit there, where there is one; else in float64."""

    def apply(b: Builder, x: Expr) -> Expr:
        kind: Any = element_of(x.type)
        if narrow is not None and kind is not F64:
            return narrow(b, x if kind is F32 else x.to(F32)).to(kind)
        return formula(b, x if kind is F64 else x.to(F64)).to(kind)

    return apply


for _name, _formula in {
    "lgamma": _logarithm_of_gamma,
    "tgamma": _gamma,
    "erfinv": _inverse_of_erf,
    "erfcinv": _inverse_of_erfc,
    "erfcx": _scaled_erfc,
    "normcdf": _normal,
    "normcdfinv": _normal_inverse,
}.items():
    of_floats(_name, _in_float32_or_64(_formula, _IN_FLOAT32.get(_name)))

for _name in ("cyl_bessel_i0", "cyl_bessel_i1", "j0", "j1", "jn", "y0", "y1", "yn"):
    FUNCTIONS[_name] = refused_function(_name, "Bessel functions are left out")
