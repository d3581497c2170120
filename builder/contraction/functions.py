"""Elementwise functions of terms, and the monoids of reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tileir.builder.arguments import as_number
from tileir.builder.builder import Builder
from tileir.builder.expr import Expr
from tileir.builder.promotion import common, common_scalar
from tileir.types import F32, I1, I32, Element, Scalar, element_of


def call(b: Builder, name: str, arguments: tuple[Any, ...]) -> Expr:
    """The function `name` of values and numbers, at least one a value."""
    if all(as_number(x) is not None for x in arguments):
        first = arguments[0]
        arguments = (b.constant(number_kind(first), first), *arguments[1:])
    return FUNCTIONS[name](b, *arguments)


def number_kind(value: float) -> Scalar:
    """The type of a number without a typed operand next to it."""
    return I1 if isinstance(value, bool) else I32 if isinstance(value, int) else F32


def is_float(x: Any) -> bool:
    """Whether x is a floating-point value or number."""
    if not isinstance(x, Expr):
        return isinstance(x, float)
    element = element_of(x.type)
    return isinstance(element, Scalar) and element.is_float


def _real(b: Builder, x: Any) -> Expr:
    """x as a float."""
    x = x if isinstance(x, Expr) else b.constant(F32, x)
    return x if is_float(x) else x.to(F32)


def _unary(mnemonic: str) -> Callable[..., Expr]:
    return lambda b, x: b.insert(mnemonic, _real(b, x))


def _rounding(mnemonic: str) -> Callable[..., Expr]:
    """A rounding: integers stay."""
    return lambda b, x: b.insert(mnemonic, x) if is_float(x) else x


def _condition(b: Builder, x: Any) -> Any:
    return x.to(I1) if isinstance(x, Expr) else b.constant(I1, bool(x))


def _divisor(b: Builder, y: Any) -> Any:
    """An integer divisor, with 1 in place of 0: lanes beyond the end of a tensor are 0. In all
    other lanes, a division by 0 is undefined."""
    return b.where(y == 0, 1, y) if isinstance(y, Expr) else y


def _quotient(b: Builder, x: Any, y: Any) -> Expr:
    """The quotient as in C: quotients of integers are rounded to zero."""
    if is_float(x) or is_float(y):
        return x / y
    y = _divisor(b, y)
    return x.sdiv(y) if isinstance(x, Expr) else y.builder.constant(y.type, x).sdiv(y)


def _remainder(b: Builder, x: Any, y: Any) -> Expr:
    if is_float(x) or is_float(y):
        x, y = _real(b, x), _real(b, y)
        return b.insert("frem", *common(b, x, y))
    return x - _quotient(b, x, y) * y


def _modulo(b: Builder, x: Any, y: Any) -> Expr:
    if is_float(x) or is_float(y):
        return x - b.insert("floor", x / y) * y
    return x % _divisor(b, y)


def _floor_quotient(b: Builder, x: Any, y: Any) -> Expr:
    if is_float(x) or is_float(y):
        return b.insert("floor", x / y)
    return x // _divisor(b, y)


def _power(b: Builder, x: Any, y: Any) -> Expr:
    return _real(b, x) ** (_real(b, y) if isinstance(y, Expr) else float(y))


def _sigmoid(b: Builder, x: Any) -> Expr:
    return 1.0 / ((-_real(b, x)).exp() + 1.0)


def _select(b: Builder, condition: Any, x: Any, y: Any) -> Expr:
    left, right = as_number(x), as_number(y)
    if left is not None and right is not None:
        x = b.constant(common_scalar(number_kind(left), number_kind(right)), left)
    return b.where(_condition(b, condition), x, y)


FUNCTIONS: Mapping[str, Callable[..., Expr]] = {
    "add": lambda b, x, y: x + y,
    "sub": lambda b, x, y: x - y,
    "mul": lambda b, x, y: x * y,
    "div": lambda b, x, y: x / y,
    "quotient": _quotient,
    "remainder": _remainder,
    "floordiv": _floor_quotient,
    "mod": _modulo,
    "pow": _power,
    "max": lambda b, x, y: b.maximum(x, y),
    "min": lambda b, x, y: b.minimum(x, y),
    "neg": lambda b, x: -x,
    "abs": lambda b, x: abs(x),
    "lt": lambda b, x, y: x < y,
    "le": lambda b, x, y: x <= y,
    "gt": lambda b, x, y: x > y,
    "ge": lambda b, x, y: x >= y,
    "eq": lambda b, x, y: x == y,
    "ne": lambda b, x, y: x != y,
    "and": lambda b, x, y: _condition(b, x) & _condition(b, y),
    "or": lambda b, x, y: _condition(b, x) | _condition(b, y),
    "not": lambda b, x: ~_condition(b, x),
    "bit_and": lambda b, x, y: x & y,
    "bit_or": lambda b, x, y: x | y,
    "bit_xor": lambda b, x, y: x ^ y,
    "bit_not": lambda b, x: ~x,
    "shl": lambda b, x, y: x << y,
    "shr": lambda b, x, y: x >> y,
    "select": _select,
    "sigmoid": _sigmoid,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("frint"),
    "trunc": _rounding("ftrunc"),
    **{
        name: _unary(name)
        for name in (
            "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos",
            "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        )
    },
}  # fmt: skip
"""The functions of `Apply` by name. Each emits its ops: `emit(b, *operands)` with a `Builder`.

- Integers are signed. Functions of real numbers convert integers to f32.
- `max` and `min` are NaN if an operand is NaN. `round` takes ties to even.
- `quotient` and `remainder` are those of C, `floordiv` and `mod` those of Python. A division of
  integers by 0 is undefined.
- Conditions are i1. A number is true if it is not 0."""


@attrs.frozen
class Monoid:
    """A monoid: its op for integers, floats and booleans, and its identity."""

    integer: str
    floating: str
    truth: str
    neutral: Callable[[Scalar], int | float]

    def op(self, element: Scalar) -> str:
        """The op on `element` that combines two values."""
        if element is I1:
            return self.truth
        return self.floating if element.is_float else self.integer


def _least(element: Scalar) -> int | float:
    if element is I1:
        return 0
    return float("-inf") if element.is_float else -(1 << (element.bits - 1))


def _greatest(element: Scalar) -> int | float:
    if element is I1:
        return 1
    return float("inf") if element.is_float else (1 << (element.bits - 1)) - 1


JOININGS: Mapping[str, Monoid] = {
    "sum": Monoid("add", "fadd", "add", lambda _: 0),
    "product": Monoid("mul", "fmul", "mul", lambda _: 1),
    "max": Monoid("smax", "fmaximum", "or", _least),
    "min": Monoid("smin", "fminimum", "and", _greatest),
}
"""The kinds of `Reduce`. `sum` and `product` of i1 accumulate in i32."""


def compute_type(element: Element) -> Element:
    """The type that values of `element` are computed with."""
    if not isinstance(element, Scalar) or element is I1 or element.bits >= 32:
        return element
    return F32 if element.is_float else I32
