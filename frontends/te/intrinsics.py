"""Functions of expressions, choices, and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir.builder.contraction import (
    Apply,
    Choose,
    Number,
    Reduce,
)
from tileir.frontends.te.errors import error
from tileir.frontends.te.expr import IterVar, PrimExpr, apply_function, expr

_REAL = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "log",
    "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_WHOLE = ("abs", "ceil", "floor", "round", "trunc")


def _unary(name: str) -> Any:
    def function(x: Any) -> PrimExpr:
        return apply_function(name, x)

    function.__name__ = name
    function.__doc__ = f"{name} of an expression."
    return function


FUNCTIONS = {name: _unary(name) for name in (*_REAL, *_WHOLE)}
"""Functions of one expression, which `te` has as attributes."""


def power(x: Any, y: Any) -> PrimExpr:
    """Return x to the power of y."""
    return apply_function("pow", x, y)


def truncdiv(x: Any, y: Any) -> PrimExpr:
    """Return the quotient of integers, rounded to zero; `//` rounds down."""
    return apply_function("quotient", x, y)


def truncmod(x: Any, y: Any) -> PrimExpr:
    """Return the remainder of `truncdiv`; the remainder `%` has the sign of the divisor."""
    return apply_function("remainder", x, y)


# Conditions ---------------------------------------------------------------------------------------


def all_of(*conditions: Any) -> PrimExpr:
    """Return whether all conditions are true."""
    result = [expr(c) for c in conditions]
    term = result[0].term if result else Number(True)
    for condition in result[1:]:
        term = Apply("and", (term, condition.term))
    if all(c.bounds is not None for c in result):
        return PrimExpr(term, tuple(b for c in result for b in c.bounds or ()))
    return PrimExpr(term)


def any_of(*conditions: Any) -> PrimExpr:
    """Return whether any condition is true."""
    result = [expr(c).term for c in conditions] or [Number(False)]
    term = result[0]
    for condition in result[1:]:
        term = Apply("or", (term, condition))
    return PrimExpr(term)


def if_then_else(condition: Any, then: Any, otherwise: Any) -> PrimExpr:
    """Return `then` if the condition is true, else `otherwise`.

    Elements that a condition on indices excludes are not read.
    """
    result, arms = expr(condition), (expr(then), expr(otherwise))
    if result.bounds is not None:
        return PrimExpr(Choose(result.bounds, arms[0].term, arms[1].term))
    return PrimExpr(Apply("select", (result.term, arms[0].term, arms[1].term)))


# Reductions ---------------------------------------------------------------------------------------


def _reducer(kind: str, join: str | None) -> Any:
    def reducer(
        expression: Any,
        *values: Any,
        axis: IterVar | Sequence[IterVar] | None = None,
        where: Any = None,
    ) -> PrimExpr:
        if values and axis is None and _is_axes(values[0]) and len(values) == 1:
            values, axis = (), values[0]
        if axis is None:
            return _directly(kind, join, expression, values)
        if values:
            raise error("TIR1503", f"te.{kind} takes an expression and its axes")
        return _reduction(kind, expression, axis, where)

    reducer.__name__ = kind
    reducer.__doc__ = (
        f"The {kind} of `expression` over the reduction axes `axis`, at the points at which the "
        "condition `where` is true."
    )
    if join is not None:
        reducer.__doc__ += f" Without `axis`: the {kind} of several expressions."
    reducer.__doc__ += " Raises TensorExpressionError."
    return reducer


def _is_axes(item: Any) -> bool:
    listed = item if isinstance(item, (tuple, list)) else (item,)
    return all(isinstance(x, IterVar) and x.reduces for x in listed)


def _directly(kind: str, join: str | None, first: Any, values: Sequence[Any]) -> PrimExpr:
    """A maximum or minimum of expressions."""
    if join is None or not values:
        raise error("TIR1503", f"te.{kind} takes an expression and `axis=`")
    prim_expr = expr(first)
    for other in values:
        prim_expr = apply_function(join, prim_expr, other)
    return prim_expr


def _reduction(kind: str, expression: Any, axis: Any, where: Any) -> PrimExpr:
    """The reduction; its indices are its own, named as the axes."""
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    if not axes or not _is_axes(axes):
        raise error("TIR1503", "axis= takes a result of te.reduce_axis")
    if len({id(a) for a in axes}) != len(axes):
        raise error("TIR1503", "an axis is reduced over twice")
    term, condition = expr(expression).term, None if where is None else expr(where)
    over = tuple((a.index, a.dom) for a in axes)
    if condition is None:
        return PrimExpr(Reduce(kind, over, term))
    if condition.bounds is not None:
        return PrimExpr(Reduce(kind, over, term, condition.bounds))
    raise error("TIR1503", "where= takes a condition on indices; choose by te.if_then_else")


reduce_add, reduce_multiply = _reducer("sum", None), _reducer("product", None)
reduce_max, reduce_min = _reducer("max", "max"), _reducer("min", "min")
