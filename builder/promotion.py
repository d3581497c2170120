"""Promotion of operands: literals, common element types, numpy-style broadcasting.

Broadcasting (MAPL'19 §3.2.2): the shorter shape is padded with ones on the left, then both are
replicated until the shapes are equal. Common element types:

    integer, integer   the wider one; the other is sign-extended, i1 zero-extended
    float, float       the wider one; f32 where the two have one width (f16 and bf16)
    integer, float     the float type
    number, value      the value's element type; a float and an integer both become f32
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.builder.arguments import as_number, literal
from tileir.builder.builder_value import Wrapped
from tileir.builder.errors import mistake
from tileir.types import (
    F32,
    I1,
    I32,
    I64,
    Element,
    Pointer,
    Scalar,
    Type,
    element_of,
    shape_of,
    tile,
)
from tileir.values import Constant, Operand, Undef, Value

if TYPE_CHECKING:
    from tileir.builder.builder import Builder


def operand_of(item: Any) -> Operand | int | float | bool:
    """The operand a `Wrapped` holds, an operand itself, or a Python number. Raises BuildError."""
    if isinstance(item, Wrapped):
        return item.value
    if isinstance(item, (Value, Constant, Undef)):
        return item
    number = as_number(item)
    if number is None:
        raise mistake("TIR0803", f"expected a value or a number, not {item!r}")
    return number


def common(builder: Builder, lhs: Any, rhs: Any) -> tuple[Operand, Operand]:
    """Both at one element type and one shape."""
    left, right = operand_of(lhs), operand_of(rhs)
    element = common_element(left, right)
    if isinstance(left, (int, float)):
        return _literal_like(left, right, element), convert(builder, right, element)
    if isinstance(right, (int, float)):
        return convert(builder, left, element), _literal_like(right, left, element)
    if left.type is right.type:
        return left, right
    shape = broadcast_shape(shape_of(left.type), shape_of(right.type))
    left, right = convert(builder, left, element), convert(builder, right, element)
    return at(builder, left, shape), at(builder, right, shape)


def at(builder: Builder, value: Operand, shape: tuple[int, ...]) -> Operand:
    """`value` broadcast to `shape`. Raises BuildError where it does not fit."""
    old = shape_of(value.type)
    if old == shape:
        return value
    element = _element(value)
    if broadcast_shape(old, shape) != shape:
        required = f"the shape {_text(shape)}" if shape else "a scalar"
        raise mistake("TIR0807", f"a value of shape {_text(old)} does not fit {required}")
    if isinstance(value, Constant):
        return Constant(type_of_shape(element, shape), value.bits)
    if isinstance(value, Undef):
        return Undef(type_of_shape(element, shape))
    if not old:
        return builder.insert("splat", value, type=type_of_shape(element, shape)).value
    padded = (1,) * (len(shape) - len(old)) + old
    if padded != old:
        value = builder.insert("reshape", value, type=tile(element, padded)).value
    if padded == shape:
        return value
    return builder.insert("broadcast", value, type=type_of_shape(element, shape)).value


def type_of_shape(element: Element, shape: tuple[int, ...]) -> Type:
    """`element` at `shape`. Raises BuildError where an extent is not positive."""
    try:
        return tile(element, shape)
    except (TypeError, ValueError) as error:
        raise mistake("TIR0807", str(error)) from None


def broadcast_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """The shape two shapes broadcast to. Raises BuildError where there is none."""
    rank = max(len(left), len(right))
    padded = [(1,) * (rank - len(s)) + s for s in (left, right)]
    for a, b in zip(*padded, strict=True):
        if a != b and 1 not in (a, b):
            shapes = f"{_text(left)} and {_text(right)}"
            raise mistake("TIR0807", f"shapes {shapes} do not broadcast: {a} is not {b}")
    return tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))


def common_element(left: Operand | float, right: Operand | float) -> Element:
    """The common element type of two operands. Raises BuildError."""
    if isinstance(left, (int, float)):
        return _number_like(right, left)
    if isinstance(right, (int, float)):
        return _number_like(left, right)
    return common_scalar(_element(left), _element(right))


def common_scalar(a: Element, b: Element) -> Element:
    """The element type values of `a` and `b` are both converted to. Raises BuildError."""
    if a is b:
        return a
    if not isinstance(a, Scalar) or not isinstance(b, Scalar):
        raise mistake("TIR0808", f"{a} and {b} have no common type")
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return F32


def convert(builder: Builder, value: Operand | float, element: Element) -> Operand:
    """A number as a literal of `element`; a value converted to it, integers as signed."""
    if isinstance(value, (int, float)):
        return literal(element, value)
    return to_element(builder, value, element)


def to_element(
    builder: Builder, value: Operand, to: Element, *, signed: bool = True, **attributes: Any
) -> Operand:
    """`value` with its elements converted to `to`; i1 counts as 0 and 1."""
    old = _element(value)
    if old is to:
        return value
    if (_small(old) and _is_integer(to)) or (_small(to) and _is_integer(old)):
        value = to_element(builder, value, F32, signed=signed)
        return to_element(builder, value, to, signed=signed, **attributes)
    mnemonic = _conversion(old, to, signed and old is not I1)
    if mnemonic is None:
        raise mistake("TIR0808", f"there is no conversion from {old} to {to}")
    new = tile(to, shape_of(value.type))
    if mnemonic in ("icmp", "fcmp"):
        zero, relation = literal(value.type, 0), "ne" if mnemonic == "icmp" else "une"
        return builder.insert(mnemonic, value, zero, predicate_=relation).value
    return builder.insert(mnemonic, value, type=new, **attributes).value


def _small(element: Element) -> bool:
    return isinstance(element, Scalar) and element.is_float and element.bits < 16


def _is_integer(element: Element) -> bool:
    return isinstance(element, Scalar) and element.is_integer


def _conversion(old: Element, to: Element, signed: bool) -> str | None:
    """The mnemonic of the op that converts `old` to `to`; None where there is none."""
    if isinstance(old, Pointer) or isinstance(to, Pointer):
        return _pointer_conversion(old, to)
    if to is I1:
        return "fcmp" if old.is_float else "icmp"
    if old.is_float and to.is_float:
        if old.bits < 16 or to.bits < 16 or old.bits == to.bits:
            return "fpcast"
        return "fpext" if to.bits > old.bits else "fptrunc"
    if old.is_float:
        return "fptosi" if signed else "fptoui"
    if to.is_float:
        return "sitofp" if signed else "uitofp"
    if to.bits < old.bits:
        return "trunc"
    return "sext" if signed else "zext"


def _pointer_conversion(old: Element, to: Element) -> str | None:
    if isinstance(old, Pointer) and isinstance(to, Pointer):
        return "bitcast" if old.space is to.space else "addrspacecast"
    if isinstance(old, Pointer):
        return "ptrtoint" if to is I64 else None
    return "inttoptr" if old is I64 else None


def index_of(value: Operand | float, shape_like: Type) -> Operand:
    """An element offset for `getelementptr`: a number becomes i32, or i64 where it must."""
    if not isinstance(value, (int, float)):
        return value
    wide = not -(1 << 31) <= value < 1 << 31
    return literal(tile(I64 if wide else I32, shape_of(shape_like)), value)


def _number_like(value: Operand | float, number: float) -> Element:
    """The element type of an operation between `value` and a Python number."""
    if isinstance(value, (int, float)):
        reason = f"nothing here says the type of {number} and {value}"
        raise mistake("TIR0802", f"{reason}; write one as b.constant(type, {number})")
    element = _element(value)
    is_integer = not isinstance(number, float)
    return element if is_integer or element.is_float else F32


def _element(value: Operand) -> Element:
    element = element_of(value.type)
    if not isinstance(element, (Scalar, Pointer)):
        raise mistake("TIR0808", f"a value of type {value.type} takes no part in arithmetic")
    return element


def _literal_like(number: float, value: Operand | float, element: Element) -> Constant:
    """`number` as a literal of `element` at the shape of `value`."""
    shape = () if isinstance(value, (int, float)) else shape_of(value.type)
    return literal(tile(element, shape), number)


def _text(shape: tuple[int, ...]) -> str:
    return f"<{', '.join(map(str, shape))}>" if shape else "of a scalar"
