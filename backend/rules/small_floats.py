"""8-bit floats: f8e4m3, f8e5m2 and f8e8m0, by their bits.

Formats as in OCP's "8-bit Floating Point Specification" and "Microscaling Formats".
"""

from __future__ import annotations

from tileir.backend.thread import Handle, Thread
from tileir.types import BF16, F8E5M2, F8E8M0, F16, F32, F64, I1, I8, I16, I32, Element, Scalar
from tileir.values import encode


def widen(t: Thread, source: Element, x: Handle) -> Handle:
    """An 8-bit float as f32: exact."""
    if source is F8E5M2:
        bits = t.binary("shl", I16, t.convert("zext", I8, I16, x), t.constant(I16, 8))
        return t.convert("fpext", F16, F32, t.convert("bitcast", I16, F16, bits))
    if source is F8E8M0:
        return _widen_e8m0(t, x)
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
    """A float as an 8-bit one, rounded once. f64 goes through f32 rounded to odd, which keeps
    what decides the second rounding (Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd", 2008)."""
    if source is F64:
        x = _to_odd(t, x)
    elif source in (F16, BF16):
        x = t.convert("fpext", source, F32, x)
    if target is F8E8M0:
        return _narrow_e8m0(t, x, saturate)
    mantissa, bias = (2, 15) if target is F8E5M2 else (3, 7)
    return _narrow_bits(t, x, mantissa, bias, rounding, saturate)


def _to_odd(t: Thread, x: Handle) -> Handle:
    """f64 to f32: truncated, the last bit set where anything was lost."""
    cut = t.instruction("cvt.rz.f32.f64 $0, $1;", F32, [(F64, x)])
    back = t.convert("fpext", F32, F64, cut)
    lost = t.compare("one", F64, back, x)
    bits = t.convert("bitcast", F32, I32, cut)
    odd = t.binary("or", I32, bits, t.integer(1))
    return t.convert("bitcast", I32, F32, t.select(I32, lost, odd, bits))


def _narrow_bits(
    t: Thread, x: Handle, mantissa: int, bias: int, rounding: str, saturate: bool
) -> Handle:
    """f32 to a format with `mantissa` bits and exponent `bias`: the magnitude is brought to the
    format's grid by adding and subtracting a power of two, which rounds as f32 addition does."""
    bits = t.convert("bitcast", F32, I32, x)
    sign = t.binary("lshr", I32, t.binary("and", I32, bits, t.integer(0x80000000)), t.integer(24))
    magnitude = t.binary("and", I32, bits, t.integer(0x7FFFFFFF))
    drop, least = 23 - mantissa, 1 - bias
    normal = _round_field(t, magnitude, sign, drop, rounding)
    normal = t.binary("sub", I32, normal, t.integer((127 - bias) << mantissa))
    small = _round_subnormal(t, magnitude, sign, least - mantissa, rounding)
    tiny = t.compare("ult", I32, magnitude, t.integer((127 + least) << 23))
    found = t.select(I32, tiny, small, normal)
    found = _overflowed(t, magnitude, sign, found, mantissa, rounding, saturate)
    return t.convert("trunc", I32, I8, t.binary("or", I32, found, sign))


def _overflowed(
    t: Thread, magnitude: Handle, sign: Handle, found: Handle, mantissa: int, rounding: str,
    saturate: bool,
) -> Handle:  # fmt: skip
    """What lies beyond the largest finite number: infinity or NaN, or that number."""
    largest, infinity, nan = (0x7B, 0x7C, 0x7E) if mantissa == 2 else (0x7E, 0x7F, 0x7F)
    above = t.compare("ugt", I32, found, t.integer(largest))
    inf = t.compare("eq", I32, magnitude, t.integer(0x7F800000))
    beyond = t.integer(largest if saturate else infinity)
    if not saturate and rounding != "rn":
        stays = _stays_finite(t, sign, rounding)
        held = t.select(I32, stays, t.integer(largest), beyond)
        beyond = t.select(I32, inf, t.integer(infinity), held)
    found = t.select(I32, t.binary("or", I1, above, inf), beyond, found)
    is_nan = t.compare("ugt", I32, magnitude, t.integer(0x7F800000))
    return t.select(I32, is_nan, t.integer(nan), found)


def _stays_finite(t: Thread, sign: Handle, rounding: str) -> Handle:
    """Whether a directed rounding of a finite number stops at the largest one."""
    if rounding == "rz":
        return t.constant(I1, 1)
    negative = t.compare("ne", I32, sign, t.integer(0))
    return negative if rounding == "rp" else t.binary("xor", I1, negative, t.constant(I1, 1))


def _round_field(t: Thread, magnitude: Handle, sign: Handle, drop: int, rounding: str) -> Handle:
    """`magnitude >> drop`, rounded as bits: carries run into the exponent as they should."""
    kept = t.binary("lshr", I32, magnitude, t.integer(drop))
    if rounding == "rn":
        last = t.binary("and", I32, kept, t.integer(1))
        half = t.integer((1 << (drop - 1)) - 1)
        sum_ = t.binary("add", I32, t.binary("add", I32, magnitude, half), last)
        return t.binary("lshr", I32, sum_, t.integer(drop))
    up = _away(t, sign, rounding)
    raised = t.binary("add", I32, magnitude, t.integer((1 << drop) - 1))
    raised = t.binary("lshr", I32, raised, t.integer(drop))
    return t.select(I32, up, raised, kept)


def _away(t: Thread, sign: Handle, rounding: str) -> Handle:
    """Whether a directed rounding moves away from zero."""
    if rounding == "rz":
        return t.constant(I1, 0)
    negative = t.compare("ne", I32, sign, t.integer(0))
    return negative if rounding == "rm" else t.binary("xor", I1, negative, t.constant(I1, 1))


def _round_subnormal(
    t: Thread, magnitude: Handle, sign: Handle, unit: int, rounding: str
) -> Handle:
    """The magnitude in units of 2^unit as an integer, by adding 2^(unit + 23)."""
    x = t.convert("bitcast", I32, F32, magnitude)
    scaled = t.binary("fmul", F32, x, t.constant(F32, encode(F32, 2.0**-unit)))
    name = {"rn": "rint", "rz": "trunc"}.get(rounding)
    if name is None:
        up = t.intrinsic("ceil", F32, scaled)
        down = t.intrinsic("floor", F32, scaled)
        whole = t.select(F32, _away(t, sign, rounding), up, down)
    else:
        whole = t.intrinsic(name, F32, scaled)
    return t.convert("fptoui", F32, I32, whole)


def _narrow_e8m0(t: Thread, x: Handle, saturate: bool) -> Handle:
    """The nearest power of two, ties up; zero, negative numbers and NaN as the op says."""
    bits = t.convert("bitcast", F32, I32, x)
    raised = t.binary("add", I32, bits, t.integer(1 << 22))
    exponent = t.binary("lshr", I32, raised, t.integer(23))
    subnormal = t.compare("ult", I32, bits, t.integer(0x00800000))
    large = t.compare("uge", I32, bits, t.integer(0x00600000))
    exponent = t.select(I32, subnormal, t.convert("zext", I1, I32, large), exponent)
    above = t.compare("uge", I32, exponent, t.integer(255))
    exponent = t.select(I32, above, t.integer(254 if saturate else 255), exponent)
    positive = t.compare("ogt", F32, x, t.constant(F32, 0))
    other = t.integer(0 if saturate else 255)
    found = t.select(I32, positive, exponent, other)
    nan = t.compare("uno", F32, x, x)
    return t.convert("trunc", I32, I8, t.select(I32, nan, t.integer(255), found))
