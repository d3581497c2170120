"""Expressions: the evaluation of each node of the tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tileir.frontends.triton_c import numbers, values
from tileir.frontends.triton_c.builtins import BUILTINS
from tileir.frontends.triton_c.ctypes import CType, pointer_to, type_named
from tileir.frontends.triton_c.errors import ProgramError
from tileir.frontends.triton_c.frame import Frame
from tileir.frontends.triton_c.values import Item, TypedValue, describe


def evaluate(frame: Frame, node: Any) -> Item:
    """The value of `node`. Raises CompilationError."""
    item = effect(frame, node)
    if item is None:
        with frame.at(node):
            raise ProgramError("this function returns nothing")
    return item


def effect(frame: Frame, node: Any) -> Item | None:
    """The value of `node`, None where it is a call of a function that returns nothing. Raises
    CompilationError."""
    with frame.at(node):
        return _RULES[node.data](frame, node)


def constant_of(frame: Frame, node: Any) -> int:
    """A compile-time integer. Raises CompilationError."""
    result = evaluate(frame, node)
    with frame.at(node):
        if isinstance(result, TypedValue) or not isinstance(result, int):
            message = f"a constant is needed, not {describe(result)}"
            raise ProgramError(message, "TIR1004")
        return result


def extents(frame: Frame, node: Any) -> tuple[int, ...]:
    """The shape that `[A, B]` of a declaration gives; none for a scalar."""
    (items,) = node.children
    result = () if items is None else tuple(constant_of(frame, n) for n in items.children)
    if any(n < 1 for n in result):
        with frame.at(node):
            raise ProgramError("an extent must be at least 1")
    return result


def type_of(base: CType, stars: Any) -> CType:
    """`base` with its stars. Raises ProgramError."""
    for _ in stars.children:
        base = pointer_to(base)
    return base


def _number(frame: Frame, node: Any) -> Item:
    return numbers.parse(str(node.children[0]))


def _truth(frame: Frame, node: Any) -> Item:
    return node.children[0] == "true"


def _name(frame: Frame, node: Any) -> Item:
    return frame.read(str(node.children[0]))


def _binary(frame: Frame, node: Any) -> Item:
    chain: list[Any] = []
    while node.data == "binary":
        chain.append(node)
        node = node.children[0]
    item = evaluate(frame, node)
    for link in reversed(chain):
        _, sign, right = link.children
        with frame.at(link):
            item = combine(frame, str(sign), item, evaluate(frame, right))
    return item


def _sequence(frame: Frame, node: Any) -> Item:
    """`a, b`: both, and the value of the last."""
    *before, last = node.children
    for part in before:
        effect(frame, part)
    return evaluate(frame, last)


def combine(frame: Frame, sign: str, x: Item, y: Item) -> Item:
    """`x sign y`; computed at compile time if both are compile-time values."""
    if isinstance(x, TypedValue) or isinstance(y, TypedValue):
        return values.BINARY[sign](frame.b, x, y)
    return numbers.binary(sign, x, y)


def _unary(frame: Frame, node: Any) -> Item:
    sign, operand = node.children
    value = evaluate(frame, operand)
    if isinstance(value, TypedValue):
        return values.unary(frame.b, str(sign), value)
    return numbers.unary(str(sign), value)


def _dereference(frame: Frame, node: Any) -> Item:
    return load(frame, evaluate(frame, node.children[-1]), None)


def load(frame: Frame, pointer: Item, other: Item | None) -> TypedValue:
    """`*pointer` where the predicate is true, `other` elsewhere. Raises ProgramError."""
    if not isinstance(pointer, TypedValue) or pointer.kind.pointee is None:
        raise ProgramError(f"* needs pointers, not {describe(pointer)}")
    place, mask = pointer, frame.predicate
    if mask is not None:
        place, mask = values.together(pointer, mask)
    kind = pointer.kind.pointee
    filler = None
    if other is not None and mask is not None:
        filler = values.fit(values.convert(frame.b, other, kind), place.shape).expr
    guard = None if mask is None else mask.expr
    return TypedValue(frame.b.load(place.expr, guard, filler), kind)


def _conditional(frame: Frame, node: Any) -> Item:
    test, then, otherwise = node.children
    chosen = evaluate(frame, test)
    if not isinstance(chosen, TypedValue):
        return evaluate(frame, then if chosen else otherwise)
    predicate = values.condition(frame.b, chosen)
    with frame.under(predicate):
        if then.data == "dereference" and otherwise.data in ("number", "truth"):
            pointer, number = evaluate(frame, then.children[-1]), evaluate(frame, otherwise)
            fills = _holds(pointer, number)
            one = load(frame, pointer, number if fills else None)
            if fills:
                return one
        else:
            one = evaluate(frame, then)
    with frame.under(values.unary(frame.b, "!", predicate)):
        two = evaluate(frame, otherwise)
    return values.select(frame.b, predicate, one, two)


def _holds(pointer: Item, number: Item) -> bool:
    """Whether the pointee type of `pointer` can represent `number`, so that a load may have it as
    `other`."""
    kind = pointer.kind.pointee if isinstance(pointer, TypedValue) else None
    if kind is None or kind.is_float:
        return True
    return isinstance(number, int) and values.as_kind(number, kind) == number


def _interval(frame: Frame, node: Any) -> Item:
    low, high = (constant_of(frame, n) for n in node.children)
    if high <= low:
        raise ProgramError(f"the range {low} ... {high} has no element")
    return TypedValue(frame.b.arange(low, high), type_named(("int",)))


def _subscript(frame: Frame, node: Any) -> Item:
    value, items = evaluate(frame, node.children[0]), node.children[1].children
    kinds = [item.data for item in items]
    if isinstance(value, TypedValue) and value.kind.is_pointer and not value.shape:
        raise ProgramError("a pointer has no index: write *(p + i), not p[i]")
    if not isinstance(value, TypedValue) or not set(kinds) <= {"colon", "newaxis"}:
        message = "tiles are sliced by : and newaxis only: their elements have no addresses"
        raise ProgramError(message)
    if kinds.count("colon") != len(value.shape):
        raise ProgramError(f"{describe(value)} has {len(value.shape)} dimensions to slice")
    index = tuple(slice(None) if kind == "colon" else None for kind in kinds)
    return TypedValue(value.expr[index], value.kind)


def _cast(frame: Frame, node: Any) -> Item:
    words, stars, shape, operand = node.children
    kind = type_of(type_named(tuple(map(str, words.children))), stars)
    value = values.convert(frame.b, evaluate(frame, operand), kind)
    required = extents(frame, shape)
    return values.fit(value, required) if required else value


def _assign(frame: Frame, node: Any) -> Item:
    target, sign, source = node.children
    op, (read, write) = str(sign)[:-1], _place(frame, target)
    new = evaluate(frame, source)
    return write(combine(frame, op, read(), new) if op else new)


def _place(frame: Frame, node: Any) -> tuple[Callable[[], Item], Callable[[Item], TypedValue]]:
    """The functions that read and write `node`. Raises ProgramError."""
    if node.data == "name":
        name = str(node.children[0])
        return partial(frame.read, name), partial(frame.assign, name)
    if node.data == "dereference":
        pointer = evaluate(frame, node.children[-1])
        return partial(load, frame, pointer, None), partial(store, frame, pointer)
    if node.data == "subscript":
        _subscript(frame, node)
    raise ProgramError("only a name, or `*` of a pointer, can be assigned to", "TIR1001")


def store(frame: Frame, pointer: Item, item: Item) -> TypedValue:
    """`*pointer = item` where the predicate is true. Raises ProgramError."""
    if not isinstance(pointer, TypedValue) or pointer.kind.pointee is None:
        raise ProgramError(f"* needs pointers, not {describe(pointer)}")
    new, mask, place = values.convert(frame.b, item, pointer.kind.pointee), frame.predicate, pointer
    if mask is None:
        place, new = values.together(place, new)
    else:
        place, new, mask = values.together(place, new, mask)
    frame.b.store(place.expr, new.expr, None if mask is None else mask.expr)
    return new


def _step(frame: Frame, node: Any) -> Item:
    """`++x`, `x++`, `--x`, `x--`: the value after or before the step."""
    before = node.data == "before"
    target, sign = (node.children[1], node.children[0]) if before else node.children
    read, write = _place(frame, target)
    old = read()
    new = write(combine(frame, str(sign)[0], old, 1))
    return new if before else old


def _call(frame: Frame, node: Any) -> Item | None:
    callee, arguments = node.children
    size: tuple[int, ...] | None = None
    if callee.data == "subscript":
        size = tuple(constant_of(frame, n) for n in callee.children[1].children)
        callee = callee.children[0]
    if callee.data != "name":
        raise ProgramError("only functions are called", "TIR1001")
    name = str(callee.children[0])
    values_ = [] if arguments is None else [evaluate(frame, n) for n in arguments.children]
    if name in frame.functions:
        return frame.functions[name](frame, values_)
    if name not in BUILTINS:
        raise ProgramError(f"there is no function {name}", "TIR1002")
    return BUILTINS[name](frame, values_, size)


_RULES: dict[str, Callable[[Frame, Any], Item | None]] = {
    "number": _number, "truth": _truth, "name": _name, "binary": _binary, "unary": _unary,
    "dereference": _dereference, "conditional": _conditional, "interval": _interval,
    "subscript": _subscript, "cast": _cast, "assign": _assign, "before": _step, "after": _step,
    "call": _call, "sequence": _sequence,
}  # fmt: skip
