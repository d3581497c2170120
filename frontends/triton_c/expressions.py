"""Expressions: what each node of the tree evaluates to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.frontends.triton_c import numbers, values
from tileir.frontends.triton_c.builtins import BUILTINS
from tileir.frontends.triton_c.ctypes import CType, named, pointer_to
from tileir.frontends.triton_c.errors import ProgramError
from tileir.frontends.triton_c.frame import Frame
from tileir.frontends.triton_c.values import Item, Value, described


def evaluate(frame: Frame, node: Any) -> Item:
    """The value of `node`. Raises CompilationError."""
    with frame.at(node):
        return _RULES[node.data](frame, node)


def known(frame: Frame, node: Any) -> int:
    """An integer known while compiling. Raises CompilationError."""
    found = evaluate(frame, node)
    with frame.at(node):
        if isinstance(found, Value) or not isinstance(found, int):
            message = f"a constant is needed, not {described(found)}"
            raise ProgramError(message, "TIR1004")
        return found


def extents(frame: Frame, node: Any) -> tuple[int, ...]:
    """The shape that `[A, B]` of a declaration gives; none for a scalar."""
    (items,) = node.children
    found = () if items is None else tuple(known(frame, n) for n in items.children)
    if any(n < 1 for n in found):
        with frame.at(node):
            raise ProgramError("an extent must be at least 1")
    return found


def type_of(base: CType, stars: Any) -> CType:
    """`base` with its stars. Raises ProgramError."""
    for _ in stars.children:
        base = pointer_to(base)
    return base


def _number(frame: Frame, node: Any) -> Item:
    return numbers.parsed(str(node.children[0]))


def _truth(frame: Frame, node: Any) -> Item:
    return node.children[0] == "true"


def _name(frame: Frame, node: Any) -> Item:
    return frame.read(str(node.children[0]))


def _binary(frame: Frame, node: Any) -> Item:
    left, sign, right = node.children
    return combined(frame, str(sign), evaluate(frame, left), evaluate(frame, right))


def combined(frame: Frame, sign: str, x: Item, y: Item) -> Item:
    """`x sign y`, computed at once where both are known."""
    if isinstance(x, Value) or isinstance(y, Value):
        return values.BINARY[sign](frame.b, x, y)
    return numbers.binary(sign, x, y)


def _unary(frame: Frame, node: Any) -> Item:
    sign, operand = node.children
    value = evaluate(frame, operand)
    if isinstance(value, Value):
        return values.unary(frame.b, str(sign), value)
    return numbers.unary(str(sign), value)


def _dereference(frame: Frame, node: Any) -> Item:
    return load(frame, evaluate(frame, node.children[-1]), None)


def load(frame: Frame, pointer: Item, other: Item | None) -> Value:
    """`*pointer`, where the guard allows it; `other` elsewhere. Raises ProgramError."""
    if not isinstance(pointer, Value) or pointer.kind.pointee is None:
        raise ProgramError(f"* is of pointers, not of {described(pointer)}")
    place, mask = pointer, frame.guard
    if mask is not None:
        place, mask = values.together(pointer, mask)
    kind = pointer.kind.pointee
    filler = None
    if other is not None and mask is not None:
        filler = values.fit(values.convert(frame.b, other, kind), place.shape).expr
    held = None if mask is None else mask.expr
    return Value(frame.b.load(place.expr, held, filler), kind)


def _conditional(frame: Frame, node: Any) -> Item:
    test, then, otherwise = node.children
    chosen = evaluate(frame, test)
    if not isinstance(chosen, Value):
        return evaluate(frame, then if chosen else otherwise)
    held = values.condition(frame.b, chosen)
    if then.data == "dereference" and otherwise.data in ("number", "truth"):
        pointer, other = evaluate(frame, then.children[-1]), evaluate(frame, otherwise)
        with frame.guarded(held):
            return load(frame, pointer, other)
    with frame.guarded(held):
        one = evaluate(frame, then)
    with frame.guarded(values.unary(frame.b, "!", held)):
        two = evaluate(frame, otherwise)
    return values.select(frame.b, held, one, two)


def _interval(frame: Frame, node: Any) -> Item:
    low, high = (known(frame, n) for n in node.children)
    if high <= low:
        raise ProgramError(f"the range {low} ... {high} has no element")
    return Value(frame.b.arange(low, high), named(("int",)))


def _subscript(frame: Frame, node: Any) -> Item:
    value, items = evaluate(frame, node.children[0]), node.children[1].children
    kinds = [item.data for item in items]
    if not isinstance(value, Value) or not set(kinds) <= {"colon", "newaxis"}:
        message = "tiles are sliced by : and newaxis only: their elements have no addresses"
        raise ProgramError(message)
    if kinds.count("colon") != len(value.shape):
        raise ProgramError(f"{described(value)} has {len(value.shape)} dimensions to slice")
    index = tuple(slice(None) if kind == "colon" else None for kind in kinds)
    return Value(value.expr[index], value.kind)


def _cast(frame: Frame, node: Any) -> Item:
    words, stars, shape, operand = node.children
    kind = type_of(named(tuple(map(str, words.children))), stars)
    value = values.convert(frame.b, evaluate(frame, operand), kind)
    wanted = extents(frame, shape)
    return values.fit(value, wanted) if wanted else value


def _assign(frame: Frame, node: Any) -> Item:
    target, sign, source = node.children
    op = str(sign)[:-1]
    if target.data == "name":
        name = str(target.children[0])
        new = evaluate(frame, source)
        return frame.assign(name, combined(frame, op, frame.read(name), new) if op else new)
    if target.data == "dereference":
        pointer = evaluate(frame, target.children[-1])
        new = evaluate(frame, source)
        return store(
            frame, pointer, combined(frame, op, load(frame, pointer, None), new) if op else new
        )
    raise ProgramError("only names and what pointers point to are assigned to", "TIR1001")


def store(frame: Frame, pointer: Item, item: Item) -> Value:
    """`*pointer = item`, where the predicate holds. Raises ProgramError."""
    if not isinstance(pointer, Value) or pointer.kind.pointee is None:
        raise ProgramError(f"* is of pointers, not of {described(pointer)}")
    new, mask, place = values.convert(frame.b, item, pointer.kind.pointee), frame.predicate, pointer
    if mask is None:
        place, new = values.together(place, new)
    else:
        place, new, mask = values.together(place, new, mask)
    frame.b.store(place.expr, new.expr, None if mask is None else mask.expr)
    return new


def _step(frame: Frame, node: Any) -> Item:
    """`++x`, `x++` and the like: the value before or after."""
    before = node.data == "before"
    target, sign = (node.children[1], node.children[0]) if before else node.children
    if target.data != "name":
        raise ProgramError("only names are counted up and down", "TIR1001")
    name = str(target.children[0])
    old = frame.read(name)
    new = frame.assign(name, combined(frame, str(sign)[0], old, 1))
    return new if before else old


def _call(frame: Frame, node: Any) -> Item:
    callee, arguments = node.children
    size: tuple[int, ...] | None = None
    if callee.data == "subscript":
        size = tuple(known(frame, n) for n in callee.children[1].children)
        callee = callee.children[0]
    if callee.data != "name":
        raise ProgramError("only functions are called", "TIR1001")
    name = str(callee.children[0])
    given = [] if arguments is None else [evaluate(frame, n) for n in arguments.children]
    if name in frame.functions:
        return frame.functions[name](frame, given)
    if name not in BUILTINS:
        raise ProgramError(f"there is no function {name}", "TIR1002")
    return BUILTINS[name](frame, given, size)


_RULES: dict[str, Callable[[Frame, Any], Item]] = {
    "number": _number, "truth": _truth, "name": _name, "binary": _binary, "unary": _unary,
    "dereference": _dereference, "conditional": _conditional, "interval": _interval,
    "subscript": _subscript, "cast": _cast, "assign": _assign, "before": _step, "after": _step,
    "call": _call,
}  # fmt: skip
