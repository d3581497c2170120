"""Conversion of 64-bit words to C values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_TYPES: dict[str, Any] = {
    "i1": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip
"""The types that C has; values of other types are passed as their bits."""


def c_values(kinds: Sequence[str], words: Sequence[int]) -> list[Any]:
    """Words of 64 bits as the C values of types `kinds`."""
    return [
        _TYPES.get(kind, ctypes.c_uint64).from_buffer_copy(word.to_bytes(8, "little"))
        for kind, word in zip(kinds, words, strict=True)
    ]
