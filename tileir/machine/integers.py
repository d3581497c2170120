"""Integer kernels: numpy arrays in, one array out. Integers are two's complement and wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine.tensor import RAW, Array

Kernel = Callable[..., Any]


def bits_of(data: Array) -> int:
    """Width of the elements, 1 for i1."""
    return 1 if data.dtype == np.bool_ else 8 * data.dtype.itemsize


def as_signed(data: Array) -> Array:
    """`data` as signed numbers: true of i1 is -1."""
    return -data.view(np.int8) if data.dtype == np.bool_ else data


def as_unsigned(data: Array) -> Array:
    """`data` as unsigned numbers."""
    return data.view(RAW[data.dtype.itemsize])


def back(number: Array, like: Array) -> Array:
    """The low bits of `number` as an element of `like`'s type."""
    if like.dtype == np.bool_:
        return (number & 1).astype(np.bool_)
    return number.astype(like.dtype, copy=False)


def _wrapping(compute: Kernel) -> Kernel:
    """A kernel that wraps, with lanes undefined where a promise of `overflow` is broken."""

    def kernel(a: Array, b: Array, *, overflow: str = "none") -> Any:
        if a.dtype == np.bool_:
            result = back(compute(as_signed(a), as_signed(b)), a)
        else:
            result = compute(a, b)
        if overflow == "none":
            return result
        return result, overflow_lanes(compute, a, b, overflow)

    return kernel


def overflow_lanes(compute: Kernel, a: Array, b: Array, overflow: str) -> Array:
    """Lanes where the result leaves the range that `overflow` promises."""
    lost = np.zeros(np.shape(a), np.bool_)
    bits = bits_of(a)
    for view, low, high, word in (
        (as_signed, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, "nsw"),
        (as_unsigned, 0, (1 << bits) - 1, "nuw"),
    ):
        if word in overflow:
            lost = lost | _outside(compute, view(a), view(b), low, high)
    return lost


def _outside(compute: Kernel, a: Array, b: Array, low: int, high: int) -> Array:
    wide: Any = object if a.dtype.itemsize == 8 else np.int64
    exact = compute(a.astype(wide), b.astype(wide))
    return np.asarray((exact < low) | (exact > high)).astype(np.bool_)


def _signed_kernel(compute: Kernel) -> Kernel:
    return lambda a, b: back(compute(as_signed(a), as_signed(b)), a)


def _unsigned_kernel(compute: Kernel) -> Kernel:
    return lambda a, b: unsigned_back(compute(as_unsigned(a), as_unsigned(b)), a)


def unsigned_back(number: Array, like: Array) -> Array:
    """Unsigned bits as an element of `like`'s type."""
    return np.asarray(number).view(like.dtype)


# Division -------------------------------------------------------------------------------------


def sdiv(a: Array, b: Array, *, rounding: str = "zero") -> Array:
    """Signed quotient. Zero divisors give 0: whoever calls reports them."""
    x, y = as_signed(a), as_signed(b)
    down = np.floor_divide(x, y)
    if rounding == "floor":
        return back(down, a)
    inexact = np.remainder(x, y) != 0
    if rounding == "zero":
        inexact &= (x < 0) != (y < 0)
    return back(down + inexact, a)


def udiv(a: Array, b: Array, *, rounding: str = "zero") -> Array:
    """Unsigned quotient. Zero divisors give 0: whoever calls reports them."""
    x, y = as_unsigned(a), as_unsigned(b)
    down = np.floor_divide(x, y)
    if rounding == "ceil":
        down = down + (np.remainder(x, y) != 0)
    return unsigned_back(down.astype(x.dtype), a)


def srem(a: Array, b: Array, *, rounding: str = "zero") -> Array:
    """Signed remainder with the sign of `a`, or of `b` where the quotient is floored."""
    x, y = as_signed(a), as_signed(b)
    remainder = np.remainder(x, y) if rounding == "floor" else np.fmod(x, y)
    return back(remainder, a)


def zero_divisor(a: Array, b: Array, **_: Any) -> Array:
    """Lanes that divide by zero."""
    return as_unsigned(b) == 0


# Shifts ---------------------------------------------------------------------------------------


def too_far(a: Array, b: Array, **_: Any) -> Array:
    """Lanes that shift by the width or more."""
    return as_unsigned(b) >= bits_of(a)


def _count(a: Array, b: Array) -> Array:
    return as_unsigned(b) & (bits_of(a) - 1)


def shl(a: Array, b: Array) -> Array:
    """Shift left; counts are taken modulo the width."""
    return unsigned_back(np.left_shift(as_unsigned(a), _count(a, b)), a)


def lshr(a: Array, b: Array) -> Array:
    """Shift right, zeros coming in; counts are taken modulo the width."""
    return unsigned_back(np.right_shift(as_unsigned(a), _count(a, b)), a)


def ashr(a: Array, b: Array) -> Array:
    """Shift right, signs coming in; counts are taken modulo the width."""
    count = _count(a, b).view(a.dtype if a.dtype != np.bool_ else np.int8)
    return back(np.right_shift(as_signed(a), count), a)


# Bits and high products -----------------------------------------------------------------------


def smulhi(a: Array, b: Array) -> Array:
    """High half of the signed product."""
    if a.dtype == np.bool_:
        return np.zeros(np.shape(a), np.bool_)
    if a.dtype.itemsize < 8:
        wide = a.astype(np.int64) * b.astype(np.int64)
        return (wide >> bits_of(a)).astype(a.dtype)
    high = umulhi(a, b)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def umulhi(a: Array, b: Array) -> Array:
    """High half of the unsigned product."""
    if a.dtype == np.bool_:
        return np.zeros(np.shape(a), np.bool_)
    x, y = as_unsigned(a).astype(np.uint64), as_unsigned(b).astype(np.uint64)
    if a.dtype.itemsize < 8:
        return unsigned_back((x * y >> np.uint64(bits_of(a))).astype(RAW[a.dtype.itemsize]), a)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + (xl * yl >> half)
    other = xl * yh + (middle & low)
    return unsigned_back(xh * yh + (middle >> half) + (other >> half), a)


def ctpop(a: Array) -> Array:
    """Number of one bits."""
    return back(np.bitwise_count(as_unsigned(a)), a)


def clz(a: Array) -> Array:
    """Number of leading zeros."""
    bits, x = bits_of(a), as_unsigned(a)
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < bits:
            x = x | (x >> distance)
    return back(bits - np.bitwise_count(x).astype(np.int16), a)


KERNELS: dict[str, Kernel] = {
    "add": _wrapping(np.add),
    "sub": _wrapping(np.subtract),
    "mul": _wrapping(np.multiply),
    "sdiv": sdiv,
    "udiv": udiv,
    "srem": srem,
    "urem": _unsigned_kernel(np.remainder),
    "smulhi": smulhi,
    "umulhi": umulhi,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": shl,
    "lshr": lshr,
    "ashr": ashr,
    "smin": _signed_kernel(np.minimum),
    "smax": _signed_kernel(np.maximum),
    "umin": _unsigned_kernel(np.minimum),
    "umax": _unsigned_kernel(np.maximum),
    "neg": lambda a: back(np.negative(as_signed(a)), a),
    "iabs": lambda a: back(np.abs(as_signed(a)), a),
    "ctpop": ctpop,
    "clz": clz,
    "getelementptr": lambda p, i, *, size: p + (i.astype(np.int64) * size).view(np.uint64),
}
"""Kernels by mnemonic."""

TRAPS: dict[str, tuple[Kernel, str, str]] = {
    **dict.fromkeys(
        ("sdiv", "udiv", "srem", "urem"), (zero_divisor, "TIR0550", "division by zero")
    ),
    **dict.fromkeys(("shl", "lshr", "ashr"), (too_far, "TIR0551", "shift by the width or more")),
}
"""Traps by mnemonic: the lanes on which the op is undefined, and the code and the message of the
error."""

RELATIONS: dict[str, Kernel] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": lambda a, b: as_signed(a) < as_signed(b),
    "sle": lambda a, b: as_signed(a) <= as_signed(b),
    "sgt": lambda a, b: as_signed(a) > as_signed(b),
    "sge": lambda a, b: as_signed(a) >= as_signed(b),
    "ult": lambda a, b: as_unsigned(a) < as_unsigned(b),
    "ule": lambda a, b: as_unsigned(a) <= as_unsigned(b),
    "ugt": lambda a, b: as_unsigned(a) > as_unsigned(b),
    "uge": lambda a, b: as_unsigned(a) >= as_unsigned(b),
}
"""Integer relations by the word of `icmp`."""
