"""Mathematical functions, elementwise.

The bounds are what a GPU's libraries reach in f32 and f64 (CUDA C++ Programming Guide, appendix
on mathematical functions). `fast = approx` permits the approximate instructions of the target,
which exceed the bounds. On NVIDIA GPUs these are, in f32 (PTX ISA, "Floating-Point Instructions"):

- `exp2`: `ex2.approx.ftz.f32`; `exp`: a product and `ex2.approx.f32` (`fast`: `.ftz`)
- `log2`: `lg2.approx.f32` (`fast`: `.ftz`); `log`, `log10`: the same and a product
- `sin`, `cos`: `sin.approx.f32`, `cos.approx.f32` (`fast`: `.ftz`); `tan`: both and a quotient
- `tanh`: `tanh.approx.f32`; `sqrt`, `rsqrt`: `sqrt.approx.ftz.f32`, `rsqrt.approx.ftz.f32`
- `pow`: `lg2.approx.f32`, a product and `ex2.approx.ftz.f32`

with a relative error of a few units, but near the zeros of `log`, `sin`, `cos`, where it is
absolute; `.ftz` takes subnormals as zeros. Other functions, and f64, stay within their bounds. The
interpreter computes f32 and narrower types to half a unit, f64 within the stated bound, by
algorithms of its own, so that its results depend on no library.
"""

from __future__ import annotations

from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    ROUNDED,
    STRING,
    Effects,
    Numerics,
    Op,
    attribute,
    family,
    one_of,
    op,
    result_type,
    ulp,
    variadic,
)
from tileir.ops.floats import FastMath, FloatBinary, FloatUnary
from tileir.signature import NUMBERS, POINTERS, Each, TypeVariable
from tileir.types import Type, shape_of
from tileir.values import Operand

R = TypeVariable("R", NUMBERS)


@family
class MathUnary(FloatUnary):
    """A function of one float; `fast` allows approximations."""

    fast: FastMath = attribute(one_of(FastMath), default=FastMath.NONE)


@family
class MathBinary(FloatBinary):
    """A function of two floats; `fast` allows approximations."""

    fast: FastMath = attribute(one_of(FastMath), default=FastMath.NONE)


@op("exp")
class Exp(MathUnary):
    """e to the power of `value`.

    `%r = exp f32<64> %a {fast = approx}`
    """

    numerics = ulp(2)


@op("exp2")
class Exp2(MathUnary):
    """2 to the power of `value`.

    `%r = exp2 f32<64> %a`
    """

    numerics = ulp(2)


@op("expm1")
class ExpM1(MathUnary):
    """e to the power of `value`, less 1, accurate near 0.

    `%r = expm1 f32<64> %a`
    """

    numerics = ulp(2)


@op("log")
class Log(MathUnary):
    """Natural logarithm; NaN below 0, -inf at 0.

    `%r = log f32<64> %a`
    """

    numerics = ulp(2)


@op("log2")
class Log2(MathUnary):
    """Logarithm to base 2; NaN below 0, -inf at 0.

    `%r = log2 f32<64> %a`
    """

    numerics = ulp(2)


@op("log10")
class Log10(MathUnary):
    """Logarithm to base 10; NaN below 0, -inf at 0.

    `%r = log10 f32<64> %a`
    """

    numerics = ulp(2)


@op("log1p")
class Log1P(MathUnary):
    """Natural logarithm of 1 + `value`, accurate near 0; NaN below -1.

    `%r = log1p f32<64> %a`
    """

    numerics = ulp(2)


@op("sin")
class Sin(MathUnary):
    """Sine of radians, of any size; NaN of infinities.

    `%r = sin f32<64> %a`
    """

    numerics = ulp(2)


@op("cos")
class Cos(MathUnary):
    """Cosine of radians, of any size; NaN of infinities.

    `%r = cos f32<64> %a`
    """

    numerics = ulp(2)


@op("tan")
class Tan(MathUnary):
    """Tangent of radians, of any size; NaN of infinities.

    `%r = tan f32<64> %a`
    """

    numerics = ulp(4)


@op("asin")
class ASin(MathUnary):
    """Arc sine in -pi/2 to pi/2; NaN beyond -1 and 1.

    `%r = asin f32<64> %a`
    """

    numerics = ulp(3)


@op("acos")
class ACos(MathUnary):
    """Arc cosine in 0 to pi; NaN beyond -1 and 1.

    `%r = acos f32<64> %a`
    """

    numerics = ulp(3)


@op("atan")
class ATan(MathUnary):
    """Arc tangent in -pi/2 to pi/2.

    `%r = atan f32<64> %a`
    """

    numerics = ulp(2)


@op("sinh")
class SinH(MathUnary):
    """Hyperbolic sine.

    `%r = sinh f32<64> %a`
    """

    numerics = ulp(3)


@op("cosh")
class CosH(MathUnary):
    """Hyperbolic cosine.

    `%r = cosh f32<64> %a`
    """

    numerics = ulp(2)


@op("tanh")
class TanH(MathUnary):
    """Hyperbolic tangent.

    `%r = tanh f32<64> %a`
    """

    numerics = ulp(3)


@op("asinh")
class ASinH(MathUnary):
    """Inverse hyperbolic sine.

    `%r = asinh f32<64> %a`
    """

    numerics = ulp(3)


@op("acosh")
class ACosH(MathUnary):
    """Inverse hyperbolic cosine; NaN below 1.

    `%r = acosh f32<64> %a`
    """

    numerics = ulp(4)


@op("atanh")
class ATanH(MathUnary):
    """Inverse hyperbolic tangent; NaN beyond -1 and 1.

    `%r = atanh f32<64> %a`
    """

    numerics = ulp(3)


@op("erf")
class Erf(MathUnary):
    """Error function.

    `%r = erf f32<64> %a`
    """

    numerics = ulp(2)


@op("erfc")
class ErfC(MathUnary):
    """1 - erf(`value`), accurate where erf is near 1.

    `%r = erfc f32<64> %a`
    """

    numerics = ulp(5)


@op("rsqrt")
class RSqrt(MathUnary):
    """1 / sqrt(`value`); an infinity of the same sign for zeros, NaN below 0.

    `%r = rsqrt f32<64> %a`
    """

    numerics = ulp(2)


@op("cbrt")
class Cbrt(MathUnary):
    """Cube root, with the sign of the operand.

    `%r = cbrt f32<64> %a`
    """

    numerics = ulp(2)


@op("sqrt")
class Sqrt(MathUnary):
    """Square root, rounded once; NaN below 0; -0.0 at -0.0.

    `%r = sqrt f32<64> %a`
    """

    numerics = ROUNDED


@op("floor")
class Floor(FloatUnary):
    """Largest integer at or below the operand; a zero has the sign of the operand.

    `%r = floor f32<64> %a`
    """


@op("ceil")
class Ceil(FloatUnary):
    """Smallest integer at or above the operand; a zero has the sign of the operand.

    `%r = ceil f32<64> %a`
    """


@op("ftrunc")
class FTrunc(FloatUnary):
    """Operand rounded to zero; a zero has the sign of the operand.

    `%r = ftrunc f32<64> %a`
    """


@op("fround")
class FRound(FloatUnary):
    """Nearest integer, halves away from zero.

    `%r = fround f32<64> %a`
    """


@op("frint")
class FRint(FloatUnary):
    """Nearest integer, halves to even.

    `%r = frint f32<64> %a`
    """


@op("pow")
class Pow(MathBinary):
    """`lhs` to the power of `rhs`, special cases as in C (IEEE 754-2019 9.2.1): 1 to anything and
    anything to 0 are 1; NaN for a finite negative base and a finite exponent that is not an
    integer.

    `%r = pow f32<64> %a, %b`"""

    numerics = ulp(4)


@op("atan2")
class ATan2(MathBinary):
    """Angle of the point (`rhs`, `lhs`) in -pi to pi, signed zeros and infinities as in C.

    `%r = atan2 f32<64> %y, %x`
    """

    numerics = ulp(3)


@op("extern_elementwise")
class ExternElementwise(Op):
    """Apply a scalar function of a device library, given by its `symbol`, elementwise to operands
    of one shape. A function that is not `pure` is never removed, repeated or moved. The interpreter
    runs the functions of libdevice that have an op here (`__nv_expf` and others).

    `%r = extern_elementwise f32<64> %a, %b {symbol = "__nv_powf"}`
    """

    to: Type = result_type(R)
    values: tuple[Operand, ...] = variadic(Each(NUMBERS | POINTERS))
    symbol: str = attribute(STRING)
    library: str = attribute(STRING, default="libdevice")
    pure: bool = attribute(BOOL_ATTRIBUTE, default=True)
    results_ = (R,)
    elementwise = True
    may_be_undefined = True
    numerics = Numerics(ulp=None)

    def verify(self) -> None:
        if not self.symbol.replace("_", "a").replace(".", "a").isalnum():
            raise self.fail("TIR0106", f"{self.symbol!r} is not a symbol", "symbol")
        for value in self.values:
            if shape_of(value.type) != shape_of(self.to):
                message = f"operands and result have one shape: {value.type} and {self.to}"
                raise self.fail("TIR0112", message, "values")

    @property
    def effects(self) -> Effects:
        return Effects.PURE if self.pure else Effects.READ | Effects.WRITE | Effects.OUTSIDE

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return machine.extern(self.symbol, values, self)
