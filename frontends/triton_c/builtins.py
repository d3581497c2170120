"""The functions of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tileir.frontends.triton_c import ctypes, values
from tileir.frontends.triton_c.errors import ProgramError
from tileir.frontends.triton_c.frame import Frame
from tileir.frontends.triton_c.values import Item, TypedValue, describe
from tileir.types import tile

Size: TypeAlias = "tuple[int, ...] | None"
Builtin: TypeAlias = Callable[[Frame, list[Item], Size], Item]


def _axis(items: list[Item], index: int = 0) -> int:
    item = items[index] if len(items) > index else None
    if not isinstance(item, int):
        raise ProgramError("an axis is a constant", "TIR1004")
    return item


def _count(items: list[Item], least: int, most: int | None) -> None:
    if len(items) < least or (most is not None and len(items) > most):
        expected = least if least == most else f"{least} to {most}" if most else f"{least} or more"
        raise ProgramError(f"{expected} arguments are needed, not {len(items)}")


def _global_range(frame: Frame, items: list[Item], size: Size) -> Item:
    """`program id * size + 0 ... size`, of the size stated or of what it initializes."""
    _count(items, 1, 1)
    shape = size or frame.expected
    if shape is None or len(shape) != 1:
        raise ProgramError("the size of a global range is not known: get_global_range[N](axis)")
    b, (extent,) = frame.b, shape
    start = TypedValue(b.program_id(axis=_axis(items)), ctypes.INT)
    first = values.BINARY["*"](b, start, extent)
    return values.BINARY["+"](b, first, TypedValue(b.arange(extent), ctypes.INT))


def _program(name: str) -> Builtin:
    def apply(frame: Frame, items: list[Item], size: Size) -> Item:
        _count(items, 1, 1)
        return TypedValue(getattr(frame.b, name)(axis=_axis(items)), ctypes.INT)

    return apply


def _dot(frame: Frame, items: list[Item], size: Size) -> Item:
    """`dot(a, b)` or `dot(a, b, c)`: the matmul, accumulated onto c."""
    _count(items, 2, 3)
    left, right = (values.value_of(frame.b, item) for item in items[:2])
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
        raise ProgramError(f"dot of {describe(left)} and {describe(right)}")
    kind = ctypes.usual(left.kind, right.kind)
    left, right = values.convert(frame.b, left, kind), values.convert(frame.b, right, kind)
    total = ctypes.FLOAT if kind is ctypes.HALF else kind
    shape = (left.shape[0], right.shape[1])
    start = values.fit(values.convert(frame.b, items[2] if len(items) == 3 else 0, total), shape)
    return TypedValue(frame.b.dot(left.expr, right.expr, start.expr), total)


def _trans(frame: Frame, items: list[Item], size: Size) -> Item:
    """Dimensions exchanged, or in the order given."""
    _count(items, 1, None)
    value = values.value_of(frame.b, items[0])
    order = tuple(_axis(items, i) for i in range(1, len(items)))
    order = order or tuple(reversed(range(len(value.shape))))
    if sorted(order) != list(range(len(value.shape))) or len(order) < 2:
        raise ProgramError(f"{order} is no order of the dimensions of {describe(value)}")
    return TypedValue(value.expr.permute(*order), value.kind)


def _extremum(largest: bool) -> Builtin:
    def apply(frame: Frame, items: list[Item], size: Size) -> Item:
        _count(items, 2, 2)
        left, right = values.common(frame.b, *items)
        if left.kind.is_pointer:
            raise ProgramError(f"numbers are needed, not {describe(left)}")
        word = "max" if largest else "min"
        sign = "s" if left.kind.signed else "u"
        op = f"f{word}num" if left.kind.is_float else f"{sign}{word}"
        return TypedValue(getattr(frame.b, op)(left.expr, right.expr), left.kind)

    return apply


def _select(frame: Frame, items: list[Item], size: Size) -> Item:
    _count(items, 3, 3)
    return values.select(frame.b, *items)


def _function(op: str) -> Builtin:
    def apply(frame: Frame, items: list[Item], size: Size) -> Item:
        _count(items, 1, 1)
        value = values.value_of(frame.b, items[0])
        if not value.kind.is_float:
            value = values.convert(frame.b, value, ctypes.FLOAT)
        return TypedValue(getattr(frame.b, op)(value.expr), value.kind)

    return apply


def _absolute(frame: Frame, items: list[Item], size: Size) -> Item:
    _count(items, 1, 1)
    value = _promote(frame, items[0])
    if not value.kind.signed:
        return value
    op = frame.b.fabs if value.kind.is_float else frame.b.iabs
    return TypedValue(op(value.expr), value.kind)


def _promote(frame: Frame, item: Item) -> TypedValue:
    """A number, of an integer type that C computes in or a float. Raises ProgramError."""
    value = values.value_of(frame.b, item)
    if value.kind.is_pointer:
        raise ProgramError(f"numbers are needed, not {describe(value)}")
    kind = value.kind if value.kind.is_float else ctypes.usual(value.kind, ctypes.INT)
    return values.convert(frame.b, value, kind)


def _reduce_add(frame: Frame, items: list[Item], size: Size) -> Item:
    """`sum(x, axis)`."""
    _count(items, 2, 2)
    value = _promote(frame, items[0])
    combiner = "fadd" if value.kind.is_float else "add"
    axis = _axis(items, 1)
    if not 0 <= axis < len(value.shape):
        raise ProgramError(f"{describe(items[0])} has no axis {axis}")
    return TypedValue(frame.b.reduce([value.expr], axis=axis, combiner=combiner), value.kind)


def _reshape(frame: Frame, items: list[Item], size: Size) -> Item:
    _count(items, 2, None)
    value = values.value_of(frame.b, items[0])
    shape = tuple(_axis(items, i) for i in range(1, len(items)))
    return TypedValue(value.expr.reshape(*shape), value.kind)


def _bitcast(frame: Frame, items: list[Item], size: Size) -> Item:
    """`bitcast(x)`: the bits of a float as an integer of its width, or the other way."""
    _count(items, 1, 1)
    value = values.value_of(frame.b, items[0])
    other = {
        ctypes.FLOAT: ctypes.INT, ctypes.INT: ctypes.FLOAT, ctypes.HALF: ctypes.SHORT,
        ctypes.SHORT: ctypes.HALF, ctypes.DOUBLE: ctypes.LONG, ctypes.LONG: ctypes.DOUBLE,
    }.get(value.kind)  # fmt: skip
    if other is None:
        raise ProgramError(f"bits of {describe(value)} are not seen as another type")
    return TypedValue(frame.b.bitcast(value.expr, tile(other.element, value.shape)), other)


def _atomic(operation: Callable[[Any], Any]) -> Builtin:
    def apply(frame: Frame, items: list[Item], size: Size) -> Item:
        _count(items, 2, 3)
        pointer = items[0]
        if not isinstance(pointer, TypedValue) or pointer.kind.pointee is None:
            raise ProgramError("an atomic access needs a pointer")
        kind, mask = pointer.kind.pointee, frame.predicate
        if len(items) == 3:
            condition = values.condition(frame.b, items[2])
            mask = condition if mask is None else frame.conjunction(mask, condition)
        new = values.convert(frame.b, items[1], kind)
        if mask is None:
            place, new = values.together(pointer, new)
        else:
            place, new, mask = values.together(pointer, new, mask)
        guard = None if mask is None else mask.expr
        return TypedValue(frame.b.atomic_rmw(place.expr, new.expr, guard, op=operation(kind)), kind)

    return apply


def _compare_exchange(frame: Frame, items: list[Item], size: Size) -> Item:
    """`atomic_cas(p, old, new)`: returns the old value."""
    _count(items, 3, 3)
    pointer = items[0]
    if not isinstance(pointer, TypedValue) or pointer.kind.pointee is None:
        raise ProgramError("an atomic access needs a pointer")
    kind = pointer.kind.pointee
    old, new = (values.convert(frame.b, item, kind) for item in items[1:])
    mask = frame.predicate
    together = values.together(pointer, old, new, *([] if mask is None else [mask]))
    return TypedValue(frame.b.atomic_cas(*(value.expr for value in together)), kind)


def _barrier(frame: Frame, items: list[Item], size: Size) -> Item:
    _count(items, 0, 0)
    frame.b.barrier()
    return 0


_EXCHANGE = _atomic(lambda kind: "xchg")
_ADD = _atomic(lambda kind: "fadd" if kind.is_float else "add")

BUILTINS: dict[str, Builtin] = {
    "get_global_range": _global_range, "get_program_id": _program("program_id"),
    "get_range_id": _program("program_id"), "get_num_programs": _program("num_programs"),
    "get_num_program": _program("num_programs"), "dot": _dot, "trans": _trans,
    "max": _extremum(largest=True), "min": _extremum(largest=False), "select": _select,
    "sqrt": _function("sqrt"), "sqrtf": _function("sqrt"), "exp": _function("exp"),
    "log": _function("log"), "sin": _function("sin"), "cos": _function("cos"),
    "tanh": _function("tanh"), "floor": _function("floor"), "ceil": _function("ceil"),
    "abs": _absolute, "fabs": _absolute, "sum": _reduce_add, "__sum": _reduce_add,
    "reshape": _reshape, "__reshape": _reshape, "bitcast": _bitcast,
    "atomic_add": _ADD, "__atomic_add": _ADD,
    "atomic_xchg": _EXCHANGE, "__atomic_exch": _EXCHANGE, "atomic_cas": _compare_exchange,
    "__atomic_cas": _compare_exchange, "__debug_barrier": _barrier,
}  # fmt: skip
"""Functions by name: given the frame, the arguments and the size in brackets."""
