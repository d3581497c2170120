"""Triton's operators: promotion, broadcasting, and the op for each type.

Integers wrap. Index arithmetic is promised not to overflow once its uses are known (`index_nsw`),
unless it is unsigned.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tileir.builder import Builder
from tileir.frontends.triton import dtypes
from tileir.frontends.triton.building import contraction_attributes, note_unsigned, options_of
from tileir.frontends.triton.casting import bitcast, cast, common, common_tensors
from tileir.frontends.triton.dtypes import DType, PointerType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.shapes import broadcast, broadcast_shape, broadcast_to
from tileir.frontends.triton.tensor import Tensor, describe, literal, of

__all__ = [
    "add", "bitcast", "bitwise", "broadcast", "broadcast_shape", "broadcast_to", "cast",
    "common", "common_tensors", "compare", "condition", "either", "floordiv", "invert",
    "logical_and", "mod", "mul", "negate", "power", "scalar_condition", "shift", "sub", "truediv",
    "where",
]  # fmt: skip

# Arithmetic ---------------------------------------------------------------------------------


def add(b: Builder, x: Any, y: Any, *, sanitize_overflow: bool = True) -> Tensor:
    """The total of two operands; a pointer plus an integer advances by that number of elements."""
    left, right = of(b, x), of(b, y)
    if isinstance(right.dtype, PointerType) and not isinstance(left.dtype, PointerType):
        left, right = right, left
    if isinstance(left.dtype, PointerType):
        return _advance_pointer(b, left, right)
    return _arithmetic(b, "add", x, y, sanitize_overflow)


def sub(b: Builder, x: Any, y: Any, *, sanitize_overflow: bool = True) -> Tensor:
    """The difference of two operands; a pointer minus an integer moves back by that number of
    elements."""
    left, right = of(b, x), of(b, y)
    if isinstance(left.dtype, PointerType):
        return _advance_pointer(b, left, negate(b, _offset(right, opposite=True)))
    return _arithmetic(b, "sub", x, y, sanitize_overflow)


def mul(b: Builder, x: Any, y: Any, *, sanitize_overflow: bool = True) -> Tensor:
    """`x * y`."""
    return _arithmetic(b, "mul", x, y, sanitize_overflow)


def _advance_pointer(b: Builder, pointer: Tensor, index: Tensor) -> Tensor:
    pointer, index = broadcast(pointer, _offset(index))
    return Tensor(b.getelementptr(pointer.expr, index.expr), pointer.dtype)


def _offset(index: Tensor, *, opposite: bool = False) -> Tensor:
    """`index` as a signed integer that holds it, and, with `opposite`, its opposite, except for the
    least number of int32 and int64."""
    if not isinstance(index.dtype, DType) or not index.dtype.is_int():
        raise KernelError(f"a pointer moves by integers, not by {describe(index)}")
    if not index.dtype.signed and index.dtype.primitive_bitwidth < 64:
        return cast(index, dtypes.int64)
    is_narrow = opposite and index.dtype.primitive_bitwidth < 32
    return cast(index, dtypes.int32) if is_narrow or index.dtype.is_bool() else index


def _fold(b: Builder, function: Callable[[int, int], int], x: Tensor, y: Tensor) -> Tensor | None:
    """The result for two compile-time integers; None for other operands, or on overflow."""
    left, right = x.number, y.number
    if x.shape or not isinstance(left, int) or not isinstance(right, int):
        return None
    try:
        return literal(b, function(left, right), x.dtype)
    except (KernelError, ArithmeticError):
        return None


def _quotient(x: int, y: int) -> int:
    """Rounded to zero, as in C."""
    result = abs(x) // abs(y)
    return result if (x < 0) == (y < 0) else -result


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}


def _arithmetic(b: Builder, name: str, x: Any, y: Any, sanitize_overflow: bool) -> Tensor:
    left, right = common(b, x, y)
    kind = _number(left)
    tensor = _fold(b, _ARITHMETIC[name], left, right)
    if tensor is not None:
        return tensor
    if kind.is_floating():
        return Tensor(
            getattr(b, f"f{name}")(left.expr, right.expr, **contraction_attributes(b)), kind
        )
    if kind.is_bool():
        return Tensor(getattr(b, name)(left.expr, right.expr), kind)
    if sanitize_overflow and kind.primitive_bitwidth < 64:
        _check_overflow(b, name, left, right)
    result = getattr(b, name)(left.expr, right.expr)
    if not kind.signed:
        note_unsigned(b, result)
    return Tensor(result, kind)


def _check_overflow(b: Builder, name: str, left: Tensor, right: Tensor) -> None:
    """In debug mode, stop if an addition, subtraction or multiplication overflows."""
    options, kind = options_of(b), _number(left)
    if not (options.debug and options.sanitize_overflow):
        return
    wide = (cast(x, dtypes.int64).expr for x in (left, right))
    tensor = Tensor(getattr(b, name)(*wide), dtypes.int64)
    low, high = (literal(b, n, dtypes.int64, left.shape) for n in kind.bounds)
    fits = logical_and(b, compare("ge")(b, tensor, low), compare("le")(b, tensor, high))
    bits = kind.primitive_bitwidth
    b.assert_(fits.expr, message=f"int{bits} overflow detected for operation {name}")


def truediv(b: Builder, x: Any, y: Any, *, exact: bool = False) -> Tensor:
    """Quotient of floats; integers become float32 first. In float32 it is the target's approximate
    one (`div.full.f32`) unless `exact`, and then rounded to nearest."""
    left, right = common(b, x, y, division=True)
    if _number(left).is_int():
        left, right = cast(left, dtypes.float32), cast(right, dtypes.float32)
    approximate = left.dtype is dtypes.float32 and not exact
    fast = "approx" if approximate else "none"
    return Tensor(b.fdiv(left.expr, right.expr, fast=fast), left.dtype)


def floordiv(b: Builder, x: Any, y: Any) -> Tensor:
    """Quotient of integers, rounded to zero as in C."""
    left, right = common(b, x, y, division=True)
    kind = _number(left)
    if kind.is_floating():
        raise KernelError("// needs integers; divide floats by / and apply tl.floor")
    tensor = _fold(b, _quotient, left, right)
    if tensor is not None:
        return tensor
    divide = b.sdiv if kind.signed else b.udiv
    return Tensor(divide(left.expr, right.expr), kind)


def mod(b: Builder, x: Any, y: Any) -> Tensor:
    """Remainder with the sign of the dividend, as in C."""
    left, right = common(b, x, y, division=True)
    kind = _number(left)
    if kind.is_floating():
        return Tensor(b.frem(left.expr, right.expr), kind)
    tensor = _fold(b, lambda n, m: n - _quotient(n, m) * m, left, right)
    if tensor is not None:
        return tensor
    remainder = b.srem if kind.signed else b.urem
    return Tensor(remainder(left.expr, right.expr), kind)


def power(b: Builder, x: Any, y: Any) -> Tensor:
    """`x` to the power of `y`, floats."""
    left, right = common(b, x, y)
    if _number(left).is_int():
        left, right = cast(left, dtypes.float32), cast(right, dtypes.float32)
    return Tensor(b.pow(left.expr, right.expr), left.dtype)


def negate(b: Builder, x: Any) -> Tensor:
    """`-x`."""
    value = of(b, x)
    kind = _number(value)
    if kind.is_bool():
        raise KernelError("- needs numbers, not int1")
    tensor = _fold(b, lambda n, _: -n, value, value)
    if tensor is not None:
        return tensor
    return Tensor((b.fneg if kind.is_floating() else b.neg)(value.expr), kind)


def invert(b: Builder, x: Any) -> Tensor:
    """All bits flipped; of a condition, its opposite."""
    value = of(b, x)
    kind = _number(value)
    if kind.is_floating():
        raise KernelError(f"~ needs integers, not {kind}")
    ones = literal(b, True if kind.is_bool() else -1, _as_signed(kind), value.shape)
    return Tensor(b.xor(value.expr, ones.expr), kind)


def bitwise(name: str) -> Callable[[Builder, Any, Any], Tensor]:
    """`&`, `|` or `^`."""

    def apply(b: Builder, x: Any, y: Any) -> Tensor:
        left, right = common(b, x, y)
        if _number(left).is_floating():
            raise KernelError(f"bits of {describe(left)} are not combined; bitcast it first")
        return Tensor(getattr(b, name)(left.expr, right.expr), left.dtype)

    return apply


def shift(name: str) -> Callable[[Builder, Any, Any], Tensor]:
    """`<<` or `>>`, of the type that both have in common. A shift to the right keeps the sign where
    what is shifted was signed before (of a number: where the tensor next to it is)."""

    def apply(b: Builder, x: Any, y: Any) -> Tensor:
        left, right = common(b, x, y)
        kind = _number(left)
        if kind.is_floating():
            raise KernelError(f"{describe(left)} is not shifted; bitcast it first")
        shifted = next((t.dtype for t in (x, y) if isinstance(t, Tensor)), kind)
        signed = isinstance(shifted, DType) and shifted.is_int_signed()
        op = "shl" if name == "left" else "ashr" if signed else "lshr"
        return Tensor(getattr(b, op)(left.expr, right.expr), kind)

    return apply


# Comparison ---------------------------------------------------------------------------------


_RELATIONS: dict[str, Callable[[int, int], int]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def compare(name: str) -> Callable[[Builder, Any, Any], Tensor]:
    """`lt`, `le`, `gt`, `ge`, `eq` or `ne`; int1. A NaN is only unequal. A number has its own type
    here: float16 next to 0.1 is compared as float32."""

    def apply(b: Builder, x: Any, y: Any) -> Tensor:
        left, right = common_tensors(b, x, y)
        folded = _fold(b, _RELATIONS[name], left, right)
        if folded is not None:
            return literal(b, bool(folded.number), dtypes.int1)
        if isinstance(left.dtype, DType) and left.dtype.is_floating():
            relation: Any = "une" if name == "ne" else f"o{name}"
            result = b.fcmp(left.expr, right.expr, predicate=relation)[0]
            return Tensor(result, dtypes.int1)
        signed = isinstance(left.dtype, DType) and left.dtype.signed and not left.dtype.is_bool()
        relation = name if name in ("eq", "ne") else f"{'s' if signed else 'u'}{name}"
        return Tensor(b.icmp(left.expr, right.expr, predicate=relation)[0], dtypes.int1)

    return apply


def condition(b: Builder, x: Any) -> Tensor:
    """`x` as int1: whether it is not 0."""
    value = of(b, x)
    return value if value.dtype is dtypes.int1 else cast(value, dtypes.int1)


def scalar_condition(b: Builder, x: Any) -> Tensor:
    """The condition of a branch or loop: an int1, or the only element of a tensor. Raises
    KernelError."""
    chosen = condition(b, x)
    if not chosen.shape:
        return chosen
    if math.prod(chosen.shape) != 1:
        raise KernelError(f"a condition is one int1, not {describe(chosen)}; use tl.where")
    return Tensor(chosen.expr.reshape(), chosen.dtype)


def logical_and(b: Builder, x: Any, y: Any) -> Tensor:
    """`x and y` of conditions."""
    left, right = broadcast(condition(b, x), condition(b, y))
    return Tensor(b.and_(left.expr, right.expr), dtypes.int1)


def either(b: Builder, x: Any, y: Any) -> Tensor:
    """`x or y` of conditions."""
    left, right = broadcast(condition(b, x), condition(b, y))
    return Tensor(b.or_(left.expr, right.expr), dtypes.int1)


def where(b: Builder, chosen: Any, x: Any, y: Any) -> Tensor:
    """`x` where `chosen`, else `y`."""
    selected = condition(b, chosen)
    left, right = common(b, x, y)
    selected, left, right = broadcast(selected, left, right)
    return Tensor(b.select(selected.expr, left.expr, right.expr), left.dtype)


def _number(x: Tensor) -> DType:
    if isinstance(x.dtype, PointerType):
        raise KernelError(f"arithmetic on {describe(x)}")
    return x.dtype


def _as_signed(kind: DType) -> DType:
    return next(t for t in dtypes.ALL if t.element is kind.element and t.signed)
