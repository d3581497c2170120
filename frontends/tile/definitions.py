"""Definitions: `O = exp(A) + (B < 0 ? 1.0 : C);`, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from tileir.builder.contraction import (
    AffineIndex,
    Apply,
    Cast,
    ComputeStage,
    Index,
    Number,
    Position,
    Read,
    Tensor,
    Term,
    affine,
    elementwise,
    kind_of,
    stored_kind,
)
from tileir.frontends.sources import Wrong, truncating_quotient
from tileir.frontends.tile.frame import Frame
from tileir.types import F16, F32, F64, I8, I16, I32, I64, Element, Scalar

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "quotient", "%": "remainder", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&": "bit_and", "|": "bit_or", "^": "bit_xor",
    "<<": "shl", ">>": "shr", "&&": "and", "||": "or",
}  # fmt: skip
_BITS = ("bit_and", "bit_or", "bit_xor", "shl", "shr")

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "exp", "floor", "log", "round",
    "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_FUNCTIONS: Mapping[str, tuple[str, int]] = {
    **{name: (name, 1) for name in _UNARY},
    "neg": ("neg", 1), "pow": ("pow", 2), "max": ("max", 2), "min": ("min", 2),
    "add": ("add", 2), "sub": ("sub", 2), "mul": ("mul", 2), "div": ("quotient", 2),
    "cmp_lt": ("lt", 2), "cmp_le": ("le", 2), "cmp_gt": ("gt", 2), "cmp_ge": ("ge", 2),
    "cmp_eq": ("eq", 2), "cmp_ne": ("ne", 2), "cond": ("select", 3), "select": ("select", 3),
}  # fmt: skip
"""Name in Tile to function and number of arguments."""

_FOLDABLE: Mapping[str, Callable[..., int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "neg": lambda x: -x, "quotient": truncating_quotient,
}  # fmt: skip

_CASTS: Mapping[str, Mapping[int, Element]] = {
    "as_float": {16: F16, 32: F32, 64: F64},
    "as_int": {8: I8, 16: I16, 32: I32, 64: I64},
}


@attrs.frozen
class TensorTerm:
    """A tensor that is computed where it is read: its shape, and its term at positions."""

    shape: tuple[int, ...]
    at: Callable[[Sequence[AffineIndex]], Term]


def definition_stage(frame: Frame, node: Any) -> ComputeStage:
    """The stage of a definition. Raises Wrong."""
    name, expression = str(node.children[0]), node.children[1]
    value = evaluate(frame, expression)
    indices = tuple(Index(f"x{n}") for n in range(len(value.shape)))
    term = value.at([affine(i) for i in indices])
    output = frame.declare(name, Tensor(name, stored_kind(term), value.shape))
    return elementwise(output, indices, term, frame.source.place(node))


def evaluate(frame: Frame, node: Any) -> TensorTerm:
    """An expression. Raises Wrong."""
    match node.data:
        case "number":
            return _number(str(node.children[0]))
        case "name":
            return _name(frame, str(node.children[0]))
        case "binary":
            left, operator, right = node.children
            return _apply(frame, node, _OPERATORS[operator], [left, right])
        case "conditional":
            return _apply(frame, node, "select", node.children)
        case "unary":
            return _unary(frame, node)
        case _:
            with frame.source.at(node):
                return _call(frame, node)


def _number(text: str) -> TensorTerm:
    value = int(text) if text.isdigit() else float(text)
    if isinstance(value, int) and value >= 1 << 31:
        raise Wrong("TIR1303", f"{text} is no 32-bit integer")
    return TensorTerm((), lambda _: Number(value))


def _name(frame: Frame, name: str) -> TensorTerm:
    if name in frame.sizes:
        return TensorTerm((), lambda _: Number(frame.sizes[name]))
    tensor = frame.tensor(name)
    return TensorTerm(tensor.shape, lambda at: Read(tensor, tuple(at)))


def _unary(frame: Frame, node: Any) -> TensorTerm:
    operator, operand = node.children
    if operator == "+":
        return evaluate(frame, operand)
    names = {"-": "neg", "!": "not", "~": "bit_not"}
    return _apply(frame, node, names[operator], [operand])


def _apply(frame: Frame, node: Any, name: str, nodes: Sequence[Any]) -> TensorTerm:
    values = [evaluate(frame, x) for x in nodes]
    with frame.source.at(node):
        return together(name, values)


def together(name: str, values: Sequence[TensorTerm]) -> TensorTerm:
    """A function of values, broadcast to one shape. Raises Wrong."""
    shape = values[0].shape
    for value in values[1:]:
        shape = _broadcast(shape, value.shape)
    terms = [v.at([affine(0)] * len(v.shape)) for v in values]
    if name in (*_BITS, "bit_not") and any(_is_float(t) for t in terms):
        raise Wrong("TIR1303", "bits are of integers, not of floats")

    def at(indices: Sequence[AffineIndex]) -> Term:
        return Apply(name, tuple(_at(value, indices) for value in values))

    return TensorTerm(shape, at)


def _at(value: TensorTerm, indices: Sequence[AffineIndex]) -> Term:
    """A value at positions of what it is broadcast to."""
    own_indices = indices[len(indices) - len(value.shape) :]
    return value.at(
        [affine(0) if n == 1 else i for i, n in zip(own_indices, value.shape, strict=True)]
    )


def _broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(x), len(y))
    left, right = ((1,) * (rank - len(s)) + s for s in (x, y))
    if any(m != n and 1 not in (m, n) for m, n in zip(left, right, strict=True)):
        raise Wrong("TIR1303", f"shapes {x} and {y} do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))


def _is_float(term: Term) -> bool:
    kind = kind_of(term)
    return isinstance(kind, Scalar) and kind.is_float


# Functions --------------------------------------------------------------------------------------


def _call(frame: Frame, node: Any) -> TensorTerm:
    name, *nodes = node.children
    nodes = [x for x in nodes if x is not None]
    values = [evaluate(frame, x) for x in nodes]
    if name in _FUNCTIONS:
        function, count = _FUNCTIONS[name]
        _check_count(name, values, count)
        return together(function, values)
    if name in _CASTS:
        _check_count(name, values, 2)
        return _cast(name, values[0], _literal(values[1]))
    match str(name):
        case "ident":
            _check_count(name, values, 1)
            return values[0]
        case "as_bool":
            _check_count(name, values, 1)
            return together("ne", [values[0], TensorTerm((), lambda _: Number(0))])
        case "index":
            _check_count(name, values, 2)
            return _index(values[0], _literal(values[1]))
        case "gather":
            _check_count(name, values, 2)
            return _gather(*values)
        case "reshape":
            return _reshape(values)
        case _:
            raise Wrong("TIR1302", f"there is no function {name}")


def _check_count(name: str, values: Sequence[TensorTerm], count: int) -> None:
    if len(values) != count:
        raise Wrong("TIR1303", f"{name} takes {count} arguments, not {len(values)}")


def _literal(value: TensorTerm) -> int:
    """An integer constant. Raises Wrong."""
    result = _constant(value.at([affine(0)] * len(value.shape)))
    if result is None:
        raise Wrong("TIR1303", "an integer is expected here")
    return result


def _constant(term: Term) -> int | None:
    """The value of a term of sizes and integer arithmetic; None for any other."""
    if isinstance(term, Number):
        return term.value if isinstance(term.value, int) else None
    if not isinstance(term, Apply) or term.name not in _FOLDABLE:
        return None
    result = [_constant(x) for x in term.arguments]
    if None in result or (term.name == "quotient" and not result[1]):
        return None
    return _FOLDABLE[term.name](*result)


def _cast(name: str, value: TensorTerm, bits: int) -> TensorTerm:
    kinds = _CASTS[name]
    if bits not in kinds:
        raise Wrong("TIR1303", f"{name} has the widths {', '.join(map(str, kinds))}, not {bits}")
    return TensorTerm(value.shape, lambda at: Cast(kinds[bits], value.at(at)))


def _index(value: TensorTerm, axis: int) -> TensorTerm:
    if not 0 <= axis < len(value.shape):
        raise Wrong("TIR1303", f"there is no axis {axis} of {len(value.shape)}")
    return TensorTerm(value.shape, lambda at: Position(at[axis]))


def _gather(value: TensorTerm, indices: TensorTerm) -> TensorTerm:
    """Rows of a tensor, by the numbers in another."""
    probe = value.at([affine(0)] * len(value.shape))
    if not isinstance(probe, Read) or not value.shape:
        raise Wrong("TIR1303", "gather takes a tensor of a name and of one dimension or more")
    if _is_float(indices.at([affine(0)] * len(indices.shape))):
        raise Wrong("TIR1303", "gather takes integers as rows")
    rank, tensor = len(indices.shape), probe.tensor

    def at(positions: Sequence[AffineIndex]) -> Term:
        return Read(tensor, (indices.at(positions[:rank]), *positions[rank:]))

    return TensorTerm((*indices.shape, *value.shape[1:]), at)


def _reshape(values: Sequence[TensorTerm]) -> TensorTerm:
    if not values:
        raise Wrong("TIR1303", "reshape takes a tensor and sizes")
    value, shape = values[0], tuple(_literal(x) for x in values[1:])
    probe = value.at([affine(0)] * len(value.shape))
    if not isinstance(probe, Read):
        raise Wrong("TIR1303", "reshape takes a tensor of a name")
    if prod(shape) != prod(value.shape) or any(n < 0 for n in shape):
        raise Wrong("TIR1303", f"{value.shape} cannot be reshaped to {shape}")
    tensor = probe.tensor

    def at(positions: Sequence[AffineIndex]) -> Term:
        strides = Tensor("", tensor.element, shape).strides
        flat = sum((p * s for p, s in zip(positions, strides, strict=True)), affine(0))
        digits = zip(tensor.strides, tensor.shape, strict=True)
        return Read(tensor, tuple(_digit(flat, s, n) for s, n in digits))

    return TensorTerm(shape, at)


def _digit(flat: AffineIndex, stride: int, extent: int) -> Term:
    return Apply("mod", (Apply("floordiv", (Position(flat), Number(stride))), Number(extent)))
