"""Floats of 8 and 4 bits: f8e4m3, f8e5m2, f8e8m0 and f4e2m1, by their bits.

Formats as in OCP's "8-bit Floating Point Specification" and "Microscaling Formats".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I16,
    I32,
    Element,
    Scalar,
)  # fmt: skip
from tileir.values import encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread


def widen(t: Thread, source: Element, x: Handle) -> Handle:
    """A float of 8 or 4 bits as an f32, which is exact."""
    if source is F4E2M1:
        return _widen_e2m1(t, x)
    if source is F8E5M2:
        bits = t.binary("shl", I16, t.convert("zext", I8, I16, x), t.constant(I16, 8))
        return t.convert("fpext", F16, F32, t.convert("bitcast", I16, F16, bits))
    if source is F8E8M0:
        return _widen_e8m0(t, x)
    if t.f8_conversion:
        return _widen_e4m3(t, x)
    wide = t.convert("zext", I8, I32, x)
    sign = t.binary("shl", I32, t.binary("and", I32, wide, t.integer(0x80)), t.integer(24))
    magnitude = t.binary("and", I32, wide, t.integer(0x7F))
    shifted = t.binary("shl", I32, magnitude, t.integer(20))
    scaled = t.binary(
        "fmul", F32, t.convert("bitcast", I32, F32, shifted), t.constant(F32, encode(F32, 2.0**120))
    )
    bits = t.binary("or", I32, t.convert("bitcast", F32, I32, scaled), sign)
    nan = t.compare("eq", I32, magnitude, t.integer(0x7F))
    quiet = t.binary("or", I32, t.integer(0x7FC00000), sign)
    return t.convert("bitcast", I32, F32, t.select(I32, nan, quiet, bits))


def _widen_e4m3(t: Thread, x: Handle) -> Handle:
    (half,) = widen_some(t, (x,))
    return t.convert("fpext", F16, F32, half)


def widen_some(t: Thread, values: Sequence[Handle]) -> list[Handle]:
    """One or two e4m3 as f16, by the instruction that converts two."""
    low, *high = (t.convert("zext", I8, I16, x) for x in values)
    for x in high:
        low = t.binary("or", I16, low, t.binary("shl", I16, x, t.constant(I16, 8)))
    halves = t.instruction("cvt.rn.f16x2.e4m3x2 $0, $1;", I32, [(I16, low)])
    return t.unpack(F16, halves)[: len(values)]


def widen_four_e5m2(t: Thread, values: Sequence[Handle]) -> list[Handle]:
    """Four e5m2 as f16. An e5m2 is the upper byte of an f16, so one instruction widens two."""
    word, zero = t.pack(I8, values), t.integer(0)
    results: list[Handle] = []
    for order in (0x1404, 0x3424):
        operands = [(I32, word), (I32, zero), (I32, t.constant(I32, order))]
        results += t.unpack(F16, t.instruction("prmt.b32 $0, $1, $2, $3;", I32, operands))
    return results


def _widen_e2m1(t: Thread, x: Handle) -> Handle:
    """An e2m1 as an f32: its exponent and significand are placed in an f16, which is 2^14 times too
    small, and scaled."""
    wide = t.convert("zext", source_bits(F4E2M1), I16, x)
    sign = t.binary("shl", I16, t.binary("and", I16, wide, t.constant(I16, 8)), t.constant(I16, 12))
    size = t.binary("shl", I16, t.binary("and", I16, wide, t.constant(I16, 7)), t.constant(I16, 9))
    half = t.convert("bitcast", I16, F16, t.binary("or", I16, sign, size))
    scale = t.constant(F32, encode(F32, 2.0**14))
    return t.binary("fmul", F32, t.convert("fpext", F16, F32, half), scale)


def source_bits(element: Element) -> Scalar:
    """The integer type of the bits of a small float."""
    return I4 if element.bits == 4 else I8


def _widen_e8m0(t: Thread, x: Handle) -> Handle:
    wide = t.convert("zext", I8, I32, x)
    bits = t.binary("shl", I32, wide, t.integer(23))
    smallest = t.compare("eq", I32, wide, t.integer(0))
    bits = t.select(I32, smallest, t.integer(0x00400000), bits)
    nan = t.compare("eq", I32, wide, t.integer(255))
    return t.convert("bitcast", I32, F32, t.select(I32, nan, t.integer(0x7FC00000), bits))


def narrow(
    t: Thread, source: Scalar, target: Scalar, x: Handle, rounding: str, saturate: bool
) -> Handle:
    """Convert a float to one of 8 or 4 bits, rounded once. f64 goes through f32 rounded to odd,
    which preserves what decides the second rounding (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums: proved algorithms using rounding to odd", 2008)."""
    x = _single(t, source, target, x)
    if target is F8E8M0:
        return _narrow_e8m0(t, x, rounding, saturate)
    if target is F4E2M1:
        return _narrow_e2m1(t, x, rounding)
    if by_instruction(t, target, rounding):
        pair = _pair(t, target, x, t.constant(F32, 0))
        return _beyond(t, target, x, t.convert("trunc", I16, I8, pair), saturate)
    mantissa, bias = (2, 15) if target is F8E5M2 else (3, 7)
    sign, bits = _narrow_bits(t, x, mantissa, bias, rounding)
    bits = _encode_overflow(t, _magnitude(t, x), sign, bits, mantissa, rounding, saturate)
    return t.convert("trunc", I32, I8, t.binary("or", I32, bits, sign))


def by_instruction(t: Thread, target: Element, rounding: str) -> bool:
    """Whether the target has an instruction that converts two f32 to `target`."""
    return target in (F8E4M3, F8E5M2) and t.f8_conversion and rounding == "rn"


def narrow_four(
    t: Thread, source: Element, target: Scalar, values: Sequence[Handle], saturate: bool
) -> list[Handle]:
    """Four floats as f8e4m3 or f8e5m2, the bytes of one word. The instruction rounds each once, to
    nearest."""
    values = [_single(t, source, target, x) for x in values]
    low, high = (t.convert("zext", I16, I32, _pair(t, target, *values[i : i + 2])) for i in (0, 2))
    word = t.binary("or", I32, low, t.binary("shl", I32, high, t.integer(16)))
    bytes_ = t.unpack(target, word)
    return [_beyond(t, target, x, bits, saturate) for x, bits in zip(values, bytes_, strict=True)]


def _single(t: Thread, source: Element, target: Element, x: Handle) -> Handle:
    """`x` as an f32. Rounding it to `target` gives the same result as rounding `x` directly."""
    if source.bits <= 8:
        return widen(t, source, x)
    if source is F64:
        return _to_odd(t, x, target)
    return t.convert("fpext", source, F32, x) if source in (F16, BF16) else x


def _pair(t: Thread, target: Scalar, low: Handle, high: Handle) -> Handle:
    """Two f32 as the bytes of an i16, clamped to the largest number."""
    kind = "e5m2" if target is F8E5M2 else "e4m3"
    text = f"cvt.rn.satfinite.{kind}x2.f32 $0, $1, $2;"
    return t.instruction(text, I16, [(F32, high), (F32, low)])


def _beyond(t: Thread, target: Scalar, x: Handle, bits: Handle, saturate: bool) -> Handle:
    """The bits of `x`, if the instruction has not overflowed. It saturates; unless saturation is
    requested, a value that rounds to more than the largest number becomes an infinity or NaN of its
    sign."""
    if saturate:
        return bits
    limit, beyond = (61440.0, 0x7C) if target is F8E5M2 else (464.0, 0x7F)
    word = "oge" if target is F8E5M2 else "ogt"  # halfway rounds to even
    size = t.intrinsic("fabs", F32, x)
    over = t.compare(word, F32, size, t.constant(F32, encode(F32, limit)))
    sign = t.binary("and", I8, bits, t.constant(I8, 0x80))
    return t.select(I8, over, t.binary("or", I8, sign, t.constant(I8, beyond)), bits)


def _narrow_e2m1(t: Thread, x: Handle, rounding: str) -> Handle:
    """An e2m1 has neither infinity nor NaN: larger values, and NaN, become 6."""
    sign, encoded = _narrow_bits(t, x, 1, 1, rounding)
    clamped = t.intrinsic("umin", I32, encoded, t.integer(7))
    half = t.binary("lshr", I32, sign, t.integer(4))
    bits = t.binary("or", I32, clamped, half)
    nan = t.compare("uno", F32, x, x)
    return t.convert("trunc", I32, I4, t.select(I32, nan, t.integer(7), bits))


def _to_odd(t: Thread, x: Handle, target: Element) -> Handle:
    """Convert f64 to f32, rounded to odd: truncate, and set the last bit if any bit was lost. For
    e8m0, a number of 2^128 or more becomes an infinity, not the largest f32."""
    cut = t.instruction("cvt.rz.f32.f64 $0, $1;", F32, [(F64, x)])
    back = t.convert("fpext", F32, F64, cut)
    lost = t.compare("one", F64, back, x)
    bits = t.convert("bitcast", F32, I32, cut)
    odd = t.binary("or", I32, bits, t.integer(1))
    rounded = t.convert("bitcast", I32, F32, t.select(I32, lost, odd, bits))
    if target is not F8E8M0:
        return rounded
    beyond = t.compare("oge", F64, x, t.constant(F64, encode(F64, 2.0**128)))
    return t.select(F32, beyond, t.constant(F32, encode(F32, float("inf"))), rounded)


def _magnitude(t: Thread, x: Handle) -> Handle:
    """The bits of an f32 without its sign."""
    bits = t.convert("bitcast", F32, I32, x)
    return t.binary("and", I32, bits, t.integer(0x7FFFFFFF))


def _narrow_bits(
    t: Thread, x: Handle, mantissa: int, bias: int, rounding: str
) -> tuple[Handle, Handle]:
    """The sign (bit 7) and the magnitude, not yet clamped, of an f32 in a format with `mantissa`
    bits and exponent `bias`. Adding and subtracting a power of two rounds the magnitude to the grid
    of the format."""
    bits = t.convert("bitcast", F32, I32, x)
    sign = t.binary("lshr", I32, t.binary("and", I32, bits, t.integer(0x80000000)), t.integer(24))
    magnitude = _magnitude(t, x)
    drop, least = 23 - mantissa, 1 - bias
    normal = _round_field(t, magnitude, sign, drop, rounding)
    normal = t.binary("sub", I32, normal, t.integer((127 - bias) << mantissa))
    small = _subnormal_bits(t, magnitude, sign, least - mantissa, rounding)
    tiny = t.compare("ult", I32, magnitude, t.integer((127 + least) << 23))
    return sign, t.select(I32, tiny, small, normal)


def _encode_overflow(
    t: Thread, magnitude: Handle, sign: Handle, bits: Handle, mantissa: int, rounding: str,
    saturate: bool,
) -> Handle:  # fmt: skip
    """The encoding of values beyond the largest finite number: infinity or NaN, or that number."""
    largest, infinity, nan = (0x7B, 0x7C, 0x7E) if mantissa == 2 else (0x7E, 0x7F, 0x7F)
    above = t.compare("ugt", I32, bits, t.integer(largest))
    inf = t.compare("eq", I32, magnitude, t.integer(0x7F800000))
    beyond = t.integer(largest if saturate else infinity)
    if not saturate and rounding != "rn":
        stays = _stays_finite(t, sign, rounding)
        overflow = t.select(I32, stays, t.integer(largest), beyond)
        beyond = t.select(I32, inf, t.integer(infinity), overflow)
    bits = t.select(I32, t.binary("or", I1, above, inf), beyond, bits)
    is_nan = t.compare("ugt", I32, magnitude, t.integer(0x7F800000))
    return t.select(I32, is_nan, t.integer(nan), bits)


def _stays_finite(t: Thread, sign: Handle, rounding: str) -> Handle:
    """Whether a directed rounding of a finite number stops at the largest one."""
    if rounding == "rz":
        return t.constant(I1, 1)
    negative = t.compare("ne", I32, sign, t.integer(0))
    return negative if rounding == "rp" else t.binary("xor", I1, negative, t.constant(I1, 1))


def _round_field(t: Thread, magnitude: Handle, sign: Handle, drop: int, rounding: str) -> Handle:
    """`magnitude >> drop`, rounded. A carry into the exponent gives the correct next number."""
    truncated = t.binary("lshr", I32, magnitude, t.integer(drop))
    if rounding == "rn":
        last = t.binary("and", I32, truncated, t.integer(1))
        half = t.integer((1 << (drop - 1)) - 1)
        biased = t.binary("add", I32, t.binary("add", I32, magnitude, half), last)
        return t.binary("lshr", I32, biased, t.integer(drop))
    up = _away(t, sign, rounding)
    raised = t.binary("add", I32, magnitude, t.integer((1 << drop) - 1))
    raised = t.binary("lshr", I32, raised, t.integer(drop))
    return t.select(I32, up, raised, truncated)


def _away(t: Thread, sign: Handle, rounding: str) -> Handle:
    """Whether a directed rounding moves away from zero."""
    if rounding == "rz":
        return t.constant(I1, 0)
    negative = t.compare("ne", I32, sign, t.integer(0))
    return negative if rounding == "rm" else t.binary("xor", I1, negative, t.constant(I1, 1))


def _subnormal_bits(t: Thread, magnitude: Handle, sign: Handle, unit: int, rounding: str) -> Handle:
    """The magnitude in units of 2^unit as an integer, by adding 2^(unit + 23)."""
    x = t.convert("bitcast", I32, F32, magnitude)
    scaled = t.binary("fmul", F32, x, t.constant(F32, encode(F32, 2.0**-unit)))
    name = {"rn": "rint", "rz": "trunc"}.get(rounding)
    if name is None:
        up = t.intrinsic("ceil", F32, scaled)
        down = t.intrinsic("floor", F32, scaled)
        integer = t.select(F32, _away(t, sign, rounding), up, down)
    else:
        integer = t.intrinsic(name, F32, scaled)
    return t.convert("fptoui", F32, I32, integer)


def _narrow_e8m0(t: Thread, x: Handle, rounding: str, saturate: bool) -> Handle:
    """The nearest power of two (ties up), the one above or the one below; the op defines the result
    for zero, negative numbers and NaN."""
    bits = t.convert("bitcast", F32, I32, x)
    carry = {"rn": 1 << 22, "rp": (1 << 23) - 1}.get(rounding, 0)
    exponent = t.binary("lshr", I32, t.binary("add", I32, bits, t.integer(carry)), t.integer(23))
    subnormal = t.compare("ult", I32, bits, t.integer(0x00800000))
    from_ = {"rn": 0x00600000, "rp": 0x00400001}.get(rounding, 0x00800000)
    large = t.convert("zext", I1, I32, t.compare("uge", I32, bits, t.integer(from_)))
    exponent = t.select(I32, subnormal, large, exponent)
    above = t.compare("uge", I32, exponent, t.integer(255))
    exponent = t.select(I32, above, t.integer(254 if saturate else 255), exponent)
    positive = t.compare("ogt", F32, x, t.constant(F32, 0))
    other = t.integer(0 if saturate else 255)
    encoded = t.select(I32, positive, exponent, other)
    nan = t.compare("uno", F32, x, x)
    return t.convert("trunc", I32, I8, t.select(I32, nan, t.integer(255), encoded))
