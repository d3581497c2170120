"""Floats of integers of 8 and 16 bits by their bits, on targets whose conversions are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.types import BF16, F16, F32, I8, I16, I32, Element, Scalar
from tileir.values import encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

BY_BITS: dict[tuple[Element, Element], tuple[Scalar, Scalar, int]] = {
    (I8, F16): (F16, I16, 10), (I8, F32): (F32, I32, 23), (I8, BF16): (F32, I32, 23),
    (I16, F32): (F32, I32, 23),
}  # fmt: skip
"""Per integer and float the float that the integer is the last digits of, its word, and how many
digits it has."""


def by_bits(t: Thread, signed: bool, source: Element, target: Element, x: Handle) -> Handle:
    """Convert an integer by placing it in the last digits of a float without a fraction and
    subtracting that float: exact. An H100 executes a mask and an addition for 64 lanes or more a
    cycle, a conversion for 16."""
    assert isinstance(source, Scalar)
    kind, word, digits = BY_BITS[source, target]
    least = 1 << source.bits - 1 if signed else 0
    if signed:
        x = t.binary("xor", source, x, t.constant(source, least))
    one = t.constant(word, encode(kind, float(1 << digits)))
    placed = t.binary("or", word, t.convert("zext", source, word, x), one)
    offset = t.constant(kind, encode(kind, -float((1 << digits) + least)))
    value = t.binary("fadd", kind, t.convert("bitcast", word, kind, placed), offset)
    return value if kind is target else t.convert("fptrunc", kind, target, value)
