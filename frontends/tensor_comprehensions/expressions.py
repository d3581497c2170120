"""Expressions: affine in indices where they can be, else terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileir.builder.contraction import (
    AffineBound,
    AffineIndex,
    Apply,
    Cast,
    Choose,
    Number,
    Position,
    Read,
    Term,
    affine,
    kind_of,
)
from tileir.frontends.sources import Wrong, truncating_quotient
from tileir.frontends.tensor_comprehensions.frame import Statement
from tileir.types import F16, F32, F64, I1, I8, I16, I32, I64, Element, Scalar

KINDS: Mapping[str, Element] = {
    "double": F64, "float64": F64, "float": F32, "float32": F32, "half": F16, "float16": F16,
    "bool": I1, "char": I8, "int8": I8, "short": I16, "int16": I16, "int": I32, "int32": I32,
    "long": I64, "int64": I64,
}  # fmt: skip

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "quotient", "%": "remainder", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
}  # fmt: skip

_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "floor", "log", "log10", "log1p", "log2", "round", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
FUNCTIONS: Mapping[str, tuple[str, int]] = {
    **{name: (name, 1) for name in _UNARY},
    "abs": ("abs", 1), "fabs": ("abs", 1), "max": ("max", 2), "fmax": ("max", 2),
    "min": ("min", 2), "fmin": ("min", 2), "pow": ("pow", 2), "fmod": ("remainder", 2),
}  # fmt: skip
"""Name to function and number of arguments."""


def kind_named(name: str) -> Element:
    """The element type of a name. Raises Wrong for unsigned ones."""
    if name not in KINDS:
        raise Wrong("TIR1403", f"{name} is unsigned, and there are no such tensors")
    return KINDS[name]


def evaluate(statement: Statement, node: Any) -> AffineIndex | Term:
    """An expression. Raises Wrong."""
    match node.data:
        case "number":
            return _number(str(node.children[0]))
        case "name":
            return _name(statement, str(node.children[0]))
        case "extent":
            return _extent(statement, *node.children)
        case "binary":
            left, operator, right = node.children
            x, y = evaluate(statement, left), evaluate(statement, right)
            return _binary(str(operator), x, y)
        case "unary":
            return _unary(statement, *node.children)
        case "conditional":
            return _conditional(statement, *node.children)
        case "cast":
            kind, inner = node.children
            return Cast(kind_named(str(kind)), term_of(evaluate(statement, inner)))
        case _:
            with statement.frame.source.at(node):
                return _call(statement, node)


def term_of(term: AffineIndex | Term) -> Term:
    """A value, of an index expression too."""
    if not isinstance(term, AffineIndex):
        return term
    return Position(term) if term.terms else Number(term.constant)


def size_of(statement: Statement, node: Any) -> int:
    """A number that depends on sizes only. Raises Wrong."""
    result = evaluate(statement, node)
    if not isinstance(result, AffineIndex) or result.terms:
        raise Wrong("TIR1404", "a bound of a range is made of sizes and integers")
    return result.constant


def _number(text: str) -> AffineIndex | Term:
    if not text.isdigit():
        return Number(float(text.rstrip("f")))
    if int(text) >= 1 << 31:
        raise Wrong("TIR1403", f"{text} is no 32-bit integer")
    return affine(int(text))


def _name(statement: Statement, name: str) -> AffineIndex | Term:
    frame = statement.frame
    if name in statement.lets:
        return statement.lets[name]
    if name in frame.sizes:
        return affine(frame.sizes[name])
    if name in frame.tensors:
        return _read(statement, name, [])
    return affine(statement.index(name))


def _extent(statement: Statement, name: Any, place: Any) -> AffineIndex:
    shape = statement.frame.tensor(str(name)).shape
    if int(place) >= len(shape):
        raise Wrong("TIR1403", f"{name} has {len(shape)} dimensions")
    return affine(shape[int(place)])


def _binary(operator: str, x: AffineIndex | Term, y: AffineIndex | Term) -> AffineIndex | Term:
    """A binary operator; affine for addition and subtraction of affine operands and their
    multiplication by a constant."""
    if isinstance(x, AffineIndex) and isinstance(y, AffineIndex):
        if operator in "+-":
            return x + (y if operator == "+" else -y)
        if operator == "*" and not (x.terms and y.terms):
            return x * y.constant if x.terms else y * x.constant
        if operator in "/%" and not x.terms and not y.terms:
            if not y.constant:
                raise Wrong("TIR1403", "a size is divided by 0")
            quotient = truncating_quotient(x.constant, y.constant)
            return affine(quotient if operator == "/" else x.constant - quotient * y.constant)
    return Apply(_OPERATORS[operator], (term_of(x), term_of(y)))


def _unary(statement: Statement, operator: Any, node: Any) -> AffineIndex | Term:
    result = evaluate(statement, node)
    if operator == "!":
        return Apply("not", (term_of(result),))
    if operator == "+":
        return result
    return -result if isinstance(result, AffineIndex) else Apply("neg", (result,))


# Conditions -----------------------------------------------------------------------------------


def _conditional(statement: Statement, *nodes: Any) -> Term:
    """`c ? x : y`. Elements that a condition on indices alone excludes are not read."""
    where = _bounds(statement, nodes[0])
    if where is None:
        result = [term_of(evaluate(statement, x)) for x in nodes]
        return Apply("select", tuple(result))
    before = len(statement.uses)
    then, other = (term_of(evaluate(statement, x)) for x in nodes[1:])
    statement.guarded += statement.uses[before:]
    del statement.uses[before:]
    return Choose(where, then, other)


def _bounds(statement: Statement, node: Any) -> tuple[AffineBound, ...] | None:
    """A conjunction of comparisons of index expressions; None for any other condition."""
    if node.data != "binary":
        return None
    left, operator, right = node.children
    if operator == "&&":
        result = _bounds(statement, left), _bounds(statement, right)
        return None if result[0] is None or result[1] is None else (*result[0], *result[1])
    if operator in ("!=", "||") or operator not in _OPERATORS:
        return None
    before = len(statement.uses)
    x, y = evaluate(statement, left), evaluate(statement, right)
    if not isinstance(x, AffineIndex) or not isinstance(y, AffineIndex) or not (x - y).terms:
        del statement.uses[before:]
        return None
    return _bounds_of(str(operator), x - y)


def _bounds_of(operator: str, of: AffineIndex) -> tuple[AffineBound, ...] | None:
    match operator:
        case "<":
            return (AffineBound(of, None, 0),)
        case "<=":
            return (AffineBound(of, None, 1),)
        case ">":
            return (AffineBound(of, 1, None),)
        case ">=":
            return (AffineBound(of, 0, None),)
        case "==":
            return (AffineBound(of, 0, 1),)
        case _:
            return None


# Calls ------------------------------------------------------------------------------------------


def _call(statement: Statement, node: Any) -> Term:
    name, *nodes = node.children
    arguments = [evaluate(statement, x) for x in nodes if x is not None]
    if name in statement.frame.tensors:
        return _read(statement, str(name), arguments)
    if name in FUNCTIONS:
        function, count = FUNCTIONS[name]
        if len(arguments) != count:
            raise Wrong("TIR1403", f"{name} takes {count} arguments, not {len(arguments)}")
        return Apply(function, tuple(term_of(x) for x in arguments))
    raise Wrong("TIR1402", f"there is no tensor and no function {name}")


def _read(statement: Statement, name: str, at: list[AffineIndex | Term]) -> Read:
    tensor = statement.frame.tensor(name)
    if len(at) != len(tensor.shape):
        raise Wrong("TIR1403", f"{name} has {len(tensor.shape)} dimensions, not {len(at)}")
    for position, extent in zip(at, tensor.shape, strict=True):
        if isinstance(position, AffineIndex):
            statement.uses.append((position, extent))
        elif not _is_integer(position):
            raise Wrong("TIR1403", f"{name} is read at a position that is not an integer")
    return Read(tensor, tuple(at))


def _is_integer(term: Term) -> bool:
    kind = kind_of(term)
    return isinstance(kind, Scalar) and kind.is_integer
