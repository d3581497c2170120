"""What casts mean, said a second time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine import dtype_of
from tileir.types import BF16, element_of

Array = Any
Oracle = Callable[..., Any]


def width(data: Array) -> int:
    return 1 if data.dtype == bool else 8 * data.dtype.itemsize


def truncate(op: Any, x: Array) -> Any:
    """fptosi, fptoui: Python's int() where it fits; the lanes that do."""
    bits = element_of(op.to).bits
    low = -(1 << (bits - 1)) if op.mnemonic == "fptosi" else 0
    top = low + (1 << bits) - 1
    out, fits = [], []
    for item in x.reshape(-1):
        n = float(item)
        whole = 0 if math.isnan(n) else (int(n) if math.isfinite(n) else (top if n > 0 else low))
        fits.append(math.isfinite(n) and low <= int(n) <= top)
        clamped = min(max(whole, low), top)
        out.append(
            clamped - (1 << bits) if clamped >> (bits - 1) and bits > 1 and clamped > 0 else clamped
        )
    data = np.array(out, object).astype(dtype_of(op.to)).reshape(x.shape)
    return data, (None if op.saturate else np.array(fits).reshape(x.shape))


def from_integer(signed: bool) -> Oracle:
    def oracle(op: Any, x: Array) -> Array:
        bits, to = width(x), dtype_of(op.to)
        numbers = [int(n) & ((1 << bits) - 1) for n in x.reshape(-1)]
        if signed:
            numbers = [n - (1 << bits) if n >> (bits - 1) else n for n in numbers]
        return np.array([_as(to, n) for n in numbers]).astype(to).reshape(x.shape)

    return oracle


def _as(to: Any, n: int) -> Any:
    """An integer in a float format by exact arithmetic on its candidates."""
    if to == np.float64:
        return float(n)
    bits = {2: 11, 4: 24}[to.itemsize] if to != dtype_of(BF16) else 8
    if abs(n) < 1 << bits:
        return float(n)
    shift = abs(n).bit_length() - bits
    half, rest = 1 << (shift - 1), abs(n) & ((1 << shift) - 1)
    up = rest > half or (rest == half and (abs(n) >> shift) & 1)
    return math.copysign(float(((abs(n) >> shift) + up) << shift), n)


def same_bits(op: Any, x: Array) -> Array:
    to = dtype_of(op.to)
    if "int4" in (x.dtype.name, to.name):
        raw = x.astype(np.int8) if x.dtype.name == "int4" else x.view(np.int8)
        nibble = raw & 15
        return nibble.view(np.uint8).view(to) if to.name != "int4" else (
            np.where(nibble > 7, nibble - 16, nibble).astype(np.int8).astype(to))  # fmt: skip
    return np.frombuffer(x.tobytes(), to).reshape(x.shape)


CAST: dict[str, Oracle] = {
    "trunc": lambda op, x: (x.astype(np.int64) & ((1 << element_of(op.to).bits) - 1)).astype(
        np.uint64).astype(dtype_of(op.to)),
    "zext": lambda op, x: (x.astype(np.int64) & ((1 << width(x)) - 1)).astype(dtype_of(op.to)),
    "sext": lambda op, x: (-x.astype(np.int8) if x.dtype == bool else x).astype(dtype_of(op.to)),
    "fpext": lambda op, x: x.astype(np.float64).astype(dtype_of(op.to)),
    "fptosi": truncate,
    "fptoui": truncate,
    "sitofp": from_integer(True),
    "uitofp": from_integer(False),
    "ptrtoint": lambda op, x: np.array(
        [int(n) & ((1 << element_of(op.to).bits) - 1) for n in x.reshape(-1)], np.uint64
    ).astype(f"u{element_of(op.to).bytes}").view(dtype_of(op.to)).reshape(x.shape),
    "inttoptr": lambda op, x: x.view(f"u{x.dtype.itemsize}").astype(np.uint64),
    "addrspacecast": lambda op, x: x,
    "bitcast": same_bits,
}  # fmt: skip
