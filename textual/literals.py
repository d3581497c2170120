"""Literals: text to bits and back, and the inferred type of a literal without one."""

from __future__ import annotations

import math
from typing import cast

from tileir.op import Field, FieldKind, Op
from tileir.signature import Bindings, Pattern
from tileir.textual.lexer import Cursor, Token
from tileir.types import Element, Pointer, Scalar, Type, element_of
from tileir.values import Constant, Operand, Undef, decode, encode

WORDS = ("true", "false", "null", "undef")
"""Words that are literals; numbers are the others."""


def is_literal(token: Token) -> bool:
    """Whether `token` is a literal without its type."""
    return token.kind == "number" or (token.kind == "word" and token.text in WORDS)


def read_literal(cursor: Cursor, token: Token, type: Type) -> Operand:
    """The operand of `type` that `token` stands for."""
    operand = literal(token.text, type)
    if operand is not None:
        return operand
    element = element_of(type)
    has_literals = isinstance(element, (Scalar, Pointer))
    message = (
        f"`{token.text[:40]}` is not a literal of {element}"
        if has_literals
        else f"{type} has no literals"
    )
    return cursor.fail("TIR0007", message, token)


def literal(text: str, type: Type) -> Operand | None:
    """The operand of `type` that the literal `text` stands for; None if `text` is no literal of
    that type."""
    if text == "undef":
        return Undef(type)
    element = element_of(type)
    if not isinstance(element, (Scalar, Pointer)):
        return None
    bits = _bits(text, element)
    return None if bits is None else Constant(type, bits)


def _bits(text: str, element: Element) -> int | None:
    """Bits of the literal `text`, or None where `element` has no such literal."""
    width = element.bits
    digits = text.removeprefix("-")
    if text in ("true", "false"):
        return int(text == "true") if width == 1 else None
    if text == "null":
        return 0 if isinstance(element, Pointer) else None
    if digits.startswith("0x"):
        fits = len(digits) <= 2 + 16 and int(digits, 16) < 1 << width
        return int(digits, 16) if fits and digits == text else None
    if element.is_float:
        return encode(element, float(text)) if len(text) < 400 else None
    if not digits.isdigit() or len(digits) > 20:
        return None
    try:
        return encode(element, int(text))
    except OverflowError:
        return None


def format_bits(element: Type, bits: int) -> str:
    """The canonical text of a literal, without its type."""
    if isinstance(element, Pointer):
        return "null" if bits == 0 else hex(bits)
    if element_of(element).is_float:  # type: ignore[union-attr]
        return _format_float(cast(Scalar, element), bits)
    value = decode(element, bits)
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _format_float(element: Scalar, bits: int) -> str:
    value = cast(float, decode(element, bits))
    if math.isnan(value):
        return "nan" if bits == encode(element, math.nan) else hex(bits)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = _shortest(element, value, bits)
    return text if any(c in text for c in ".en") else text + ".0"


def _shortest(element: Scalar, value: float, bits: int) -> str:
    if element.bits == 64:
        return repr(value)
    sure, smallest = _DISTINCT.get(element.name, (0, math.inf))
    text = f"{value:.{sure}g}" if abs(value) >= smallest else "nan"
    if float(text) == value:
        return f"{value:.{_digits(text)}g}"
    tried = _USUAL_DIGITS.get(element.name, 1)
    if math.frexp(value)[0] in (0.5, -0.5):  # where the next number below is nearer than above
        tried = 1
    while tried < 18 and _shortest_text(element, value, tried, bits) is None:
        tried += 1
    while tried > 1 and _shortest_text(element, value, tried - 1, bits) is not None:
        tried -= 1
    return _shortest_text(element, value, tried, bits) or hex(bits)


_USUAL_DIGITS = {"f32": 6, "bf16": 3, "f16": 3}
"""The number of digits to try first. If more digits are necessary, all counts below it fail,
too."""


_DISTINCT = {"f32": (6, 2.0**-126), "bf16": (2, 2.0**-126), "f16": (3, 2.0**-14)}
"""Decimals with this number of digits denote different numbers, from the smallest normal number
on."""


def _digits(text: str) -> int:
    """The number of significant digits of a decimal."""
    mantissa = text.partition("e")[0].lstrip("-").replace(".", "")
    return len(mantissa.strip("0")) or 1


def _shortest_text(element: Scalar, value: float, digits: int, bits: int) -> str | None:
    """`value` with that many digits, if they stand for the same bits."""
    text = f"{value:.{digits}g}"
    return text if encode(element, float(text)) == bits else None


class LiteralTypes:
    """The types of an op's literals, inferred from its other operands."""

    def __init__(self, op: type[Op], stated: tuple[Type, ...]) -> None:
        self.bound: Bindings = {}
        for pattern, type_ in zip(op.results_, stated, strict=False):
            pattern.match(type_, self.bound)

    def learn(self, field: Field, index: int, type: Type) -> None:
        """Operand `index` of `field` has `type`."""
        pattern = field.pattern_at(index)
        if pattern is not None:
            pattern.match(type, self.bound)

    def of(self, field: Field, index: int) -> Type | None:
        """The type of a bare literal there, or None where it must be written."""
        pattern: Pattern | None = field.pattern_at(index)
        return None if pattern is None else pattern.build(self.bound)


OPERAND_KINDS = (FieldKind.OPERAND, FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS)
"""Kinds of fields that hold values and literals."""
