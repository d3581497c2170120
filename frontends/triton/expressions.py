"""Expressions of a kernel: the evaluation of each node of the syntax tree."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tileir.frontends.triton import dtypes, semantic
from tileir.frontends.triton.building import count_evaluation
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.frame import Frame
from tileir.frontends.triton.language.builtin import METHODS, Builtin, static
from tileir.frontends.triton.language.control import (
    constexpr,
    range as counted,
    static_range,
    unwrap,
)
from tileir.frontends.triton.language.memory import (
    DESCRIPTOR_METHODS,
    BlockPointer,
    TensorDescriptor,
)
from tileir.frontends.triton.names import to_tensors
from tileir.frontends.triton.python_functions import check_attribute, check_items, fold
from tileir.frontends.triton.source import FunctionSource
from tileir.frontends.triton.tensor import Tensor, describe

BINARY: dict[type[ast.operator], tuple[Callable[..., Any], Callable[..., Any]]] = {
    ast.Add: (operator.add, semantic.add),
    ast.Sub: (operator.sub, semantic.sub),
    ast.Mult: (operator.mul, semantic.mul),
    ast.Div: (operator.truediv, semantic.truediv),
    ast.FloorDiv: (operator.floordiv, semantic.floordiv),
    ast.Mod: (operator.mod, semantic.mod),
    ast.Pow: (operator.pow, semantic.power),
    ast.LShift: (operator.lshift, semantic.shift("left")),
    ast.RShift: (operator.rshift, semantic.shift("right")),
    ast.BitAnd: (operator.and_, semantic.bitwise("and_")),
    ast.BitOr: (operator.or_, semantic.bitwise("or_")),
    ast.BitXor: (operator.xor, semantic.bitwise("xor")),
}
"""Operators: on compile-time values, and on tensors."""

COMPARE: dict[type[ast.cmpop], tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    ast.Lt: (operator.lt, semantic.compare("lt")),
    ast.LtE: (operator.le, semantic.compare("le")),
    ast.Gt: (operator.gt, semantic.compare("gt")),
    ast.GtE: (operator.ge, semantic.compare("ge")),
    ast.Eq: (operator.eq, semantic.compare("eq")),
    ast.NotEq: (operator.ne, semantic.compare("ne")),
    ast.Is: (operator.is_, None),
    ast.IsNot: (operator.is_not, None),
    ast.In: (lambda x, y: x in y, None),
    ast.NotIn: (lambda x, y: x not in y, None),
}


class BoundMethod:
    """A function of the language with its first argument."""

    def __init__(self, function: Builtin, value: Any) -> None:
        self.function, self.value = function, value


def evaluate(frame: Frame, node: ast.expr) -> Any:
    """The value of `node`: a tensor, or a compile-time value. Raises CompilationError."""
    rule = _RULES.get(type(node))
    with frame.at(node):
        if rule is None:
            what = type(node).__name__
            raise KernelError(f"kernels have no {what} expressions", "TIR1001")
        return plain(rule(frame, node))


def plain(value: Any) -> Any:
    """The value that a constexpr wraps, also in the items of tuples."""
    return unwrap(value) if isinstance(value, (constexpr, tuple, list)) else value


def is_static(value: Any) -> bool:
    """Whether a value is a compile-time value."""
    if isinstance(value, (tuple, list)):
        return all(is_static(item) for item in value)
    return not isinstance(value, Tensor)


def _constant(frame: Frame, node: ast.Constant) -> Any:
    return node.value


def _name(frame: Frame, node: ast.Name) -> Any:
    return frame.look_up(node.id)


def _tuple(frame: Frame, node: ast.Tuple | ast.List) -> Any:
    result: list[Any] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            several = evaluate(frame, item.value)
            if not isinstance(several, (tuple, list)):
                raise KernelError(f"`*` unpacks tuples, not {describe(several)}", "TIR1003")
            result.extend(several)
        else:
            result.append(evaluate(frame, item))
    return tuple(result)


def binary(frame: Frame, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """`left kind right`. Raises KernelError."""
    if kind not in BINARY:
        raise KernelError(f"kernels have no operator {kind.__name__}", "TIR1001")
    on_constants, on_tensors = BINARY[kind]
    tuples = isinstance(left, tuple) or isinstance(right, tuple)
    if tuples or (is_static(left) and is_static(right)):
        result = fold(on_constants, left, right)
        if isinstance(result, tuple):
            count_evaluation(frame.b, len(result))
        return result
    return on_tensors(frame.b, left, right)


def _binary(frame: Frame, node: ast.BinOp) -> Any:
    return binary(frame, type(node.op), evaluate(frame, node.left), evaluate(frame, node.right))


def _unary(frame: Frame, node: ast.UnaryOp) -> Any:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        if is_static(value):
            return not value
        return semantic.compare("eq")(frame.b, semantic.condition(frame.b, value), False)
    if isinstance(node.op, ast.UAdd):
        return value
    if is_static(value):
        invert = isinstance(node.op, ast.Invert)
        return fold(operator.invert if invert else operator.neg, value)
    return (semantic.invert if isinstance(node.op, ast.Invert) else semantic.negate)(frame.b, value)


def _logic(frame: Frame, node: ast.BoolOp) -> Any:
    """`and`, `or`: compile-time values short-circuit as in Python; tensors are combined."""
    every = isinstance(node.op, ast.And)
    result: Any = None
    for index, item in enumerate(node.values):
        value = evaluate(frame, item)
        if index == 0 or is_static(result):
            result = value
        else:
            result = (semantic.logical_and if every else semantic.either)(frame.b, result, value)
        if is_static(result) and bool(result) != every:
            return result
    return result


def _compare(frame: Frame, node: ast.Compare) -> Any:
    left, result = evaluate(frame, node.left), None
    for op, item in zip(node.ops, node.comparators, strict=True):
        right = evaluate(frame, item)
        one = _comparison(frame, type(op), left, right)
        if result is None:
            result = one
        elif is_static(result) and is_static(one):
            result = result and one
        else:
            result = semantic.logical_and(frame.b, result, one)
        left = right
    return result


def _comparison(frame: Frame, kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    on_constants, on_tensors = COMPARE[kind]
    identity = kind in (ast.Is, ast.IsNot)
    if identity or (is_static(left) and is_static(right)):
        return fold(on_constants, left, right)
    if on_tensors is None:
        raise KernelError("`in` needs compile-time values", "TIR1004")
    return on_tensors(frame.b, left, right)


def _choice(frame: Frame, node: ast.IfExp) -> Any:
    test = evaluate(frame, node.test)
    if is_static(test):
        return evaluate(frame, node.body if test else node.orelse)
    chosen = semantic.scalar_condition(frame.b, test)
    if chosen.number is not None:
        return evaluate(frame, node.body if chosen.number else node.orelse)
    return _either(frame, node, chosen)


def _either(frame: Frame, node: ast.IfExp, chosen: Tensor) -> Any:
    """One of two values, of which only one is computed."""
    names, b = frame.names, frame.b
    with b.if_(chosen.expr):
        before = names.branch()
        names.set("?", _tensor(frame, node.body))
        then = names.leave(before)
    with b.else_():
        before = names.branch(then)
        names.set("?", _tensor(frame, node.orelse))
        names_of_branch = names.leave(before)
    if then["?"] is not names_of_branch["?"]:
        raise KernelError("both values of a condition must have one type")
    return names_of_branch["?"].value()  # type: ignore[union-attr]


def _tensor(frame: Frame, node: ast.expr) -> Any:
    return to_tensors(frame.b, evaluate(frame, node))


def _attribute(frame: Frame, node: ast.Attribute) -> Any:
    value, name = evaluate(frame, node.value), node.attr
    if isinstance(value, Tensor):
        return _of_tensor(frame, value, name)
    if isinstance(value, TensorDescriptor) and name in DESCRIPTOR_METHODS:
        return BoundMethod(DESCRIPTOR_METHODS[name], value)
    if isinstance(value, BlockPointer) and name == "advance":
        return BoundMethod(METHODS["advance"], value)
    check_attribute(value, name)
    try:
        return getattr(value, name)
    except AttributeError as error:
        return _of_known(value, name, error)


def _of_known(value: Any, name: str, error: AttributeError) -> Any:
    """An attribute that a constexpr has: its `value`, and of a number the methods of tensors."""
    if name == "value":
        return value
    if isinstance(value, (bool, int, float)) and name in METHODS:
        return BoundMethod(METHODS[name], value)
    raise KernelError(str(error), "TIR1002") from None


def _of_tensor(frame: Frame, x: Tensor, name: str) -> Any:
    if name == "T":
        return METHODS["trans"].apply(frame, x)
    if name in ("shape", "dtype"):
        return getattr(x, name)
    if name == "type":
        return dtypes.BlockType(x.dtype, x.shape) if x.shape else x.dtype
    if name == "numel":
        size = 1
        for n in x.shape:
            size *= n
        return size
    if name in METHODS:
        return BoundMethod(METHODS[name], x)
    raise KernelError(f"a tensor has no attribute {name}", "TIR1002")


def _subscript(frame: Frame, node: ast.Subscript) -> Any:
    value, index = evaluate(frame, node.value), evaluate(frame, node.slice)
    if isinstance(getattr(value, "source", None), FunctionSource):
        message = f"a kernel launches none: {value.__name__} is called without a grid"
        raise KernelError(message, "TIR1003")
    if not isinstance(value, Tensor):
        return fold(operator.getitem, value, static(index, "an index"))
    items = index if isinstance(index, tuple) else (index,)
    if not all(item is None or item is Ellipsis or item == slice(None) for item in items):
        message = "a tensor is indexed by None and : only; use tl.load(p + i) for memory, or a "
        message += "reduction or tl.gather for elements"
        raise KernelError(message)
    return Tensor(value.expr[index], value.dtype)


def _slice(frame: Frame, node: ast.Slice) -> Any:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if p is None else static(evaluate(frame, p), "a bound") for p in parts))


_CONVERTED: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
"""The conversions `!r`, `!s` and `!a`."""


def _text(frame: Frame, node: ast.JoinedStr) -> str:
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else _format_value(frame, part)
        for part in node.values
    )


def _format_value(frame: Frame, node: ast.expr) -> str:
    assert isinstance(node, ast.FormattedValue)
    value = evaluate(frame, node.value)
    if isinstance(value, Tensor):
        return describe(value)
    how = "" if node.format_spec is None else evaluate(frame, node.format_spec)
    shown = _CONVERTED.get(chr(node.conversion)) if node.conversion > 0 else None
    return fold(format, shown(value) if shown else value, how)


def _call(frame: Frame, node: ast.Call) -> Any:
    function = evaluate(frame, node.func)
    arguments = _tuple(frame, ast.Tuple(node.args, ast.Load()))
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        keywords.update({keyword.arg: value} if keyword.arg else value)
    return frame.call(function, arguments, keywords)


def _named_expression(frame: Frame, node: ast.NamedExpr) -> Any:
    """`(name := value)`."""
    value = evaluate(frame, node.value)
    frame.names.set(node.target.id, to_tensors(frame.b, value))
    return value


def _comprehension(frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> Any:
    """A comprehension over compile-time values."""
    if len(node.generators) != 1:
        raise KernelError("a list has one `for`", "TIR1001")
    (loop,) = node.generators
    result: list[Any] = []
    before = dict(frame.names.bindings)
    for item in static_items(evaluate(frame, loop.iter)):
        _bind_known(frame, loop.target, item)
        if all(static(evaluate(frame, test), "a condition") for test in loop.ifs):
            result.append(evaluate(frame, node.elt))
    frame.names.bindings = before
    return tuple(result)


def _bind_known(frame: Frame, target: ast.expr, item: Any) -> None:
    """Bind the names of a comprehension's `for`; compile-time values stay compile-time values."""
    several = isinstance(target, (ast.Tuple, ast.List))
    names, items = (target.elts, static_items(item)) if several else ([target], (item,))
    if len(names) != len(items):
        raise KernelError(f"{len(items)} values for {len(names)} names", "TIR1003")
    for name, value in zip(names, items, strict=True):
        if not isinstance(name, ast.Name):
            raise KernelError("the `for` of a list sets names", "TIR1001")
        frame.names.bindings.pop(name.id, None)
        frame.names.set(name.id, value)


def static_items(value: Any) -> tuple[Any, ...]:
    """The items of a compile-time value. Raises KernelError."""
    if isinstance(value, (static_range, counted)):
        value = fold(range, *(static(n, "a bound") for n in value.bounds))
    if isinstance(value, (tuple, list, range, dict, str)):
        check_items(_length(value) if isinstance(value, range) else len(value))
        return tuple(value)
    raise KernelError(f"{describe(value)} has no items known while compiling", "TIR1004")


def _length(items: range) -> int:
    """The number of items; `len` is limited to the size of a word."""
    return max(0, -(-(items.stop - items.start) // items.step)) if items else 0


_RULES: dict[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logic,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.JoinedStr: _text,
    ast.Call: _call,
    ast.NamedExpr: _named_expression,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
