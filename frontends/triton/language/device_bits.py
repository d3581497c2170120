"""Functions of libdevice on the bits of floats and of integers (CUDA Math API)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tileir.builder import Builder, Expr
from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import Builtin, CompileScope
from tileir.frontends.triton.language.device_functions import FUNCTIONS, Formula, number, of_floats
from tileir.frontends.triton.tensor import Tensor, describe
from tileir.types import F64, I32, I64, Type, element_of, tile

_BIAS, _MANTISSA = 1023, 52
"""The exponent bias and the mantissa bits of float64."""


def like(x: Expr, kind: DType) -> Type:
    """The type of `kind` at the shape of `x`."""
    return tile(kind.element, x.shape)


# Floats -------------------------------------------------------------------------------------


def _same_bits(to: DType, b: Builder, x: Expr) -> Expr:
    return b.bitcast(x, like(x, to))


def _integer_of(x: Expr) -> DType:
    return dtypes.int64 if element_of(x.type) is F64 else dtypes.int32


def _sign(b: Builder, x: Expr) -> Expr:
    bits = _same_bits(_integer_of(x), b, x)
    return (bits < number(bits, 0)).to(I32, signed=False)


def _finite(b: Builder, x: Expr) -> Expr:
    return (b.fabs(x) < number(x, math.inf)).to(I32, signed=False)


def _exponent(b: Builder, x: Expr) -> Expr:
    """The exponent of a number other than 0, as int32; subnormal numbers have theirs in float64."""
    wide = b.fabs(x).to(F64) * 2.0**64 if element_of(x.type) is F64 else b.fabs(x).to(F64)
    extra = 64 if element_of(x.type) is F64 else 0
    bits = _same_bits(dtypes.int64, b, wide)
    return (b.lshr(bits, number(bits, _MANTISSA)) - (_BIAS + extra)).to(I32)


def _ilogb(b: Builder, x: Expr) -> Expr:
    result = _exponent(b, x)
    result = b.select(x == number(x, 0.0), number(result, -(2**31)), result)
    return b.select(b.fabs(x) < number(x, math.inf), result, number(result, 2**31 - 1))


def _logb(b: Builder, x: Expr) -> Expr:
    kind: Any = element_of(x.type)
    result = _exponent(b, x).to(kind)
    result = b.select(x == number(x, 0.0), number(x, -math.inf), result)
    return b.select(b.fabs(x) < number(x, math.inf), result, x * x)


def _next(b: Builder, x: Expr, y: Expr) -> Expr:
    """The number after `x` on the way to `y`."""
    kind = _integer_of(x)
    bits = _same_bits(kind, b, x)
    one = number(bits, 1)
    away = (x < y) == (x > number(x, 0.0))
    stepped = b.bitcast(b.select(away, bits + one, bits - one), x.type)
    smallest = b.bitcast(one, x.type)
    first = b.select(y > x, smallest, -smallest)
    result = b.select(x == number(x, 0.0), first, stepped)
    result = b.select(x == y, y, result)
    return b.select((x == x) & (y == y), result, x + y)


def _power_of_two(b: Builder, n: Expr) -> Expr:
    """A power of two, from an int64 within the range of float64's exponents."""
    return b.bitcast((n + _BIAS) << _MANTISSA, tile(F64, n.shape))


_FARTHEST = 2200
"""An exponent n for which 2^n times any number other than 0 and infinity exceeds the range of
float64."""


def _ldexp(s: CompileScope, x: Any, n: Any) -> Tensor:
    """`x * 2 ** n`, in three steps so that no intermediate result exceeds the range."""
    value, by = semantic.broadcast(
        tensor.of(s.b, x), semantic.cast(tensor.of(s.b, n), dtypes.int64)
    )
    if not value.dtype.is_floating():
        value = semantic.cast(value, dtypes.float32)
    b = s.b
    count = b.smax(b.smin(by.expr, number(by.expr, _FARTHEST)), number(by.expr, -_FARTHEST))
    third = b.sdiv(count, number(count, 3))
    step, last_step = _power_of_two(b, third), _power_of_two(b, count - third - third)
    result = semantic.cast(value, dtypes.float64).expr * last_step * step * step
    return semantic.cast(Tensor(result, dtypes.float64), value.dtype)


of_floats("signbit", _sign, dtypes.int32)
of_floats("finitef", _finite, dtypes.int32)
of_floats("isfinited", _finite, dtypes.int32)
of_floats("float_as_int", partial(_same_bits, dtypes.int32), dtypes.int32)
of_floats("float_as_uint", partial(_same_bits, dtypes.uint32), dtypes.uint32)
of_floats("double_as_longlong", partial(_same_bits, dtypes.int64), dtypes.int64)
of_floats("ilogb", _ilogb, dtypes.int32)
of_floats("logb", _logb)
of_floats("nextafter", _next)
FUNCTIONS["ldexp"] = Builtin("ldexp", _ldexp)
FUNCTIONS["scalbn"] = Builtin("scalbn", _ldexp)


# Integers -----------------------------------------------------------------------------------


def _of_integers(name: str, formula: Formula, result: DType | None = None) -> None:
    """A function of integers of one type."""

    def apply(s: CompileScope, *operands: Any) -> Tensor:
        first = tensor.of(s.b, operands[0])
        for other in operands[1:]:
            first = semantic.common(s.b, first, other)[0]
        if not isinstance(first.dtype, DType) or not first.dtype.is_int():
            raise KernelError(f"{name} needs integers, not {describe(first)}")
        kind = first.dtype
        values = (semantic.cast(tensor.of(s.b, x), kind) for x in operands)
        exprs = [semantic.broadcast_to(x, first.shape).expr for x in values]
        expr = formula(s.b, *exprs, signed=kind.signed)
        return semantic.cast(Tensor(expr, kind), result or kind)

    FUNCTIONS[name] = Builtin(name, apply)


def _bits(x: Expr) -> int:
    return element_of(x.type).bits  # type: ignore[union-attr]


def _first_set(b: Builder, x: Expr, signed: bool) -> Expr:
    """The place of the lowest bit that is set, from 1; 0 where none is."""
    return number(x, _bits(x)) - b.clz(x & (number(x, 0) - x))


def _reverse_bits(b: Builder, x: Expr, signed: bool) -> Expr:
    """All bits in the opposite order: neighbours change places, then pairs of them, and so on."""
    width, size = 1, _bits(x)
    while width < size:
        mask = sum(((1 << width) - 1) << at for at in range(0, size, 2 * width))
        low = number(x, mask - (1 << size) if mask >> size - 1 else mask)
        x = ((x & low) << width) | (b.lshr(x, number(x, width)) & low)
        width *= 2
    return x


def _multiply_high(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    return b.smulhi(x, y) if signed else b.umulhi(x, y)


def _half(b: Builder, x: Expr, signed: bool) -> Expr:
    by = number(x, 1)
    return b.ashr(x, by) if signed else b.lshr(x, by)


def _least(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    return b.smin(x, y) if signed else b.umin(x, y)


def _greatest(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    return b.smax(x, y) if signed else b.umax(x, y)


def _multiply_24_bits(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    by = number(x, 8)
    shift = b.ashr if signed else b.lshr
    return b.mul(shift(x << 8, by), shift(y << 8, by))


def _distance(b: Builder, x: Expr, y: Expr, z: Expr, signed: bool) -> Expr:
    return b.sub(_greatest(b, x, y, signed), _least(b, x, y, signed)) + z


def _permute_bytes(b: Builder, x: Expr, y: Expr, chosen: Expr, signed: bool) -> Expr:
    """Four of the eight bytes of `x` and `y`, each by four bits of `chosen` (PTX ISA, prmt): its
    number, and whether its sign is replicated."""
    wide = (y.to(I64, signed=False) << 32) | x.to(I64, signed=False)
    expr = number(x, 0)
    for place in range(4):
        code = b.lshr(chosen, number(chosen, 4 * place))
        at = ((code & 7) << 3).to(I64, signed=False)
        byte = b.lshr(wide, at).to(I32) & 255
        sign = number(byte, 0) - b.lshr(byte, number(byte, 7))
        byte = b.select((code & 8) == number(code, 8), sign & 255, byte)
        expr = expr | (byte << 8 * place)
    return expr


def _mean(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    return (x & y) + _half(b, x ^ y, signed)


def _mean_up(b: Builder, x: Expr, y: Expr, signed: bool) -> Expr:
    return (x | y) - _half(b, x ^ y, signed)


_of_integers("popc", lambda b, x, signed: b.ctpop(x), dtypes.int32)
_of_integers("clz", lambda b, x, signed: b.clz(x), dtypes.int32)
_of_integers("ffs", _first_set, dtypes.int32)
_of_integers("brev", _reverse_bits)
_of_integers("mulhi", _multiply_high)
_of_integers("mul24", _multiply_24_bits)
_of_integers("sad", _distance)
_of_integers("byte_perm", _permute_bytes)
_of_integers("hadd", _mean)
_of_integers("rhadd", _mean_up)


def _conversion(name: str, source: DType, to: DType, bits: bool = False) -> None:
    """Integers of one type as floats, or as the floats that have their bits."""

    def apply(s: CompileScope, x: Any) -> Tensor:
        value = semantic.cast(tensor.of(s.b, x), source)
        return semantic.bitcast(value, to) if bits else semantic.cast(value, to)

    FUNCTIONS[name] = Builtin(name, apply)


for _name, _kind in (
    ("int", dtypes.int32), ("uint", dtypes.uint32), ("ll", dtypes.int64), ("ull", dtypes.uint64),
):  # fmt: skip
    _conversion(f"{_name}2float_rn", _kind, dtypes.float32)
    _conversion(f"{_name}2double_rn", _kind, dtypes.float64)
_conversion("double2float_rn", dtypes.float64, dtypes.float32)
_conversion("int_as_float", dtypes.int32, dtypes.float32, bits=True)
_conversion("uint_as_float", dtypes.uint32, dtypes.float32, bits=True)
_conversion("longlong_as_double", dtypes.int64, dtypes.float64, bits=True)
