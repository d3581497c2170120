"""Which tiles take too many registers to stay whole."""

from __future__ import annotations

from typing import Any, cast

from tileir.ir import Function
from tileir.op import Op
from tileir.types import Buffer, Descriptor, Pointer, Tile, Type, element_of

_WARPS = 16
_THREAD_REGISTERS = 65536
"""32-bit registers of a multiprocessor (CUDA C++ Programming Guide, "Technical
Specifications")."""


def words(type: Type) -> int:
    """32-bit registers that a value of `type` takes, over all threads; addresses count as one,
    since most are a common base and an offset. Buffers and descriptors take none."""
    if isinstance(type, (Buffer, Descriptor)):
        return 0
    element = element_of(type)
    size = 1 if isinstance(element, Pointer) else max(1, cast(Any, element).bits // 32)
    return size * (type.size if isinstance(type, Tile) else 1)


def warps_of(function: Function, warps: int) -> tuple[int, bool]:
    """The number of warps of a block: `warps`, the function's `num_warps`, or 16; and whether one
    of the first two is set."""
    attribute = function.attributes.get("num_warps")
    stated = warps or (
        attribute if isinstance(attribute, int) and not isinstance(attribute, bool) else 0
    )
    return stated or _WARPS, bool(stated)


def registers_of(threads: int) -> int:
    """32-bit registers of a thread in a block of `threads` threads, at most 128: more registers
    make no kernel faster."""
    return min(128, _THREAD_REGISTERS // threads)


def max_tile_words(threads: int, limit: int = 0) -> int:
    """The words of a tile, over all threads, above which it is strip-mined: `limit` per thread, or
    half of the registers of a thread where `limit` is 0."""
    return threads * (limit or registers_of(threads) // 2)


def is_large(op: Op, limit: int) -> bool:
    """Whether an operand of `op` takes more than `limit` words, over all threads."""
    return any(words(v.type) > limit for v in op.inputs)
