"""Tiles in shared memory: the placement of elements.

A tile consists of rows of `pitch` bytes, a multiple of 16. The 16-byte chunks of a row are permuted
by the row number, so that 8 rows at one column are in different banks: the low `swizzle` bits of
the chunk number are combined by exclusive or with the bits of the row number that are constant
within a 128-byte line.

Rows may be split into panels, each a tile of its own with rows as wide as the swizzle, one after
the other, as tensor maps and `wgmma` require (PTX ISA, "Tensor Swizzling Modes", "Shared Memory
Matrix Layout").
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import attrs

from tileir.errors import Location
from tileir.layout import Vector
from tileir.types import AddressSpace, Element, Pointer

if TYPE_CHECKING:
    from tileir.ops.gpu import SharedAlloc

CHUNK = 16
"""Bytes that stay together: the widest access of one thread."""

LINE = 128
"""Bytes of all banks together."""


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@attrs.frozen
class SharedTile:
    """Elements of `shape` from byte `base`; dimension `fast`, one of the last two, is the one
    along which a row runs. Dimensions before the last two follow one another, plane by plane.
    `panel`: elements of a row of a panel, a power of two of bytes; 0 where rows are whole."""

    element: Element
    shape: Vector
    fast: int
    swizzle: int
    base: int = 0
    panel: int = 0

    @staticmethod
    def of(op: Any, base: int = 0) -> SharedTile:
        """A stage of the buffer of `op`, a `gpu.shared_alloc`, from byte `base`."""
        return SharedTile(op.type.pointee, op.shape[1:], op.fast, op.swizzle, base, op.panel)

    def allocate(self, count: int = 1, location: Location | None = None) -> SharedAlloc:
        """A buffer of `count` such tiles."""
        from tileir.ops.gpu import SharedAlloc  # most kernels have no such op

        return SharedAlloc(
            Pointer(self.element, AddressSpace.SHARED), shape=(count, *self.shape), fast=self.fast,
            swizzle=self.swizzle, panel=self.panel, location=location,
        )  # fmt: skip

    @property
    def slow(self) -> int:
        """The dimension that counts rows."""
        return 2 * len(self.shape) - 3 - self.fast

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next."""
        return -(-(self.panel or self.shape[self.fast]) * self.element.bytes // CHUNK) * CHUNK

    @property
    def panel_bytes(self) -> int:
        """Bytes from one panel to the next: whole repetitions of the pattern of rows, so that each
        begins where it does."""
        return _up(self.pitch * self.shape[self.slow], self.alignment if self.panel else 1)

    @property
    def plane(self) -> int:
        """Bytes of one plane."""
        panels = self.shape[self.fast] // self.panel if self.panel else 1
        return self.panel_bytes * panels

    @property
    def alignment(self) -> int:
        """The alignment of the first byte: 8 rows of a panel, or a line of all banks."""
        return LINE << self.swizzle if self.panel else LINE

    def along(self, offset: int) -> int:
        """Bytes from a row's first element to the one at byte `offset` of the row."""
        if not self.panel:
            return offset
        return offset // self.pitch * self.panel_bytes + offset % self.pitch

    def stride(self, dim: int) -> int:
        """Bytes from one plane to the next along `dim`, which is before the last two."""
        return self.plane * prod(self.shape[dim + 1 : -2])

    def offset(self, element: Vector) -> int:
        """Bytes from the first element to `element`."""
        row, byte = element[self.slow], element[self.fast] * self.element.bytes
        phase = row % 8 >> 3 - self.swizzle
        planes = sum(x * self.stride(dim) for dim, x in enumerate(element[:-2]))
        return planes + row * self.pitch + self.along(byte ^ phase * CHUNK)

    @property
    def bytes(self) -> int:
        """Bytes of all planes."""
        return self.plane * prod(self.shape[:-2])


def full_swizzle(element: Element, shape: Vector, fast: int) -> int:
    """Bits of swizzle that keep 8 rows at one column out of each other's banks."""
    chunks = SharedTile(element, shape, fast, 0).pitch // CHUNK
    return min(3, (chunks & -chunks).bit_length() - 1)
