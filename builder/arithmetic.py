"""Operators of Expr: which op each becomes for integers, floats and pointers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.builder.arguments import literal
from tileir.builder.errors import mistake
from tileir.builder.promotion import (
    at,
    broadcast_shape,
    common,
    index_of,
    operand_of,
    to_element,
)
from tileir.types import F32, F64, I1, Element, Pointer, Scalar, element_of, shape_of, with_element
from tileir.values import Operand

if TYPE_CHECKING:
    from tileir.builder.builder import Builder
    from tileir.builder.expr import Expr


def add(builder: Builder, lhs: Any, rhs: Any) -> Expr:
    """`lhs + rhs`; with a pointer on either side, the address that many elements on."""
    if is_pointer(lhs):
        return offset(builder, lhs, rhs)
    if is_pointer(rhs):
        return offset(builder, rhs, lhs)
    return binary(builder, lhs, rhs, "add", "fadd")


def subtract(builder: Builder, lhs: Any, rhs: Any) -> Expr:
    """`lhs - rhs`; from a pointer, the address that many elements back."""
    if is_pointer(lhs) and not is_pointer(rhs):
        back = -rhs if isinstance(rhs, int) else negate(builder, rhs)
        return offset(builder, lhs, back)
    return binary(builder, lhs, rhs, "sub", "fsub")


def offset(builder: Builder, pointer: Any, index: Any) -> Expr:
    """`getelementptr` with both sides broadcast to one shape."""
    base, steps = operand_of(pointer), operand_of(index)
    assert not isinstance(base, (int, float))
    counted = index_of(steps, base.type)
    element = element_of(counted.type)
    if not isinstance(element, Scalar) or not element.is_integer:
        raise mistake("TIR0808", f"a pointer moves by integers, not by {counted.type}")
    shape = broadcast_shape(shape_of(base.type), shape_of(counted.type))
    return builder.insert("getelementptr", at(builder, base, shape), at(builder, counted, shape))


def binary(
    builder: Builder, lhs: Any, rhs: Any, integer: str | None, floating: str | None, **more: Any
) -> Expr:
    """The op for the common element type of both, on operands broadcast to one shape."""
    left, right = common(builder, lhs, rhs)
    mnemonic = floating if is_float(left) else integer
    if mnemonic is None or isinstance(element_of(left.type), Pointer):
        word = integer or floating
        raise mistake("TIR0808", f"{word} does not take values of type {left.type}")
    return builder.insert(mnemonic, left, right, **more)


def divide(builder: Builder, lhs: Any, rhs: Any) -> Expr:
    """True division: floats as they are, integers as f32 (f64 where one is i64)."""
    left, right = common(builder, lhs, rhs)
    element = element_of(left.type)
    if isinstance(element, Scalar) and element.is_integer:
        to = F64 if element.bits == 64 else F32
        left, right = (to_element(builder, x, to) for x in (left, right))
    return binary(builder, builder.wrap(left), builder.wrap(right), None, "fdiv")


def compare(builder: Builder, lhs: Any, rhs: Any, integer: str, floating: str) -> Expr:
    """An i1 per element. Pointers compare as addresses."""
    left, right = common(builder, lhs, rhs)
    element = element_of(left.type)
    if is_float(left):
        return builder.insert_all("fcmp", left, right, predicate_=floating)[0]
    unsigned = element is I1 or isinstance(element, Pointer)
    relation = f"u{integer[1:]}" if unsigned and integer[0] == "s" else integer
    return builder.insert_all("icmp", left, right, predicate_=relation)[0]


def negate(builder: Builder, value: Any) -> Expr:
    """`-value`."""
    operand = operand_of(value)
    assert not isinstance(operand, (int, float))
    return builder.insert("fneg" if is_float(operand) else "neg", operand)


def invert(builder: Builder, value: Operand) -> Expr:
    """`~value`: every bit flipped; for i1 the logical not."""
    if is_float(value):
        raise mistake("TIR0808", f"~ does not take values of type {value.type}")
    flipped = True if element_of(value.type) is I1 else -1
    return builder.insert("xor", value, literal(value.type, flipped))


def absolute(builder: Builder, value: Operand) -> Expr:
    """`abs(value)`."""
    return builder.insert("fabs" if is_float(value) else "iabs", value)


def select(builder: Builder, condition: Any, then: Any, otherwise: Any) -> Expr:
    """`then` where `condition`, else `otherwise`; all three broadcast to one shape."""
    left, right = common(builder, then, otherwise)
    choice = operand_of(condition)
    if isinstance(choice, (int, float)) or element_of(choice.type) is not I1:
        raise mistake("TIR0808", "the condition of a choice must be an i1 value")
    shape = broadcast_shape(shape_of(choice.type), shape_of(left.type))
    operands = [at(builder, x, shape) for x in (choice, left, right)]
    return builder.insert("select", *operands)


def like(builder: Builder, value: Any, model: Operand, element: Element | None = None) -> Operand:
    """`value` broadcast to the shape of `model`; a number becomes a literal of `element` (of the
    model's own where None), and a value keeps its element type."""
    operand = operand_of(value)
    if not isinstance(operand, (int, float)):
        return at(builder, operand, shape_of(model.type))
    return literal(with_element(model.type, element) if element else model.type, operand)


def is_pointer(item: Any) -> bool:
    """Whether `item` is a pointer or a tile of them."""
    value = getattr(item, "value", item)
    return isinstance(element_of(getattr(value, "type", I1)), Pointer)


def is_float(value: Operand) -> bool:
    """Whether the elements of `value` are floats."""
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.is_float
