"""Functions of libdevice that are formulas of several ops (CUDA Math API; libdevice user's guide).

Those that are one op are in `arithmetic.py`. Floats of 8 and 16 bits are computed as float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from tileir.builder import Builder, Expr
from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language import special32
from tileir.frontends.triton.language.arithmetic import unary
from tileir.frontends.triton.language.builtin import Builtin, CompileScope
from tileir.frontends.triton.tensor import Tensor, describe

Formula: TypeAlias = Callable[..., Expr]
"""A function of a builder and values of one type and shape."""

FUNCTIONS: dict[str, Builtin] = {}
"""The functions by name, without `__nv_`."""


def of_floats(name: str, formula: Formula, result: DType | None = None) -> None:
    """A function of floats; integers become float32. `result` is its type, the operands' where
    there is none."""

    def apply(s: CompileScope, *operands: Any) -> Tensor:
        values = common(s, name, operands)
        kind = result or values[0].dtype
        return Tensor(formula(s.b, *(x.expr for x in values)), kind)

    FUNCTIONS[name] = Builtin(name, apply)


def common(s: CompileScope, name: str, operands: tuple[Any, ...]) -> list[Tensor]:
    """Operands as floats of one type and shape. Raises KernelError."""
    first = tensor.of(s.b, operands[0])
    for other in operands[1:]:
        first = semantic.common(s.b, first, other)[0]
    if not isinstance(first.dtype, DType):
        raise KernelError(f"{name} needs floats, not {describe(first)}")
    wide = first.dtype if first.dtype is dtypes.float64 else dtypes.float32
    result = (semantic.cast(tensor.of(s.b, x), wide) for x in operands)
    return [semantic.broadcast_to(x, first.shape) for x in result]


def number(x: Expr, value: float) -> Expr:
    """`value` at the type and shape of `x`."""
    return x.builder.constant(x.type, value)


# Rounded in a given way ---------------------------------------------------------------------

_ROUNDINGS = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}
"""CUDA's name of a rounding by that of an op."""


def _with_rounding(op: str, rounding: str, b: Builder, *operands: Expr) -> Expr:
    return getattr(b, op)(*operands, rounding=rounding)


def _reciprocal(rounding: Any, b: Builder, x: Expr) -> Expr:
    return b.fdiv(number(x, 1.0), x, rounding=rounding)


def exact(op: str) -> Builtin:
    """The function of one float that is `op`, without the target's approximations."""
    return unary(op, op, approximate=False)


EXACT: dict[str, Builtin] = {"exp": exact("exp"), "sqrt_rn": exact("sqrt")}
"""Functions that are approximate under the same name in `tl`, and not in libdevice."""

for _name, _mode in _ROUNDINGS.items():
    for _op in ("add", "sub", "mul", "div"):
        of_floats(f"{_op}_{_name}", partial(_with_rounding, f"f{_op}", _mode))
    of_floats(f"fma_{_name}", partial(_with_rounding, "fma", _mode))
    of_floats(f"rcp_{_name}", partial(_reciprocal, _mode))
of_floats("rsqrt_rn", lambda b, x: number(x, 1.0) / b.sqrt(x))

_TO_WHOLE = {"rn": "frint", "rz": "ftrunc", "rd": "floor", "ru": "ceil"}


def _round_to_integer(op: str, to: DType, b: Builder, x: Expr) -> Expr:
    return getattr(b, op)(x).to(to.element, signed=to.signed)


_INTEGERS = {
    "int": dtypes.int32, "uint": dtypes.uint32, "ll": dtypes.int64, "ull": dtypes.uint64,
}  # fmt: skip

for _name, _kind in _INTEGERS.items():
    for _mode, _op in _TO_WHOLE.items():
        for _float in ("float", "double"):
            of_floats(f"{_float}2{_name}_{_mode}", partial(_round_to_integer, _op, _kind), _kind)
of_floats("llrint", partial(_round_to_integer, "frint", dtypes.int64), dtypes.int64)
of_floats("llround", partial(_round_to_integer, "fround", dtypes.int64), dtypes.int64)


# The target's approximations ----------------------------------------------------------------


def _one(op: str, b: Builder, *operands: Expr) -> Expr:
    return getattr(b, op)(*operands, fast="fast")


def _fast_quotient(b: Builder, x: Expr, y: Expr) -> Expr:
    return x * b.fdiv(number(x, 1.0), y, fast="approx", ftz=True)


def _fast_power(b: Builder, x: Expr, y: Expr) -> Expr:
    return b.exp2(y * b.log2(x, fast="fast"), fast="fast")


for _name in ("cos", "sin", "tan", "exp", "log", "log2", "log10", "tanh"):
    of_floats(f"fast_{_name}f", partial(_one, _name))
of_floats("fast_exp10f", lambda b, x: b.exp2(x * math.log2(10.0), fast="fast"))
of_floats("fast_dividef", _fast_quotient)
of_floats("fast_powf", _fast_power)


# Powers, roots, distances -------------------------------------------------------------------


def _positive_difference(b: Builder, x: Expr, y: Expr) -> Expr:
    return b.select(x <= y, number(x, 0.0), x - y)


def _remainder(b: Builder, x: Expr, y: Expr) -> Expr:
    """IEEE 754's remainder: `x - n * y`, `n` the integer nearest to `x / y`, even in ties."""
    size, step = b.fabs(x), b.fabs(y)
    remainder = b.frem(size, step * 2.0)
    once = remainder - step
    twice = b.select(once + once >= step, once - step, once)
    remainder = b.select(remainder + remainder > step, twice, remainder)
    remainder = b.select(step == number(x, math.inf), size, remainder)
    return b.select(x < number(x, 0.0), -remainder, remainder)


for _name in ("hypot", "norm3d", "norm4d"):
    of_floats(_name, special32.hypot)
for _name in ("rhypot", "rnorm3d", "rnorm4d"):
    of_floats(_name, special32.inverse_hypot)
of_floats("rcbrt", lambda b, x: b.fdiv(number(x, 1.0), b.cbrt(x), fast="approx"))
of_floats("exp10", special32.exp10)
of_floats("sinpi", special32.sinpi)
of_floats("cospi", special32.cospi)
of_floats("fdim", _positive_difference)
of_floats("remainder", _remainder)
of_floats("saturatef", lambda b, x: b.fminnum(b.fmaxnum(x, number(x, 0.0)), number(x, 1.0)))
