"""Functions of libdevice that round down, up or toward zero and have no op, and those of the two
words of a double (CUDA Math API). A result is rounded to nearest first. It is replaced by its
neighbour if the exact value is below it and rounds down, or above it and rounds up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tileir.builder import Builder, Expr
from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.language.builtin import Builtin, CompileScope
from tileir.frontends.triton.language.device_functions import FUNCTIONS, number, of_floats
from tileir.frontends.triton.language.special32 import is_float32
from tileir.frontends.triton.tensor import Tensor
from tileir.types import F32, F64, I32, I64, tile


def _neighbour(direction: str, b: Builder, nearest: Expr, too_high: Expr, too_low: Expr) -> Expr:
    """`nearest`, or the float below it where it is too high and above it where it is too low for a
    value that is rounded in `direction`: `rd`, `ru` or `rz`."""
    integer = tile(I32 if is_float32(nearest) else I64, nearest.shape)
    bits = b.bitcast(nearest, integer)
    negative = bits < number(bits, 0)
    if direction == "rz":  # the float that is nearer to zero
        step = b.select(b.select(negative, too_low, too_high), number(bits, -1), number(bits, 0))
    elif direction == "rd":
        away = b.select(negative, number(bits, 1), number(bits, -1))
        step = b.select(too_high, away, number(bits, 0))
    else:
        away = b.select(negative, number(bits, -1), number(bits, 1))
        step = b.select(too_low, away, number(bits, 0))
    return b.bitcast(bits + step, nearest.type)


def _narrow(direction: str, b: Builder, x: Expr) -> Expr:
    """float64 as float32."""
    nearest = x.to(F32)
    back = nearest.to(F64)
    return _neighbour(direction, b, nearest, back > x, back < x)


def _long_to_double(signed: bool, direction: str, b: Builder, x: Expr) -> Expr:
    """An integer of 64 bits: its words are floats, whose sum is rounded."""
    high = b.ashr(x, number(x, 32)) if signed else b.lshr(x, number(x, 32))
    low = x & number(x, 0xFFFFFFFF)
    upper = high.to(F64, signed=True) * 2.0**32
    return b.fadd(upper, low.to(F64, signed=True), rounding=_MODES[direction])


def _long_to_float(signed: bool, direction: str, b: Builder, x: Expr) -> Expr:
    """Two roundings in one direction, which equal one."""
    return _narrow(direction, b, _long_to_double(signed, direction, b, x))


def _short_to_float(signed: bool, direction: str, b: Builder, x: Expr) -> Expr:
    return _narrow(direction, b, x.to(F64, signed=signed))


def _root(direction: str, b: Builder, x: Expr) -> Expr:
    """The square root. The square of the nearest one minus `x` has the sign of its error; in
    float64 both are scaled where it would be too small for a float."""
    if is_float32(x):
        nearest, exact = b.sqrt(x), x.to(F64)
        square = nearest.to(F64) * nearest.to(F64)
        return _neighbour(direction, b, nearest, square > exact, square < exact)
    small = x < number(x, _SMALL)
    scaled = x * b.select(small, number(x, 2.0**200), number(x, 1.0))
    nearest = b.sqrt(scaled)
    error = b.fma(nearest, nearest, -scaled)
    zero = number(x, 0.0)
    result = _neighbour(direction, b, nearest, error > zero, error < zero)
    return result * b.select(small, number(x, 2.0**-100), number(x, 1.0))


_SMALL = 2.0**-900

_MODES: dict[str, Any] = {"rz": "rz", "rd": "rm", "ru": "rp"}
"""CUDA's name of a direction by that of an op."""


def _convert(name: str, source: DType, to: DType, formula: Callable[[Builder, Expr], Expr]) -> None:
    def apply(s: CompileScope, x: Any) -> Tensor:
        return Tensor(formula(s.b, semantic.cast(tensor.of(s.b, x), source).expr), to)

    FUNCTIONS[name] = Builtin(name, apply)


for _direction in _MODES:
    _convert(f"double2float_{_direction}", dtypes.float64, dtypes.float32,
             partial(_narrow, _direction))  # fmt: skip
    for _letter, _short, _long in (
        ("", dtypes.int32, dtypes.int64), ("u", dtypes.uint32, dtypes.uint64)
    ):  # fmt: skip
        _signed = not _letter
        _convert(f"{_letter}int2float_{_direction}", _short, dtypes.float32,
                 partial(_short_to_float, _signed, _direction))  # fmt: skip
        _convert(f"{_letter}ll2float_{_direction}", _long, dtypes.float32,
                 partial(_long_to_float, _signed, _direction))  # fmt: skip
        _convert(f"{_letter}ll2double_{_direction}", _long, dtypes.float64,
                 partial(_long_to_double, _signed, _direction))  # fmt: skip
    of_floats(f"sqrt_{_direction}", partial(_root, _direction))


# The words of a double ----------------------------------------------------------------------


def _word(shift: int, b: Builder, x: Expr) -> Expr:
    bits = b.bitcast(x, tile(I64, x.shape))
    return b.lshr(bits, number(bits, shift)).to(I32)


def _reciprocal_of_high_word(b: Builder, x: Expr) -> Expr:
    """1 / x of the high words alone; the low word of the result is zero. Denormals are zeros (PTX
    ISA, rcp.approx.ftz.f64)."""
    high = _only_high_word(b, x)
    inverse = _only_high_word(b, number(x, 1.0) / _without_denormals(b, high))
    return _without_denormals(b, inverse)


def _only_high_word(b: Builder, x: Expr) -> Expr:
    bits = b.bitcast(x, tile(I64, x.shape))
    cut = b.bitcast(bits & number(bits, -(1 << 32)), x.type)
    return b.select(x == x, cut, x)  # the payload of a NaN may be in the low word


def _without_denormals(b: Builder, x: Expr) -> Expr:
    denormal = b.fabs(x) < number(x, 2.0**-1022)
    return b.select(denormal, b.copysign(number(x, 0.0), x), x)


def _double_of_words(s: CompileScope, high: Any, low: Any) -> Tensor:
    b = s.b
    upper, lower = semantic.broadcast(
        semantic.cast(tensor.of(b, high), dtypes.int32),
        semantic.cast(tensor.of(b, low), dtypes.int32),
    )
    bits = (upper.expr.to(I64) << 32) | lower.expr.to(I64, signed=False)
    return Tensor(b.bitcast(bits, tile(F64, bits.shape)), dtypes.float64)


_convert("double2hiint", dtypes.float64, dtypes.int32, partial(_word, 32))
_convert("double2loint", dtypes.float64, dtypes.int32, partial(_word, 0))
_convert("rcp64h", dtypes.float64, dtypes.float64, _reciprocal_of_high_word)
FUNCTIONS["hiloint2double"] = Builtin("hiloint2double", _double_of_words)
