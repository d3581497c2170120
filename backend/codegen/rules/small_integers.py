"""Conversion of 8-bit and 16-bit integers to floats by bit operations, for targets whose conversion
instructions are slow."""

from __future__ import annotations

from collections.abc import Sequence
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
    subtracting that float: exact. An H100 executes a bit operation or an addition for at least 64
    lanes per cycle, a conversion for 16."""
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


_LOWER, _UPPER = 0x4140, 0x4342
"""Selectors of `prmt`: bytes 0 and 1, or 2 and 3, of a word, each below byte 4."""


def four_by_bits(
    t: Thread, target: Element, values: Sequence[Handle], *, signed: bool = True,
    has_sign: bool = True, less: int = 0,
) -> list[Handle]:  # fmt: skip
    """Four bytes less `less`, from -128 to 127, as f16, bf16 or f32: exact. Without `has_sign`, the
    sign bits are clear; else `less` is 0. Two become f16, or bf16 unless they are unsigned, per
    instruction.

    A byte is the last 8 digits of an f16 of 1024 and more. A bf16 has 7 digits. With 0x43 as the
    upper byte, a byte is the bf16 128 plus its low 7 bits, or 256 plus these if its sign bit is
    set. Subtracting the same bf16 without the 7 bits, and 128 where the sign bit is clear, yields
    the number. Bytes that become f32 are the last digits of an f32 of 2^23 and more, one at a time.
    """
    word, signed = t.pack(I8, values), signed and has_sign
    if target is F32 or (target is BF16 and has_sign and not signed):
        return _singles(t, target, word, signed, less)
    results: list[Handle] = []
    for order in (_LOWER, _UPPER):
        high = t.constant(I32, 0x64 if target is F16 else 0x43)
        operands = [(I32, word), (I32, high), (I32, t.constant(I32, order))]
        placed = t.instruction("prmt.b32 $0, $1, $2, $3;", I32, operands)
        name = "f16x2" if target is F16 else "bf16x2"
        if not signed:
            least = 1024.0 if target is F16 else 128.0
            first, second = placed, t.constant(I32, encode(target, least + less) * 0x10001)
        elif target is F16:
            first = t.binary("xor", I32, placed, t.constant(I32, 0x00800080))
            second = t.constant(I32, encode(F16, 1024.0 + 128) * 0x10001)
        else:
            first = t.binary("and", I32, placed, t.constant(I32, 0xFF7FFF7F))
            second = t.binary("and", I32, placed, t.constant(I32, 0xFF80FF80))
        text = f"sub.rn.{name} $0, $1, $2;"
        results += t.unpack(target, t.instruction(text, I32, [(I32, first), (I32, second)]))
    return results


def _singles(t: Thread, target: Element, word: Handle, signed: bool, less: int) -> list[Handle]:
    """The bytes of `word` less `less` as f32, or rounded to a narrower type."""
    if signed:
        word = t.binary("xor", I32, word, t.constant(I32, 0x80808080))  # 128 more
    least = encode(F32, float(1 << 23))
    offset = t.constant(F32, encode(F32, -float((1 << 23) + (128 if signed else less))))
    results: list[Handle] = []
    for byte in range(4):
        operands = [
            (I32, word),
            (I32, t.constant(I32, least)),
            (I32, t.constant(I32, 0x7440 | byte)),
        ]
        placed = t.instruction("prmt.b32 $0, $1, $2, $3;", I32, operands)
        value = t.binary("fadd", F32, t.convert("bitcast", I32, F32, placed), offset)
        results.append(value if target is F32 else t.convert("fptrunc", F32, target, value))
    return results
