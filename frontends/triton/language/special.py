"""Special functions, as libdevice has them: gamma, inverses of the error function, Bessel's.

All but `tgamma` are computed in float32 for operands that fit there, else in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tileir.builder import Builder, Expr
from tileir.frontends.triton.language import bessel, special32
from tileir.frontends.triton.language.debugging import refused_function
from tileir.frontends.triton.language.device_functions import FUNCTIONS, number, of_floats
from tileir.frontends.triton.language.special32 import polynomial
from tileir.types import F32, F64, element_of

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip
"""Coefficients for g = 7 (Lanczos, SIAM J. Numer. Anal. B 1, 1964; as Godfrey computed them)."""


def _logarithm_of_gamma(b: Builder, x: Expr) -> Expr:
    """The logarithm of the magnitude of gamma, by reflection below one half."""
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
"""The coefficients of Giles, "Approximating the erfinv function", GPU Computing Gems, 2011."""


def _inverse_of_erf(b: Builder, x: Expr) -> Expr:
    """Giles' approximation, and two steps of Newton's method."""
    w = -b.log((number(x, 1.0) - x) * (x + 1.0))
    centre = polynomial(b, w - 2.5, _CENTRE)
    tail = polynomial(b, b.sqrt(b.fmaxnum(w, number(x, 0.0))) - 3.0, _TAIL)
    result = b.select(w < number(x, 5.0), centre, tail) * x
    for _ in range(2):
        result = result - (b.erf(result) - x) * (math.sqrt(math.pi) / 2) * b.exp(result * result)
    endless = b.copysign(number(x, math.inf), x)
    return b.select(b.fabs(x) == number(x, 1.0), endless, result)


def _inverse_of_erfc(b: Builder, x: Expr) -> Expr:
    """Small ones by the tail and Newton's method on erfc, which keeps their digits."""
    small = b.fminnum(x, number(x, 2.0) - x)
    w = -b.log(small * (number(x, 2.0) - small))
    result = b.select(
        w < number(x, 5.0),
        polynomial(b, w - 2.5, _CENTRE),
        polynomial(b, b.sqrt(b.fmaxnum(w, number(x, 0.0))) - 3.0, _TAIL),
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
    "lgamma": special32.logarithm_of_gamma,
    "erfinv": special32.inverse_of_erf,
    "erfcinv": special32.inverse_of_erfc,
    "erfcx": special32.scaled_erfc,
    "normcdf": special32.normal,
    "normcdfinv": special32.inverse_of_normal,
    **bessel.FORMULAS,
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
    **bessel.FORMULAS,
}.items():
    of_floats(_name, _in_float32_or_64(_formula, _IN_FLOAT32.get(_name)))

for _name in ("jn", "yn"):
    FUNCTIONS[_name] = refused_function(_name, "Bessel functions of other orders are left out")
