"""Sugar on whole tiles: indexing, reshaping, reductions, dots, memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from tileir.builder.arithmetic import binary, is_float, is_pointer, like
from tileir.builder.builder_value import Wrapped
from tileir.builder.errors import mistake
from tileir.builder.promotion import (
    at,
    broadcast_shape,
    common,
    operand_of,
    to_element,
    type_of_shape,
)
from tileir.types import (
    F32,
    F64,
    I1,
    I32,
    Element,
    Pointer,
    Scalar,
    element_of,
    shape_of,
    tile,
)
from tileir.values import Operand, constant

if TYPE_CHECKING:
    from tileir.builder.builder import Builder
    from tileir.builder.expr import Expr


def index(x: Expr, subscript: Any) -> Expr:
    """Numpy indexing by `None`, `:` and `...` alone: tiles have no addressable elements."""
    items: tuple[Any, ...] = cast(Any, subscript) if isinstance(subscript, tuple) else (subscript,)
    items = _without_ellipsis(items, len(x.shape))
    shape: list[int] = []
    extents = list(x.shape)
    for item in items:
        if item is None:
            shape.append(1)
        elif isinstance(item, slice) and item == slice(None):
            if not extents:
                raise mistake("TIR0804", f"too many indices for a tile of rank {len(x.shape)}")
            shape.append(extents.pop(0))
        elif isinstance(x.type, Pointer):
            message = "a pointer has no index: add an offset to it, as in (p + i).load()"
            raise mistake("TIR0804", message)
        else:
            raise mistake(
                "TIR0804",
                "a tile is indexed by None, : and ... only; for a part of it use "
                "b.extract_slice, for its elements a reduction or b.gather",
            )
    return reshape(x, (*shape, *extents))


def _without_ellipsis(items: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items
    if len(places) > 1:
        raise mistake("TIR0804", "an index has at most one `...`")
    count = sum(item is not None for item in items) - 1
    fill = (slice(None),) * max(0, rank - count)
    return items[: places[0]] + fill + items[places[0] + 1 :]


def extents_of(shape: Iterable[Any]) -> tuple[int, ...]:
    """`shape` with numpy's integers as Python's; what is not an integer stays, for checks to
    name."""
    return tuple([operator.index(n) if hasattr(n, "__index__") else n for n in shape])


def reshape(x: Expr, shape: tuple[int, ...]) -> Expr:
    """`x` at `shape`; a scalar is spread, one extent of -1 is computed."""
    shape = _infer_extent(shape, math.prod(x.shape))
    if shape == x.shape:
        return x
    element = cast(Element, element_of(x.type))
    if math.prod(shape) != math.prod(x.shape):
        raise mistake("TIR0807", f"{x.type} cannot be reshaped to {shape}")
    if not shape:
        return x.builder.insert("unsplat", x)
    return x.builder.insert(
        "reshape" if x.shape else "splat", x, type=type_of_shape(element, shape)
    )


def _infer_extent(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if shape.count(-1) != 1:
        return shape
    known_size = -math.prod(shape)
    if known_size <= 0 or size % known_size:
        raise mistake("TIR0807", f"{size} elements cannot be reshaped to {shape}")
    return tuple(size // known_size if n == -1 else n for n in shape)


def arange(builder: Builder, start: int, stop: int | None) -> Expr:
    """i32 tile `start, start + 1, ..., stop - 1`; from 0 when `stop` is not given."""
    low, high = (0, start) if stop is None else (start, stop)
    for bound in (low, high):
        if isinstance(bound, Wrapped) or not hasattr(bound, "__index__"):
            message = f"the bounds of a range are integers of Python, not {low} to {high}"
            raise mistake("TIR0804", f"{message}; add a value to the range, as in b.arange(64) + n")
    if high <= low:
        raise mistake("TIR0804", f"a range needs at least one element, not {low} to {high}")
    extent = extents_of((high - low,))
    return builder.insert("make_range", type=tile(I32, extent), start=operator.index(low))


def full(builder: Builder, shape: tuple[int, ...] | int, value: Any, element: Element) -> Operand:
    """`value`, converted to `element`, at every place of a tile."""
    if isinstance(element, int):
        message = f"an element type is needed, as F32, not {element}"
        raise mistake("TIR0807", f"{message}; several extents are a tuple, as in b.zeros((4, 8))")
    extents = extents_of(shape if isinstance(shape, Iterable) else (shape,))
    operand = operand_of(value)
    if isinstance(operand, (int, float)):
        return like(builder, operand, builder.undef(type_of_shape(element, extents)).value)
    return at(builder, to_element(builder, operand, element), extents)


def extremum(builder: Builder, x: Any, y: Any, largest: bool) -> Expr:
    """Elementwise signed maximum or minimum, of i1 unsigned; NaN where either is NaN."""
    left, right = common(builder, x, y)
    return binary(builder, builder.wrap(left), builder.wrap(right), *extrema(left, largest))


def extrema(value: Operand, largest: bool) -> tuple[str, str]:
    """The ops for the maximum or minimum of values of the type of `value`: for integers, floats."""
    if element_of(value.type) is I1:
        return ("or", "fmaximum") if largest else ("and", "fminimum")
    return ("smax", "fmaximum") if largest else ("smin", "fminimum")


# Reductions --------------------------------------------------------------------------------


def reduce(x: Expr, axis: int | None, keepdims: bool, integer: Any, floating: Any) -> Expr:
    """Reduction along `axis` by the combiner for x's kind; over everything for None. With
    `keepdims` the dimensions reduced stay, with extent 1."""
    flat = reshape(x, (-1,)) if axis is None else x
    place = 0 if axis is None else axis_of(x, axis)
    combiner = floating if is_float(x.value) else integer
    expr = x.builder.insert("reduce", [flat], axis=place, combiner=combiner)
    if not keepdims:
        return expr
    extents = (1 if axis is None or i == place else n for i, n in enumerate(x.shape))
    return reshape(expr, tuple(extents))


def bool_to_i32(x: Expr) -> Expr:
    """`x`, where it is i1 converted to i32, so that a sum counts the true elements."""
    return x.to(I32) if element_of(x.type) is I1 else x


def scan(x: Expr, axis: int, combiner: Any, reverse: bool) -> Expr:
    """Running reduction along `axis`."""
    return x.builder.insert("scan", [x], axis=axis_of(x, axis), combiner=combiner, reverse=reverse)


def arg_extremum(x: Expr, axis: int | None, largest: bool) -> Expr:
    """Index (i32) of the extreme along `axis`, or among all elements in row-major order for None:
    the first of equal ones, the first NaN if any."""
    if axis is None:
        return arg_extremum(reshape(x, (-1,)), 0, largest)
    place, b = axis_of(x, axis), x.builder
    where = reshape(b.arange(x.shape[place]), _along(x.shape, place)).broadcast_to(*x.shape)

    def extreme(v: Expr, i: Expr, w: Expr, j: Expr) -> tuple[Expr, Expr]:
        better, equal = v > w if largest else v < w, v == w
        if is_float(v.value):
            better, equal = better | ((v != v) & (w == w)), equal | ((v != v) & (w != w))
        take = better | (equal & (i < j))
        return b.where(take, v, w), b.where(take, i, j)

    return b.insert_all("reduce", [x, where], axis=place, combiner=extreme)[1]


def axis_of(x: Expr, axis: int) -> int:
    """`axis` counted from the front. Raises BuildError where `x` has no such dimension."""
    rank = len(x.shape)
    if axis not in range(-rank, rank):
        raise mistake("TIR0804", f"axis {axis} of a value of type {x.type}")
    return axis % rank


def _along(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n if i == axis else 1 for i, n in enumerate(shape))


# Dots ----------------------------------------------------------------------------------------


def dot(builder: Builder, a: Expr, b: Expr, c: Any = None, **attributes: Any) -> Expr:
    """`a @ b + c`; the accumulator is f32 (i32 for integers, f64 for f64) where `c` is absent
    or a number."""
    if len(a.shape) < 2 or len(a.shape) != len(b.shape):
        raise mistake("TIR0807", f"a dot needs two tiles of rank 2 or 3: {a.type}, {b.type}")
    accumulator = builder.undef(tile(_accumulator(a), (*a.shape[:-1], b.shape[-1]))).value
    start = like(builder, 0 if c is None else c, accumulator)
    return builder.insert("dot", a, b, start, **attributes)


def _accumulator(a: Expr) -> Element:
    element = element_of(a.type)
    if isinstance(element, Scalar) and element.is_integer:
        return I32
    return F64 if element is F64 else F32


# Memory ---------------------------------------------------------------------------------------


def load(pointer: Expr, mask: Any, other: Any, attributes: dict[str, Any]) -> Expr:
    """Load with `mask` and `other` broadcast to the pointers."""
    builder, pointee = pointer.builder, _pointee(pointer)
    pointer, mask = _broadcast_mask(pointer, mask)
    if other is not None and not isinstance(other, (bool, int, float)):
        other = to_element(builder, cast(Operand, operand_of(other)), pointee)
    filler = None if other is None else like(builder, other, pointer.value, pointee)
    return builder.insert("load", pointer, mask, filler, **attributes)


def store(pointer: Expr, value: Any, mask: Any, attributes: dict[str, Any]) -> None:
    """Store with `value` and `mask` broadcast to the pointers."""
    pointer, mask = _broadcast_mask(pointer, mask)
    written = _for_pointer(pointer, value)
    pointer.builder.insert_all("store", pointer, written, mask, **attributes)


def atomic(pointer: Expr, op: str, value: Any, mask: Any, attributes: dict[str, Any]) -> Expr:
    """Atomic read-modify-write with `value` and `mask` broadcast to the pointers."""
    pointer, mask = _broadcast_mask(pointer, mask)
    written = _for_pointer(pointer, value)
    return pointer.builder.insert("atomic_rmw", pointer, written, mask, op=op, **attributes)


def _broadcast_mask(pointer: Expr, mask: Any) -> tuple[Expr, Operand | None]:
    """Pointers and mask broadcast to one shape."""
    builder = pointer.builder
    if mask is None:
        return pointer, None
    operand = operand_of(mask)
    if isinstance(operand, (int, float)):
        operand = constant(I1, operand)
    shape = broadcast_shape(pointer.shape, shape_of(operand.type))
    return builder.wrap(at(builder, pointer.value, shape)), at(builder, operand, shape)


def _for_pointer(pointer: Expr, value: Any) -> Operand:
    builder, pointee = pointer.builder, _pointee(pointer)
    operand = operand_of(value)
    if isinstance(operand, (int, float)):
        return like(builder, operand, pointer.value, pointee)
    return like(builder, builder.wrap(to_element(builder, operand, pointee)), pointer.value)


def _pointee(pointer: Expr) -> Element:
    element = element_of(pointer.type)
    if not is_pointer(pointer) or not isinstance(element, Pointer):
        raise mistake("TIR0808", f"only pointers have a memory to access, not {pointer.type}")
    return element.pointee
