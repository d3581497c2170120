"""Values while a kernel is made: tiles whose axes are labels, and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tileir.builder import F32, I32, Builder, Expr
from tileir.frontends.decoupled.element_types import RELATIONS, wide
from tileir.frontends.decoupled.functions import FAST, FUNCTIONS, as_float, as_integer, quotient
from tileir.types import Scalar, element_of

Item: TypeAlias = "Expr | int | float"


@attrs.frozen(eq=False)
class TileValue:
    """A scalar, or a tile with an axis for each of `axes`. Where positions along a label of
    `zeroed` are outside of the tensor, the elements are 0."""

    item: Item
    axes: tuple[str, ...] = ()
    zeroed: frozenset[str] = frozenset()

    def rename(self, names: dict[str, str]) -> TileValue:
        """The same with renamed axes."""
        if all(names.get(a, a) == a for a in self.axes):
            return self
        zeroed = frozenset(names.get(a, a) for a in self.zeroed)
        return TileValue(self.item, tuple(names.get(a, a) for a in self.axes), zeroed)


def element(expr: Expr) -> Scalar:
    """The type of its elements."""
    scalar = element_of(expr.type)
    assert isinstance(scalar, Scalar)
    return scalar


def widen(item: Item) -> Item:
    """At the type that is computed in."""
    return item.to(wide(element(item))) if isinstance(item, Expr) else item


def align_axes(tile: TileValue, axes: tuple[str, ...]) -> Item:
    """The tile with an axis, perhaps of extent one, for each of `axes`; scalars stay scalars."""
    if not isinstance(tile.item, Expr) or tile.axes == axes or not tile.axes:
        return tile.item
    common_axes = [a for a in axes if a in tile.axes]
    expr = tile.item
    if tuple(common_axes) != tile.axes:
        expr = expr.permute(*(tile.axes.index(a) for a in common_axes))
    extents = dict(zip(common_axes, expr.shape, strict=True))
    return expr.reshape(*(extents.get(a, 1) for a in axes))


def spread(tile: TileValue, axes: tuple[str, ...], shape: tuple[int, ...], b: Builder) -> Expr:
    """The tile at every place of `shape`."""
    item = align_axes(tile, axes)
    expr = item if isinstance(item, Expr) else constant(b, item)
    return expr.broadcast_to(*shape) if shape else expr


def constant(b: Builder, number: float) -> Expr:
    """A number as a value of the type it has by itself."""
    if isinstance(number, int) and -(1 << 31) <= number < 1 << 31:
        return b.constant(I32, number)
    return b.constant(F32, float(number))


def unary(op: str, item: Item) -> Item:
    """`+x` or `-x`."""
    wide_item = widen(item)
    return -wide_item if op == "-" else wide_item


def binary(b: Builder, op: str, left: Item, right: Item, fast: bool = False) -> Item:
    """An operator of Table 3.2, `fast` by approximate instructions. Raises ZeroDivisionError where
    numbers are divided by zero."""
    left, right = widen(left), widen(right)
    if not isinstance(left, Expr) and not isinstance(right, Expr):
        return _fold(op, left, right)
    if op == "%":
        return _remainder(b, left, right)
    if op == "/" and fast:
        return quotient(
            b, *(as_float(b, x) if isinstance(x, Expr) else float(x) for x in (left, right))
        )
    return _OPERATORS[op](left, right)


def _remainder(b: Builder, left: Item, right: Item) -> Expr:
    """The remainder with the sign of the dividend, as in C."""
    total = left + right
    assert isinstance(total, Expr)
    if element(total).is_float:
        zero = b.constant(total.type, 0.0)
        x, y = (b.where(zero == zero, item, zero) for item in (left, right))
        return b.frem(x, y)
    return left.srem(right) if isinstance(left, Expr) else constant(b, left).srem(right)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "/": lambda x, y: x / y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y, ">=": lambda x, y: x >= y, "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y, "%": math.fmod,
}  # fmt: skip


def _fold(op: str, left: float, right: float) -> int | float:
    if op == "%" and isinstance(left, int) and isinstance(right, int):
        return int(math.copysign(abs(left) % abs(right), left))
    result = _OPERATORS[op](left, right)
    return int(result) if op in RELATIONS else result


def call(b: Builder, name: str, items: list[Item], fast: bool = False) -> Item:
    """A function of `FUNCTIONS`. Raises TypeError for operands it does not take."""
    function = FUNCTIONS[name]
    items = [widen(item) for item in items]
    if not any(isinstance(item, Expr) for item in items):
        items[0] = _value(b, items[0])
    if function.kind == "integer":
        items = [as_integer(b, item) for item in items]
    if function.kind == "float":
        items = [as_float(b, item) if isinstance(item, Expr) else item for item in items]
    if function.kind == "float" and function.arity == 1:
        items = [as_float(b, item) for item in items]
    if function.kind == "choice":
        items[0] = condition(b, items[0])
        items[1:] = _to_common_type(b, items[1], items[2])
    return (FAST[name] if fast and name in FAST else function.emit)(b, *items)


def _value(b: Builder, item: Item) -> Expr:
    return item if isinstance(item, Expr) else constant(b, item)


def condition(b: Builder, item: Item) -> Expr:
    """Whether `item` is not 0."""
    return _value(b, item) != 0


def _to_common_type(b: Builder, left: Item, right: Item) -> list[Item]:
    """Two numbers as values of their common type."""
    if isinstance(left, Expr) or isinstance(right, Expr):
        return [left, right]
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    return [constant(b, left), constant(b, right)]
