"""Elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import (
    METHODS,
    Builtin,
    CompileScope,
    builtin,
    method,
    static,
)
from tileir.frontends.triton.tensor import Tensor, describe

_UNARY = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "expm1": "expm1", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "sqrt": "sqrt",
    "sqrt_rn": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "erf": "erf", "erfc": "erfc",
    "floor": "floor", "ceil": "ceil", "trunc": "ftrunc", "round": "fround", "rint": "frint",
    "nearbyint": "frint",
}  # fmt: skip
"""Functions of one float by the op that they are."""

_APPROXIMATE = frozenset({"exp", "exp2", "sqrt", "rsqrt"})
"""Functions that are the target's approximate instructions in float32, as in Triton: `exp` a
multiplication and `ex2.approx.f32`, `exp2` `ex2.approx.ftz.f32`, `sqrt` and `rsqrt` those with
`.ftz`."""

_BINARY = {"pow": "pow", "atan2": "atan2", "copysign": "copysign", "fmod": "frem"}
"""Functions of two floats by the op that they are."""


def _floating(x: Tensor, name: str) -> Tensor:
    """`x` as a float: integers become float32. Raises KernelError for pointers."""
    if not isinstance(x.dtype, DType):
        raise KernelError(f"{name} needs floats, not {describe(x)}")
    return x if x.dtype.is_floating() else semantic.cast(x, dtypes.float32)


def unary(name: str, op: str, *, approximate: bool) -> Builtin:
    """A function of one float that is one op. If `approximate`, float32 uses the target's
    approximate instruction."""

    def apply(s: CompileScope, x: Any) -> Tensor:
        value = _floating(tensor.of(s.b, x), name)
        options = {"fast": "approx"} if approximate and value.dtype is dtypes.float32 else {}
        return Tensor(getattr(s.b, op)(value.expr, **options), value.dtype)

    apply.__doc__ = f"`{op}` of every element; integers become float32."
    return Builtin(name, apply)


def _binary(name: str, op: str) -> Builtin:
    def apply(s: CompileScope, x: Any, y: Any) -> Tensor:
        left, right = semantic.common(s.b, x, y)
        left, right = _floating(left, name), _floating(right, name)
        return Tensor(getattr(s.b, op)(left.expr, right.expr), left.dtype)

    apply.__doc__ = f"`{op}` of every pair of elements."
    return Builtin(name, apply)


FUNCTIONS: dict[str, Builtin] = {
    **{name: unary(name, op, approximate=name in _APPROXIMATE) for name, op in _UNARY.items()},
    **{name: _binary(name, op) for name, op in _BINARY.items()},
}
"""The elementwise functions that are one op, by name."""

METHODS.update({name: FUNCTIONS[name] for name in _UNARY})


def _not_bf16(x: Tensor) -> Tensor:
    """bfloat16 as float32, in which minima and maxima are computed and returned."""
    return semantic.cast(x, dtypes.float32) if x.dtype is dtypes.bfloat16 else x


def _extremum(name: str, integer: str, number: str, propagating: str) -> Builtin:
    def apply(s: CompileScope, x: Any, y: Any, propagate_nan: Any = None) -> Tensor:
        left, right = semantic.common_tensors(s.b, *(_not_bf16(tensor.of(s.b, v)) for v in (x, y)))
        kind = left.dtype
        if not isinstance(kind, DType):
            raise KernelError(f"{name} of {describe(left)}")
        if kind.is_floating():
            op = propagating if _keeps_nan(propagate_nan) else number
        else:
            op = f"{'s' if kind.signed and not kind.is_bool() else 'u'}{integer}"
        return Tensor(getattr(s.b, op)(left.expr, right.expr), kind)

    apply.__doc__ = f"The {name} of every pair; with PropagateNan.ALL, NaN where either is."
    return Builtin(name, apply)


class PropagateNan:
    """The result of a minimum or maximum with a NaN: the number (`NONE`) or NaN (`ALL`)."""

    NONE = 0
    ALL = 0xFFFF


def _keeps_nan(propagate_nan: Any) -> bool:
    mode = static(propagate_nan, "propagate_nan")
    if mode not in (None, PropagateNan.NONE, PropagateNan.ALL):
        raise KernelError(f"propagate_nan is a value of tl.PropagateNan, not {mode!r}")
    return bool(mode)


maximum = _extremum("maximum", "max", "fmaxnum", "fmaximum")
minimum = _extremum("minimum", "min", "fminnum", "fminimum")


@builtin
def clamp(s: CompileScope, x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Tensor:
    """`x`, but at least `min` and at most `max`."""
    low = maximum.apply(s, x, min, propagate_nan)
    return minimum.apply(s, low, max, propagate_nan)


@method
def abs_(s: CompileScope, x: Any) -> Tensor:
    """Absolute value."""
    value = tensor.of(s.b, x)
    if not isinstance(value.dtype, DType):
        raise KernelError(f"abs of {describe(value)}")
    if value.dtype.is_floating():
        return Tensor(s.b.fabs(value.expr), value.dtype)
    signed = value.dtype.signed and not value.dtype.is_bool()
    return Tensor(s.b.iabs(value.expr), value.dtype) if signed else value


@builtin
def fma(s: CompileScope, x: Any, y: Any, z: Any) -> Tensor:
    """`x * y + z`, rounded once."""
    left, right = semantic.common_tensors(s.b, x, y)
    left, last = semantic.common_tensors(s.b, left, z)
    right = semantic.cast(right, left.dtype)
    left, right, last = semantic.broadcast(left, right, last)
    return Tensor(s.b.fma(left.expr, right.expr, last.expr), left.dtype)


@builtin
def fdiv(s: CompileScope, x: Any, y: Any, ieee_rounding: Any = False) -> Tensor:
    """Quotient of floats, as `x / y`; with `ieee_rounding` too, as in Triton."""
    return semantic.truediv(s.b, *(tensor.of(s.b, v) for v in (x, y)))


@builtin
def div_rn(s: CompileScope, x: Any, y: Any) -> Tensor:
    """Quotient of floats, rounded to nearest."""
    return semantic.truediv(s.b, *(tensor.of(s.b, v) for v in (x, y)), exact=True)


@builtin
def umulhi(s: CompileScope, x: Any, y: Any) -> Tensor:
    """The high half of the bits of `x * y`, for unsigned integers."""
    left, right = semantic.common_tensors(s.b, x, y)
    return Tensor(s.b.umulhi(left.expr, right.expr), left.dtype)


@method
def sigmoid(s: CompileScope, x: Any) -> Tensor:
    """`1 / (1 + exp(-x))`."""
    value = _floating(tensor.of(s.b, x), "sigmoid")
    grown = FUNCTIONS["exp"].apply(s, Tensor(s.b.fneg(value.expr), value.dtype))
    return semantic.truediv(s.b, 1.0, semantic.add(s.b, grown, 1.0))


@method
def cdiv(s: CompileScope, x: Any, div: Any) -> Any:
    """Quotient of integers, rounded up."""
    if isinstance(x, int) and isinstance(div, int):
        return -(-x // div)
    left, right = semantic.common(s.b, x, div, division=True)
    if not isinstance(left.dtype, DType) or not left.dtype.is_int():
        raise KernelError(f"cdiv needs integers, not {describe(left)}")
    divide: Callable[..., Any] = s.b.sdiv if left.dtype.signed else s.b.udiv
    return Tensor(divide(left.expr, right.expr, rounding="ceil"), left.dtype)


@builtin
def isnan(s: CompileScope, x: Any) -> Tensor:
    """Whether an element is NaN; int1."""
    return semantic.compare("ne")(s.b, x, x)


@builtin
def isinf(s: CompileScope, x: Any) -> Tensor:
    """Whether an element is infinite; int1."""
    return semantic.compare("eq")(s.b, abs_.apply(s, x), float("inf"))


def _operator(name: str, apply: Callable[..., Tensor]) -> Builtin:
    def binary(s: CompileScope, x: Any, y: Any, sanitize_overflow: Any = True) -> Tensor:
        is_checked = bool(static(sanitize_overflow, "sanitize_overflow"))
        return apply(s.b, x, y, sanitize_overflow=is_checked)

    binary.__doc__ = (
        f"The operator `{name}` as a function; without `sanitize_overflow` unchecked in debug mode."
    )
    return Builtin(name, binary)


add = _operator("add", semantic.add)
sub = _operator("sub", semantic.sub)
mul = _operator("mul", semantic.mul)


@method
def logical_and(s: CompileScope, x: Any, y: Any) -> Tensor:
    """Whether both are not 0; int1."""
    return semantic.logical_and(s.b, x, y)


@method
def logical_or(s: CompileScope, x: Any, y: Any) -> Tensor:
    """Whether one of both is not 0; int1."""
    return semantic.either(s.b, x, y)
