"""Conversions between element types: numpy arrays in, one array out, or with the lanes that have
no meaning a pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine.float_formats import BF16, F16, F32, F64, canonical, round_to, widen
from tileir.machine.integers import as_signed, as_unsigned
from tileir.machine.tensor import RAW, Array, raw

DType = np.dtype[Any]
Kernel = Callable[..., Any]
_I4 = "int4"


def narrow_integer(data: Array, to: DType) -> Array:
    """The low bits."""
    return (data & 1).astype(np.bool_) if to == np.bool_ else data.astype(to)


def zero_extend(data: Array, to: DType) -> Array:
    """Zeros above."""
    return as_unsigned(data).astype(to)


def sign_extend(data: Array, to: DType) -> Array:
    """Copies of the sign above."""
    return as_signed(data).astype(to)


def to_float(data: Array, to: DType, *, rounding: str = "rn", saturate: bool = False) -> Array:
    """A float in another format, rounded once."""
    plain = rounding == "rn" and not saturate
    if plain and data.dtype in _EXACT_PAIRS and to == F32:
        return canonical(data.astype(F32))
    if to == F64:
        wide = canonical(data.astype(F64))
        return np.clip(wide, -_LARGEST, _LARGEST) if saturate else wide
    if plain and data.dtype == F32 and to in (F16, BF16):
        return canonical(data).astype(to)
    return round_to(widen(data), to, rounding, saturate=saturate)


_EXACT_PAIRS = (F16, BF16)
_LARGEST = np.finfo(F64).max


def to_integer(data: Array, to: DType, *, saturate: bool, is_signed: bool) -> Any:
    """A float rounded to zero; lanes out of range are undefined or, with `saturate`, the nearest
    end of the range, NaN being 0."""
    bits = 1 if to == np.bool_ else 8 * to.itemsize
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if is_signed else (0.0, 2.0**bits)
    truncated = np.trunc(widen(data))
    lost = ~((truncated >= low) & (truncated < high))
    inside = np.where(lost, 0.0, truncated)
    wide = inside.astype(np.int64 if is_signed else np.uint64)
    if saturate:
        ends = int(low), int(high) - 1
        wide = np.where(truncated < low, wide.dtype.type(ends[0]), wide)
        wide = np.where(truncated >= high, wide.dtype.type(ends[1]), wide)
    result = wide.astype(to)
    return result if saturate else (result, lost)


def from_integer(number: Array, to: DType) -> Array:
    """An integer as a float, rounded once to nearest even."""
    if to == F64 or number.dtype.itemsize < 8:
        return round_to(number.astype(F64), to) if to != F64 else number.astype(F64)
    if to == F32:
        return number.astype(F32)
    return round_to(_odd(number).astype(F64), to)


def _odd(number: Array) -> Array:
    """A 64-bit integer rounded to odd at 53 bits where it has more."""
    one = number.dtype.type(1)
    eleven, low = number.dtype.type(11), number.dtype.type(0x7FF)
    sticky = ((number & low) != 0).astype(number.dtype)
    rounded = ((number >> eleven) | (sticky & one)) << eleven
    limit = number.dtype.type(1 << 53)
    large = number >= limit
    if number.dtype.kind == "i":
        large |= number <= -limit
    return np.where(large, rounded, number)


def reinterpret(data: Array, to: DType) -> Array:
    """The same bits."""
    if data.dtype == to:
        return data
    if data.dtype.name == _I4:
        return (data.astype(np.int8) & 0xF).view(np.uint8).view(to)
    if to.name == _I4:
        return ((raw(data).view(np.int8) << 4) >> 4).astype(to)
    return data.view(to)


def address_to_integer(data: Array, to: DType) -> Array:
    """The low bits of an address."""
    return data.astype(RAW[to.itemsize]).view(to)


KERNELS: dict[str, Kernel] = {
    "trunc": narrow_integer,
    "zext": zero_extend,
    "sext": sign_extend,
    "fptrunc": to_float,
    "fpext": to_float,
    "fpcast": to_float,
    "fptosi": lambda x, to, *, saturate: to_integer(x, to, saturate=saturate, is_signed=True),
    "fptoui": lambda x, to, *, saturate: to_integer(x, to, saturate=saturate, is_signed=False),
    "sitofp": lambda x, to: from_integer(as_signed(x), to),
    "uitofp": lambda x, to: from_integer(as_unsigned(x), to),
    "ptrtoint": address_to_integer,
    "inttoptr": lambda x, to: as_unsigned(x).astype(to),
    "bitcast": reinterpret,
    "addrspacecast": lambda x, to: x,
}
"""Kernels by mnemonic."""
