"""Values of a program and C's operators on them, elementwise, with broadcasting (MAPL'19 3.2.2).

Literals take the type of the other operand; without another operand they have C's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.triton_c import ctypes
from tileir.frontends.triton_c.ctypes import CType
from tileir.frontends.triton_c.errors import ProgramError
from tileir.types import tile


@attrs.frozen(eq=False)
class TypedValue:
    """A scalar or tile of elements of type `kind`."""

    expr: Expr
    kind: CType

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; none for a scalar."""
        return self.expr.shape


Item: TypeAlias = "TypedValue | int | float"
"""A run-time value, or a compile-time number."""


def describe(item: Item) -> str:
    """The name of a value in messages."""
    if not isinstance(item, TypedValue):
        return str(item)
    return f"{item.kind}[{', '.join(map(str, item.shape))}]" if item.shape else str(item.kind)


def own_type(number: float) -> CType:
    """The type of a number without another operand."""
    if isinstance(number, bool):
        return ctypes.BOOL
    if isinstance(number, float):
        return ctypes.FLOAT
    return ctypes.INT if -(1 << 31) <= number < 1 << 31 else ctypes.LONG


def literal(b: Builder, number: float, kind: CType, shape: tuple[int, ...] = ()) -> TypedValue:
    """`number` everywhere. Raises ProgramError."""
    return TypedValue(b.constant(tile(kind.element, shape), as_kind(number, kind)), kind)


def as_kind(number: Any, kind: CType) -> float:
    """`number` converted to type `kind`. Raises ProgramError."""
    if not isinstance(number, (int, float)):
        raise ProgramError(f"a number is needed, not a {type(number).__name__}")
    if kind.is_pointer:
        raise ProgramError(f"{number} is not a pointer")
    if kind.is_float:
        return float(number)
    if kind is ctypes.BOOL:
        return bool(number)
    if not math.isfinite(number):
        raise ProgramError(f"{number} is no {kind}")
    wrapped = int(number) & ((1 << kind.bits) - 1)
    return wrapped - ((wrapped >> kind.bits - 1) << kind.bits) if kind.signed else wrapped


def value_of(b: Builder, item: Item) -> TypedValue:
    """A number as a value of its own type."""
    return item if isinstance(item, TypedValue) else literal(b, item, own_type(item))


def convert(b: Builder, item: Item, kind: CType) -> TypedValue:
    """`item` with elements of `kind`. Raises ProgramError."""
    if not isinstance(item, TypedValue):
        return literal(b, item, kind)
    if item.kind == kind:
        return item
    if item.kind.is_pointer != kind.is_pointer:
        raise ProgramError(f"{item.kind} is not converted to {kind}")
    if item.kind.element is kind.element:
        return TypedValue(item.expr, kind)
    signed = item.kind.signed if item.kind.is_integer else kind.signed
    return TypedValue(item.expr.to(kind.element, signed=signed), kind)


def shape_of_all(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which values broadcast. Raises ProgramError."""
    rank = max(map(len, shapes))
    shape: list[int] = []
    for extents in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        wide = {n for n in extents if n != 1}
        if len(wide) > 1:
            listed = " and ".join(f"[{', '.join(map(str, s))}]" for s in shapes)
            raise ProgramError(f"tiles of shapes {listed} do not broadcast")
        shape.append(wide.pop() if wide else 1)
    return tuple(shape)


def fit(value: TypedValue, shape: tuple[int, ...]) -> TypedValue:
    """`value` broadcast to `shape`. Raises ProgramError."""
    if value.shape == shape:
        return value
    if shape_of_all(value.shape, shape) != shape:
        extents = ", ".join(map(str, shape))
        raise ProgramError(f"{describe(value)} does not fit a tile of shape [{extents}]")
    return TypedValue(value.expr.broadcast_to(*shape), value.kind)


def together(*values: TypedValue) -> tuple[TypedValue, ...]:
    """All at one shape."""
    shape = shape_of_all(*(v.shape for v in values))
    return tuple(fit(v, shape) for v in values)


def common(b: Builder, x: Item, y: Item) -> tuple[TypedValue, TypedValue]:
    """Both at one type and shape. Raises ProgramError."""
    kind = _common_type(x, y)
    left, right = together(convert(b, x, kind), convert(b, y, kind))
    return left, right


def _common_type(x: Item, y: Item) -> CType:
    if isinstance(x, TypedValue):
        return (
            ctypes.usual(x.kind, y.kind)
            if isinstance(y, TypedValue)
            else _type_with_number(x.kind, y)
        )
    if isinstance(y, TypedValue):
        return _type_with_number(y.kind, x)
    return ctypes.usual(own_type(x), own_type(y))


def _type_with_number(kind: CType, number: float) -> CType:
    """The type in which a number and values of `kind` are combined."""
    if kind.is_float or kind.is_pointer:
        return kind
    if isinstance(number, float):
        return ctypes.FLOAT
    kind = ctypes.usual(kind, ctypes.INT)
    fits = not kind.signed and 0 <= number < 1 << kind.bits
    return kind if fits else ctypes.usual(kind, own_type(number))


# Operators ----------------------------------------------------------------------------------


def condition(b: Builder, item: Item) -> TypedValue:
    """Whether `item` is not 0."""
    value = value_of(b, item)
    if value.kind is ctypes.BOOL:
        return value
    if value.kind.is_pointer:
        raise ProgramError("a pointer is no condition")
    return TypedValue(value.expr.to(ctypes.BOOL.element), ctypes.BOOL)


def _logical(name: str) -> Callable[[Builder, Item, Item], TypedValue]:
    def apply(b: Builder, x: Item, y: Item) -> TypedValue:
        left, right = together(condition(b, x), condition(b, y))
        return TypedValue(getattr(b, name)(left.expr, right.expr), ctypes.BOOL)

    return apply


def _compare(name: str) -> Callable[[Builder, Item, Item], TypedValue]:
    def apply(b: Builder, x: Item, y: Item) -> TypedValue:
        left, right = common(b, x, y)
        if left.kind.is_float:
            relation: Any = "une" if name == "ne" else f"o{name}"
            return TypedValue(b.fcmp(left.expr, right.expr, predicate=relation)[0], ctypes.BOOL)
        is_signed = left.kind.signed and not left.kind.is_pointer
        sign = "" if name in ("eq", "ne") else "s" if is_signed else "u"
        relation = f"{sign}{name}"
        result = b.icmp(left.expr, right.expr, predicate=relation)[0]
        return TypedValue(result, ctypes.BOOL)

    return apply


def _arithmetic(name: str) -> Callable[[Builder, Item, Item], TypedValue]:
    def apply(b: Builder, x: Item, y: Item) -> TypedValue:
        moved = _pointer(b, name, x, y)
        if moved is not None:
            return moved
        left, right = common(b, x, y)
        if left.kind.is_pointer:
            raise ProgramError(f"pointers are not operands of {name}")
        if left.kind.is_float:
            op = {"div": "fdiv", "rem": "frem"}.get(name, f"f{name}")
            return TypedValue(getattr(b, op)(left.expr, right.expr), left.kind)
        if name in ("div", "rem"):
            op = f"{'s' if left.kind.signed else 'u'}{name}"
            return TypedValue(getattr(b, op)(left.expr, right.expr), left.kind)
        wraps = "nsw" if left.kind.signed else "none"
        return TypedValue(getattr(b, name)(left.expr, right.expr, overflow=wraps), left.kind)

    return apply


def _pointer(b: Builder, name: str, x: Item, y: Item) -> TypedValue | None:
    """A pointer moved by this number of elements; None if neither operand is a pointer."""
    if isinstance(y, TypedValue) and y.kind.is_pointer and name == "add":
        x, y = y, x
    if not isinstance(x, TypedValue) or not x.kind.is_pointer or name not in ("add", "sub"):
        return None
    index = value_of(b, y)
    if not index.kind.is_integer:
        raise ProgramError(f"a pointer moves by integers, not by {describe(index)}")
    wide = index.kind if index.kind in (ctypes.INT, ctypes.LONG) else ctypes.LONG
    index = convert(b, index, wide)
    if name == "sub":
        index = TypedValue(b.neg(index.expr), wide)
    place, index = together(x, index)
    return TypedValue(b.getelementptr(place.expr, index.expr), x.kind)


def _bits(name: str) -> Callable[[Builder, Item, Item], TypedValue]:
    def apply(b: Builder, x: Item, y: Item) -> TypedValue:
        left, right = common(b, x, y)
        if not left.kind.is_integer:
            raise ProgramError(f"bits of {describe(left)} are not combined")
        return TypedValue(getattr(b, name)(left.expr, right.expr), left.kind)

    return apply


def _shift(right: bool) -> Callable[[Builder, Item, Item], TypedValue]:
    """The result has the type of the shifted operand; a literal gets a type that is wide enough for
    the count."""

    def apply(b: Builder, x: Item, y: Item) -> TypedValue:
        value, count = value_of(b, x), value_of(b, y)
        if not value.kind.is_integer or not count.kind.is_integer:
            raise ProgramError(f"bits of {describe(value)} are not shifted by {describe(count)}")
        kind = ctypes.usual(value.kind, ctypes.INT)
        if not isinstance(x, TypedValue) and count.kind.bits == 64:
            kind = ctypes.LONG
        value, count = together(convert(b, value, kind), convert(b, count, kind))
        op = "shl" if not right else "ashr" if kind.signed else "lshr"
        return TypedValue(getattr(b, op)(value.expr, count.expr), kind)

    return apply


BINARY: dict[str, Callable[[Builder, Item, Item], TypedValue]] = {
    "+": _arithmetic("add"), "-": _arithmetic("sub"), "*": _arithmetic("mul"),
    "/": _arithmetic("div"), "%": _arithmetic("rem"), "&&": _logical("and_"),
    "||": _logical("or_"), "&": _bits("and_"), "|": _bits("or_"), "^": _bits("xor"),
    "<<": _shift(right=False), ">>": _shift(right=True), "<": _compare("lt"), "<=": _compare("le"),
    ">": _compare("gt"), ">=": _compare("ge"), "==": _compare("eq"), "!=": _compare("ne"),
}  # fmt: skip
"""The operators of two operands."""


def unary(b: Builder, sign: str, item: Item) -> TypedValue:
    """`-x`, `+x`, `!x`, `~x`. Raises ProgramError."""
    if sign == "!":
        nonzero = condition(b, item)
        return TypedValue(
            b.xor(nonzero.expr, literal(b, 1, ctypes.BOOL, nonzero.shape).expr), ctypes.BOOL
        )
    value = value_of(b, item)
    if value.kind.is_pointer or (sign == "~" and value.kind.is_float):
        raise ProgramError(f"{sign} is not of {describe(value)}")
    if value.kind.is_integer:
        value = convert(b, value, ctypes.usual(value.kind, ctypes.INT))
    if sign == "+":
        return value
    if sign == "~":
        ones = literal(b, -1, value.kind, value.shape)
        return TypedValue(b.xor(value.expr, ones.expr), value.kind)
    return TypedValue((b.fneg if value.kind.is_float else b.neg)(value.expr), value.kind)


def select(b: Builder, chosen: Item, x: Item, y: Item) -> TypedValue:
    """`x` where `chosen`, else `y`."""
    left, right = common(b, x, y)
    selected, left, right = together(condition(b, chosen), left, right)
    return TypedValue(b.select(selected.expr, left.expr, right.expr), left.kind)
