"""wgmma operands: decoded from the bits of matrix descriptors, and multiplied.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Matrix Descriptor Format", "Shared
Memory Matrix Layout", "Register Fragments".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.layouts.wgmma import ROWS, WgmmaInstruction
from tileir.machine import dtype_of
from tileir.types import F8E4M3, F8E5M2, F32, I32

Array: TypeAlias = np.ndarray[Any, Any]

_SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
_SWIZZLES = {0: 0, 1: 3, 2: 2, 3: 1}
"""Bytes of a row of the pattern, and bits that permute it, by mode."""


@attrs.frozen
class MatrixDescriptor:
    """The fields of a matrix descriptor, in bytes."""

    start: int
    leading: int
    stride: int
    mode: int

    @staticmethod
    def of(bits: int) -> MatrixDescriptor:
        """The fields of the 64 bits of a descriptor. Raises AssertionError unless the unused bits
        are zero."""
        start, leading, stride = (((bits >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
        used = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 3 << 62
        if bits & ~used:
            raise AssertionError(f"a matrix descriptor with bits {bits & ~used:#x}")
        return MatrixDescriptor(start, leading, stride, bits >> 62)

    def places(self, rows: int, steps: int, size: int, *, turned: bool) -> Array:
        """The addresses of the operand elements of `size` bytes, [row, step of K], where the rows
        of B are its columns. `turned`: rows are contiguous, not K."""
        row, k = np.arange(rows)[:, None], np.arange(steps)[None, :]
        span = _SPANS[self.mode]
        inner, outer = (row, k) if turned else (k, row)
        along = inner * size
        if self.mode == 0:
            near, far = (self.stride, self.leading) if turned else (self.leading, self.stride)
        else:
            near, far = self.leading, self.stride
            if not turned and self.start % span + steps * size > span:
                raise AssertionError("a step of K that leaves its row of the pattern")
            if not turned:
                near = 0
        base = self.start
        offset = outer // 8 * far + outer % 8 * span + along // span * near + along % span
        return swizzle_address(base + offset, _SWIZZLES[self.mode])


def swizzle_address(address: Array, swizzle: int) -> Array:
    """Addresses, their 16-byte chunks permuted by the low `swizzle` bits of the line's number."""
    return address ^ ((address >> 7 & ((1 << swizzle) - 1)) << 4)


def numbers(kind: WgmmaInstruction, name: str, raw: Array) -> Array:
    """The numbers that the instruction sees in `raw`, unsigned integers of the operand's size."""
    if name in ("s8", "u8"):
        return raw.view(np.int8 if name == "s8" else np.uint8).astype(np.int64)
    if name == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name == "bf16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if name == "f16":
        return raw.view(np.float16).astype(np.float64)
    element = {"e4m3": F8E4M3, "e5m2": F8E5M2}[name]
    return raw.view(dtype_of(element)).astype(np.float64)


def multiply_accumulate(
    kind: WgmmaInstruction, left: Array, right: Array, accumulators: Array
) -> Array:
    """`accumulators` [row, column] plus left [row, k] times right [column, k]."""
    if kind.accumulator is I32:
        return (left @ right.T + accumulators.astype(np.int64)).astype(np.int32)
    with np.errstate(all="ignore"):
        total = left @ right.T + accumulators.astype(np.float64)
        return total.astype(np.float32 if kind.accumulator is F32 else np.float16)


@cache
def accumulator_places(count: int) -> tuple[Array, Array]:
    """Row and column of every accumulator element of a warpgroup's threads: [thread, register]."""
    thread, i = np.arange(128)[:, None], np.arange(count)[None, :]
    warp, lane = thread // 32, thread % 32
    row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
    return row, 8 * (i // 4) + 2 * (lane % 4) + i % 2


@cache
def operand_places(kind: WgmmaInstruction) -> tuple[Array, Array]:
    """Row and step of K of every element of A that a warpgroup's threads own for one step."""
    word = 32 // kind.bits
    thread, i = np.arange(128)[:, None], np.arange(ROWS * kind.k // 128)[None, :]
    warp, lane = thread // 32, thread % 32
    row = 16 * warp + lane // 4 + 8 * (i // word % 2)
    return row, lane % 4 * word + i % word + 4 * word * (i // (2 * word))


def stack_registers(values: Sequence[Array], group: int) -> Array:
    """Registers of the threads of a warpgroup: [thread, register]."""
    return np.stack([v[128 * group : 128 * group + 128] for v in values], axis=1)
