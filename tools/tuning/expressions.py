"""Expressions of whole numbers and names: `cdiv(m, TM) * cdiv(n, TN)`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tileir.errors import Diagnostic, ToolError

_LONGEST = 1000
"""Characters of an expression."""

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "cdiv": lambda a, b: -(-a // b), "min": min, "max": max,
}  # fmt: skip


def numbers(text: str, names: Mapping[str, Any]) -> tuple[int, ...]:
    """The values of the expressions in `text`, which are separated by commas. `+ - * // %`, cdiv,
    min and max are supported. Raises `ToolError` (TIR0903)."""
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"more than {_LONGEST} characters")
        body = ast.parse(f"({text},)", mode="eval").body
        parts = body.elts if isinstance(body, ast.Tuple) else [body]
        return tuple(_value(part, names) for part in parts)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError) as error:
        message = f"{text!r} is not a list of whole numbers: {error}"
        raise ToolError(Diagnostic("TIR0903", message)) from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return _lookup(name, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(each, names) for each in arguments))
        case _:
            raise ValueError(f"{ast.unparse(node)} is not understood")


def _lookup(name: str, names: Mapping[str, Any]) -> int:
    if name not in names or not isinstance(names[name], int):
        raise ValueError(f"no number is called {name}; there are: {', '.join(names)}")
    return names[name]
