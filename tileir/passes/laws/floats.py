"""Laws of floats that are also true for NaN, infinities, signed zeros and subnormals.

The payload and sign of a NaN result of arithmetic are not specified, so `x * 1 = x` is a law, and
`x + 0 = x` is not: -0.0 + 0.0 is 0.0. Laws of ops with a rounding mode require the default mode and
no `ftz` unless they state otherwise.
"""

from __future__ import annotations

import math

from tileir.passes.laws.law import Bound, Law
from tileir.types import Scalar, element_of
from tileir.values import Constant

_SMALLEST_EXPONENT = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}
_COMPARED_WITH_ITSELF = {
    "false": False, "one": False, "true": True, "ueq": True,
}  # fmt: skip


def reciprocal(bound: Bound) -> float | None:
    """1 / C where both are normal powers of two: multiplying by it is dividing by C."""
    divisor = bound["C"]
    assert isinstance(divisor, Constant)
    element, number = element_of(divisor.type), float(divisor.value)
    if number == 0 or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    smallest = _SMALLEST_EXPONENT[element.name] if isinstance(element, Scalar) else 0
    exponent = math.frexp(number)[1] - 1
    return 1 / number if smallest <= exponent <= -smallest else None


ARITHMETIC = (
    Law("fadd(x, -0.0) = x"),
    Law("fsub(x, 0.0) = x"),
    Law("fadd(x, fneg(y)) = fsub(x, y)"),
    Law("fsub(x, fneg(y)) = fadd(x, y)"),
    Law("fsub(-0.0, x) = fneg(x)"),
    Law("fmul(x, 1.0){rounding = *} = x"),
    Law("fdiv(x, 1.0){rounding = *} = x"),
    Law("fmul(x, -1.0){rounding = *} = fneg(x)"),
    Law("fdiv(x, -1.0){rounding = *} = fneg(x)"),
    Law("fmul(fneg(x), fneg(y)) = fmul(x, y)"),
    Law("fdiv(fneg(x), fneg(y)) = fdiv(x, y)"),
    Law("fdiv(x, C) = fmul(x, R)", let={"R": reciprocal}),
    Law("fma(x, 1.0, y) = fadd(x, y)"),
    Law("fma(x, y, -0.0) = fmul(x, y)"),
)
SIGNS = (
    Law("fneg(fneg(x)) = x"),
    Law("fabs(y: fabs(x)) = y"),
    Law("fabs(fneg(x)) = fabs(x)"),
    Law("copysign(x, x) = x"),
    Law("copysign(fneg(x), y) = copysign(x, y)"),
    Law("copysign(fabs(x), y) = copysign(x, y)"),
    Law("fabs(copysign(x, y)) = fabs(x)"),
)
SELF_EXTREMES = tuple(
    law
    for op in ("fminimum", "fmaximum", "fminnum", "fmaxnum")
    for law in (
        Law(f"{op}(x, x) = x"),
        Law(f"{op}(z: {op}(x, y), y) = z"),
        Law(f"{op}({op}(x, C), D) = {op}(x, {op}(C, D))"),
    )
)
EXTREMES = (
    *SELF_EXTREMES,
    Law("fminimum(x, inf) = x"),
    Law("fmaximum(x, -inf) = x"),
    Law("fminnum(x, nan) = x"),
    Law("fmaxnum(x, nan) = x"),
)
WHOLE = tuple(
    Law(f"{op}(y: {inner}(x)) = y")
    for op in ("floor", "ceil", "ftrunc", "fround", "frint")
    for inner in ("floor", "ceil", "ftrunc", "fround", "frint")
)
"""Rounding an integral value to an integral value does nothing."""

SELF_COMPARISON = tuple(
    Law(f"fcmp(x, x){{predicate = {word}}} = {'true, false' if holds else 'false, true'}")
    for word, holds in (*_COMPARED_WITH_ITSELF.items(), ("olt", False), ("ogt", False),
                        ("ule", True), ("uge", True))
)  # fmt: skip
COMPARISON = (
    *SELF_COMPARISON,
    Law("fcmp(x, y){predicate = false} = false, true"),
    Law("fcmp(x, y){predicate = true} = true, false"),
)
CASTS = (
    Law("fptrunc(fpext(x)){rounding = *} = x"),
    Law("fpext(fpext(x)) = fpext(x)"),
)
FLOATS = (*ARITHMETIC, *SIGNS, *EXTREMES, *WHOLE, *COMPARISON, *CASTS)
"""Every law of floats."""
