"""Operands: SSA values, literals and `undef`."""

from __future__ import annotations

import math
import struct
from typing import Any, ClassVar, TypeAlias, TypeGuard

import attrs

from tileir.types import Element, Kind, Pointer, Scalar, Type, element_of


@attrs.frozen(eq=False, weakref_slot=False)
class Value:
    """The result of an op, a block parameter or a function parameter. Two values are equal only if
    they are the same object.

    `name` is a hint for the printer; it need not be unique.
    """

    type: Type
    name: str | None = None
    operand_type: ClassVar[Any]

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"


@attrs.frozen(weakref_slot=False)
class Constant:
    """A literal: the same bits in every element of `type`.

    `bits` is the element's representation as an unsigned integer, so equality is exact: -0.0 is
    not 0.0, and NaNs differ by payload. A pointer literal is an address.
    """

    type: Type
    bits: int
    operand_type: ClassVar[Any]

    @property
    def value(self) -> int | float | bool:
        """The number: bool for i1, signed int for other integers and pointers, else float."""
        return decode(element_of(self.type), self.bits)

    def __repr__(self) -> str:
        return f"<{self.bits:#x}: {self.type}>"


@attrs.frozen(weakref_slot=False)
class Undef:
    """A value of `type` about which nothing is promised."""

    type: Type
    operand_type: ClassVar[Any]

    def __repr__(self) -> str:
        return f"<undef: {self.type}>"


Operand: TypeAlias = Value | Constant | Undef

for _kind in (Value, Constant, Undef):
    _kind.operand_type = _kind.__dict__["type"]
"""`operand_type` is `type`, under a name that nothing else has: what has it is an operand."""


def is_operand(item: object) -> TypeGuard[Operand]:
    """Whether `item` is a value, a literal or `undef`, and not what stands for one elsewhere."""
    return isinstance(item, (Value, Constant, Undef))


def constant(type: Type, number: int | float | bool) -> Constant:
    """The literal `number` of `type`. Floats are rounded to nearest even, integers must fit.

    Raises OverflowError for an integer that `type` cannot hold, TypeError for a float literal
    of an integer type.
    """
    return Constant(type, encode(element_of(type), number))


def is_zero(operand: Operand) -> bool:
    """Whether `operand` is a literal of bits 0: the number 0, and not -0.0."""
    return isinstance(operand, Constant) and not operand.bits


def encode(element: Type, number: int | float | bool) -> int:
    """Bits of `number` in `element`."""
    if isinstance(element, Pointer):
        return _encode_integer(64, number)
    if not isinstance(element, Scalar):
        raise TypeError(f"{element} has no literals")
    if element.kind is Kind.INTEGER:
        return _encode_integer(element.bits, number)
    return _encode_float(element, float(number))


def decode(element: Type, bits: int) -> int | float | bool:
    """The number that `bits` stand for in `element`."""
    if isinstance(element, Scalar) and element.kind is Kind.FLOAT:
        return _decode_float(element, bits)
    width = 64 if not isinstance(element, Scalar) else element.bits
    if width == 1:
        return bool(bits)
    return bits - (1 << width) if bits >> (width - 1) else bits


def all_ones(element: Element) -> int:
    """Bits of the value whose bits are all one."""
    return (1 << element.bits) - 1


def _encode_integer(width: int, number: int | float | bool) -> int:
    if isinstance(number, float):
        raise TypeError(f"{number} is not an integer")
    if not -(1 << (width - 1)) <= number < (1 << width):
        raise OverflowError(f"{number} does not fit in {width} bits")
    return int(number) & ((1 << width) - 1)


# exponent bits, mantissa bits, how the largest exponent is used
_FORMATS: dict[str, tuple[int, int, str]] = {
    "f4e2m1": (2, 1, "finite"),
    "f8e4m3": (4, 3, "nan"),
    "f8e5m2": (5, 2, "ieee"),
    "f16": (5, 10, "ieee"),
    "bf16": (8, 7, "ieee"),
    "f32": (8, 23, "ieee"),
    "f64": (11, 52, "ieee"),
}


_PACKED = {"f16": ">e", "f32": ">f", "f64": ">d"}
"""Formats that `struct` rounds to as IEEE 754 does, within the largest finite number."""

_LARGEST = {">e": 65504.0, ">f": float.fromhex("0x1.fffffep127"), ">d": math.inf}


def _encode_float(element: Scalar, number: float) -> int:
    code = _PACKED.get(element.name)
    if code is not None and (abs(number) <= _LARGEST[code] or code == ">d"):
        return int.from_bytes(struct.pack(code, number), "big")
    if element.name == "f8e8m0":
        return _encode_e8m0(number)
    exponent_bits, mantissa_bits, top = _FORMATS[element.name]
    sign = (math.copysign(1.0, number) < 0) << (exponent_bits + mantissa_bits)
    largest = (1 << exponent_bits) - 1
    infinity = {
        "ieee": largest << mantissa_bits,
        "nan": (largest << mantissa_bits) | ((1 << mantissa_bits) - 1),
        "finite": (1 << (exponent_bits + mantissa_bits)) - 1,
    }[top]
    if math.isnan(number):
        quiet = infinity | (1 << (mantissa_bits - 1)) if top == "ieee" else infinity
        return quiet if top == "ieee" else sign | infinity
    if math.isinf(number):
        return sign | infinity
    magnitude = _round_magnitude(abs(number), exponent_bits, mantissa_bits)
    return sign | min(magnitude, infinity)


def _round_magnitude(number: float, exponent_bits: int, mantissa_bits: int) -> int:
    """Bits of a finite non-negative `number`, to nearest even, unbounded above."""
    if number == 0:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = max(math.frexp(number)[1] - 1, 1 - bias)
    scaled = math.ldexp(number, mantissa_bits - exponent)
    rounded = round(scaled)
    return rounded + ((exponent + bias - 1) << mantissa_bits)


def _encode_e8m0(number: float) -> int:
    if not 0 < number < math.inf:
        return 255
    mantissa, exponent = math.frexp(number)
    exponent = exponent - 1 if mantissa < 0.75 else exponent
    return max(exponent + 127, 0) if exponent + 127 < 255 else 255


def _decode_float(element: Scalar, bits: int) -> float:
    code = _PACKED.get(element.name)
    if code is not None:
        return struct.unpack(code, bits.to_bytes(element.bits // 8, "big"))[0]
    if element.name == "f8e8m0":
        return math.nan if bits == 255 else math.ldexp(1.0, bits - 127)
    exponent_bits, mantissa_bits, top = _FORMATS[element.name]
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
    special = exponent == (1 << exponent_bits) - 1
    if special and top == "ieee":
        return math.copysign(math.nan if mantissa else math.inf, sign)
    if special and top == "nan" and mantissa == (1 << mantissa_bits) - 1:
        return math.copysign(math.nan, sign)
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa | (1 << mantissa_bits), exponent - bias - mantissa_bits)
