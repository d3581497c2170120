"""Elementwise functions: those of Triton's language, and `pow`, `tanh` and `where`.

An emitter gets operands of one element type, or Python numbers, of which at least one is a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tileir.builder import F32, F64, I32, Builder, Expr
from tileir.types import Scalar, element_of, shape_of

Emitter: TypeAlias = Callable[..., Expr]


@attrs.frozen
class ElementwiseFunction:
    """An elementwise function.

    `kind` states its operands: `float`, `integer`, `any`, or `choice` if the first one is a
    condition.
    """

    arity: int
    kind: str
    emit: Emitter


def as_float(b: Builder, item: Any) -> Expr:
    """A value as a float: integers become f32."""
    if isinstance(item, Expr):
        element = element_of(item.type)
        return item if isinstance(element, Scalar) and element.is_float else item.to(F32)
    return b.constant(F32, float(item))


def as_integer(b: Builder, item: Any) -> Expr:
    """A value as an integer, as which it has to be. Raises TypeError for a float."""
    if not isinstance(item, Expr):
        item = b.constant(I32, item) if isinstance(item, int) else item
    element = element_of(item.type) if isinstance(item, Expr) else F64
    if not isinstance(element, Scalar) or not element.is_integer:
        raise TypeError("it takes integers, not floats")
    return item


def _inserted_op(name: str) -> Emitter:
    return lambda b, x: b.insert(name, x)


def _sigmoid(b: Builder, x: Any) -> Expr:
    return 1.0 / ((-x).exp() + 1.0)


def _absolute(b: Builder, x: Any) -> Expr:
    return abs(x)


def _power(b: Builder, x: Any, y: Any) -> Expr:
    """Small whole powers are multiplications, as in Triton's compiler."""
    if isinstance(x, Expr) and not isinstance(y, Expr) and y in (1, 2, 3, 4):
        squared = x * x if y > 1 else x
        return {1: x, 2: squared, 3: squared * x, 4: squared * squared}[int(y)]
    return (x if isinstance(x, Expr) else as_float(b, x)) ** as_float(b, y)


def _clamp(b: Builder, x: Any, low: Any, high: Any) -> Expr:
    return b.minimum(b.maximum(x, low), high)


def _fma(b: Builder, x: Any, y: Any, z: Any) -> Expr:
    x, y, z = _alike(b, x, y, z)
    return b.fma(x, y, z)


def _alike(b: Builder, *items: Any) -> list[Expr]:
    """Floats as values of one type and shape."""
    expressions = [item for item in items if isinstance(item, Expr)]
    kind = F64 if any(element_of(item.type) is F64 for item in expressions) else F32
    shapes = [shape_of(item.type) for item in expressions]
    shape = tuple(map(max, zip(*(s for s in shapes if s), strict=True)))
    result = [item.to(kind) if isinstance(item, Expr) else b.constant(kind, item) for item in items]
    return [item.broadcast_to(*shape) for item in result] if shape else result


def _umulhi(b: Builder, x: Any, y: Any) -> Expr:
    x, y = (as_integer(b, item) for item in (x, y))
    broad = x + y
    zero = b.constant(broad.type, 0)
    return b.umulhi(x + zero, y + zero)


def _floats(name: str) -> ElementwiseFunction:
    return ElementwiseFunction(1, "float", _inserted_op(name))


def _approximate(name: str) -> Emitter:
    return lambda b, x: b.insert(name, x, fast="fast" if name == "exp" else "approx")


def _fast_sigmoid(b: Builder, x: Any) -> Expr:
    """A sigmoid whose divisor is at least 1, and whose result is 0 where it would be subnormal."""
    one, divisor = _alike(b, 1.0, (-x).exp(fast="fast") + 1.0)
    ftz = element_of(divisor.type) is F32
    return b.fdiv(one, divisor, fast="approx", ftz=ftz)


def quotient(b: Builder, x: Any, y: Any) -> Expr:
    """A quotient of floats by an approximate instruction."""
    x, y = _alike(b, x, y)
    return b.fdiv(x, y, fast="approx")


def _fast_tanh(b: Builder, x: Any) -> Expr:
    return _fast_sigmoid(b, x * 2.0) * 2.0 - 1.0


FUNCTIONS: dict[str, ElementwiseFunction] = {
    **{n: _floats(n) for n in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt",
                               "sqrt", "floor", "ceil", "log10", "log1p", "expm1", "tan")},
    "sqrt_rn": _floats("sqrt"),
    "abs": ElementwiseFunction(1, "any", _absolute),
    "sigmoid": ElementwiseFunction(1, "float", _sigmoid),
    "maximum": ElementwiseFunction(2, "any", lambda b, x, y: b.maximum(x, y)),
    "minimum": ElementwiseFunction(2, "any", lambda b, x, y: b.minimum(x, y)),
    "pow": ElementwiseFunction(2, "float", _power),
    "fdiv": ElementwiseFunction(2, "float", lambda b, x, y: x / y),
    "div_rn": ElementwiseFunction(2, "float", lambda b, x, y: x / y),
    "cdiv": ElementwiseFunction(2, "integer", lambda b, x, y: b.cdiv(x, y)),
    "umulhi": ElementwiseFunction(2, "integer", _umulhi),
    "fma": ElementwiseFunction(3, "float", _fma),
    "clamp": ElementwiseFunction(3, "any", _clamp),
    "where": ElementwiseFunction(3, "choice", lambda b, c, x, y: b.where(c, x, y)),
}  # fmt: skip
"""The functions by name."""

FAST: dict[str, Emitter] = {
    **{n: _approximate(n) for n in ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt")},
    "sigmoid": _fast_sigmoid, "tanh": _fast_tanh, "fdiv": quotient,
}  # fmt: skip
"""The functions that `math(approx)` computes by approximate instructions, within a few units in the
last place of numbers near one."""
