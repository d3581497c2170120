"""What takes too many registers to stay whole."""

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
    """The warps of a block: `warps`, those that the function says, or 16; and whether any are
    stated."""
    said = function.attributes.get("num_warps")
    stated = warps or (said if isinstance(said, int) and not isinstance(said, bool) else 0)
    return stated or _WARPS, bool(stated)


def registers_of(threads: int) -> int:
    """Registers a thread may have, 128 being as good as more."""
    return min(128, _THREAD_REGISTERS // threads)


def max_tile_words(threads: int, limit: int = 0) -> int:
    """Words of a tile, over all threads, above which it is cut: `limit` each, or half of the
    registers."""
    return threads * (limit or registers_of(threads) // 2)


def is_large(op: Op, limit: int) -> bool:
    """Whether an operand takes more than `limit` words."""
    return any(words(v.type) > limit for v in op.inputs)
