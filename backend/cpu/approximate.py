"""PTX's approximate instructions as formulas, since a CPU has none. The formulas are more accurate
than PTX promises (PTX ISA, "Floating-Point Instructions: ex2, lg2, rcp, ...")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import factorial, log

from tileir.backend.codegen.libm import exponential32, trigonometric32
from tileir.backend.codegen.libm.expression import Term, horner, ldexp, where

_EXP2 = [log(2) ** k / factorial(k) for k in range(8)]
_LOG2 = [2 / log(2) / k for k in (1, 3, 5, 7, 9, 11)]
_ROOT_HALF = 0x3F3504F3
"""The bits of the square root of one half."""


def exp2(x: Term) -> Term:
    """2 to the power `x`: a polynomial of its fraction, scaled so that subnormal results are
    rounded."""
    clamped = x.call("maximumnum", -252.0).call("minimumnum", 252.0)
    exponent = clamped.call("rint")
    value = horner(clamped - exponent, _EXP2)
    return where(x.compare("uno", x), x, ldexp(value, exponent.to_integer()))


def log2(x: Term) -> Term:
    """The logarithm to base 2. `x` is split into a power of two and a number between the square
    roots of 1/2 and 2, whose logarithm is a series in its inverse hyperbolic tangent."""
    small = x < 2.0**-126
    bits = where(small, x * 2.0**23, x).bits()
    exponent = (bits - _ROOT_HALF) >> 23
    t = (bits - (exponent << 23)).real() - 1.0
    s = t / (t + 2.0)
    exponent_float = (exponent - where(small, bits.like(23), 0)).floating()
    usual = horner(s * s, _LOG2) * s + exponent_float
    special = where(x.same(0.0), x.like(float("-inf")), where(x < 0.0, float("nan"), x))
    return where((x > 0.0) & (x < float("inf")), usual, special)


def _one_over(x: Term) -> Term:
    return 1.0 / x


FORMULAS: Mapping[str, Callable[..., Term]] = {
    "ex2": exp2, "lg2": log2, "rcp": _one_over, "sqrt": lambda x: x.call("sqrt"),
    "rsqrt": lambda x: 1.0 / x.call("sqrt"), "sin": trigonometric32.FUNCTIONS["sin"],
    "cos": trigonometric32.FUNCTIONS["cos"], "tanh": exponential32.FUNCTIONS["tanh"],
}  # fmt: skip
"""The formulas, by the first part of the instruction's name."""
