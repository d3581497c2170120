"""The types that terms are computed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tileir.builder.contraction.functions import compute_type, number_kind
from tileir.builder.contraction.terms import (
    Apply,
    Cast,
    Choose,
    Number,
    Position,
    Read,
    Reduce,
    Term,
)
from tileir.builder.promotion import common_scalar
from tileir.types import F32, I1, I32, Element, Scalar

_Widening: TypeAlias = Callable[[Element], Element]

CONDITIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"})
"""Functions whose values are i1."""

_KEEPING = frozenset(
    {
        "add", "sub", "mul", "quotient", "remainder", "floordiv", "mod", "max", "min", "neg", "abs",
        "bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr", "select", "floor", "ceil", "round",
        "trunc",
    }
)  # fmt: skip
"""Functions that are defined for integers; all others convert integers to floats."""


def kind_of(term: Term) -> Element:
    """Return the element type in which `term` is computed; i1, i32 or f32 for a number without a
    type."""
    return _kind(term, compute_type)


def scalar_kind(term: Term) -> Scalar:
    """The same for a term that is no pointer."""
    kind = kind_of(term)
    assert isinstance(kind, Scalar)
    return kind


def stored_kind(term: Term) -> Element:
    """Return the element type in which the values of `term` are stored: the type of its operands if
    that is narrower than the type in which it is computed."""
    return _kind(term, lambda element: element)


def _kind(term: Term, read: _Widening) -> Element:
    match term:
        case Number():
            return term.element or number_kind(term.value)
        case Position():
            return I32
        case Read():
            return read(term.tensor.element)
        case Cast():
            return term.element
        case Choose():
            return _together(term.then, term.otherwise, read)
        case Reduce():
            kind = _kind(term.of, read)
            return I32 if kind is I1 and term.kind in ("sum", "product") else kind
        case Apply():
            return _of_call(term, read)


def _of_call(term: Apply, read: _Widening) -> Element:
    if term.name in CONDITIONS:
        return I1
    operands = term.arguments[1:] if term.name == "select" else term.arguments
    kind = (
        _kind(operands[0], read)
        if len(operands) == 1
        else _together(operands[0], operands[1], read)
    )
    if term.name in _KEEPING or (isinstance(kind, Scalar) and kind.is_float):
        return kind
    return F32


def _together(x: Term, y: Term, read: _Widening) -> Element:
    """The common type of two terms: a literal takes the type of the other term, and integers next
    to a float become f32."""
    left, right = _kind(x, read), _kind(y, read)
    if _is_literal(x) and not _is_literal(y):
        return _number_like(right, left)
    if _is_literal(y) and not _is_literal(x):
        return _number_like(left, right)
    return common_scalar(left, right)


def _number_like(value: Element, literal: Element) -> Element:
    assert isinstance(value, Scalar) and isinstance(literal, Scalar)
    return value if value.is_float or not literal.is_float else F32


def _is_literal(term: Term) -> bool:
    return isinstance(term, Number) and term.element is None
