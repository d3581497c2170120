"""Memory of the interpreter: one flat address space of bounded regions.

Region k occupies the addresses from `(k + 1) << 40`, so leaving an array never lands in another one
and address 0 is in none. A region consists of the bytes of its arrays, not of a copy. A gather or
scatter is one numpy call if all lanes are in one region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

REGION_BITS = 40
"""log2 of the distance between the bases of two regions, in bytes."""

Bytes = NDArray[np.uint8]
Addresses = NDArray[np.uint64]
Indices = NDArray[np.int64]
Lanes = NDArray[np.bool_]
View = tuple[NDArray[Any], int]
"""Elements, and the address of the first."""

RAW: dict[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
"""The unsigned integer type by which elements of this many bytes are moved."""


class AccessError(Exception):
    """An access outside every region, misaligned, or to read-only memory.

    `lane` is the flat index of the first offending element of the tile.
    """

    def __init__(self, code: str, message: str, lane: int) -> None:
        super().__init__(code, message, lane)
        self.code, self.message, self.lane = code, message, lane


@attrs.define(eq=False)
class Region:
    """One allocation: `data` are its bytes at addresses `start` to `start + len(data)`.

    `base` is the start of the allocation that the arrays are views of. `denied_read` and
    `denied_write` give the reason if it may not be read or written, else "". `holes` marks bytes
    that belong to no argument, `undef` bytes that were never written, `fixed` bytes that may not be
    written for the reason `fixed_reason`; None if there are none.
    """

    name: str
    base: int
    start: int
    data: Bytes
    denied_read: str = ""
    denied_write: str = ""
    holes: Bytes | None = None
    undef: Bytes | None = None
    fixed: Bytes | None = None
    fixed_reason: str = ""
    keep: tuple[Any, ...] = ()
    views: dict[int, View] = attrs.field(factory=dict[int, View])

    def view(self, size: int) -> View:
        """The region as unsigned integers of `size` bytes, and the address of the first."""
        view = self.views.get(size)
        if view is None:
            first = -(-self.start // size) * size
            view = _as_elements(self.data, first - self.start, size), first
            self.views[size] = view
        return view

    def flags(self, of: Bytes, size: int) -> NDArray[Any]:
        """`of` (one flag a byte) per element of `size` bytes: nonzero where any byte is set."""
        return _as_elements(of, self.view(size)[1] - self.start, size)

    def spoil(self) -> Bytes:
        """The undef flags; they are created if there are none."""
        if self.undef is None:
            self.undef = np.zeros(len(self.data), np.uint8)
        return self.undef


def _as_elements(data: Bytes, skip: int, size: int) -> NDArray[Any]:
    count = max(0, (len(data) - skip) // size)
    return data[skip : skip + count * size].view(RAW[size]) if count else np.empty(0, RAW[size])


@attrs.frozen
class Hit:
    """Lanes of one access that fall into one region.

    `index` counts elements from the region's first aligned one; `lanes` are flat lane numbers,
    None for all of them.
    """

    region: Region
    index: Indices
    lanes: Indices | None = None


@attrs.define(eq=False)
class Memory:
    """All regions of a launch."""

    regions: dict[int, Region] = attrs.field(factory=dict[int, Region])

    def add(self, name: str, data: Bytes, offset: int = 0, **facts: Any) -> Region:
        """A new region whose bytes start `offset` after the region's base address."""
        base = (len(self.regions) + 1) << REGION_BITS
        region = Region(name, base, base + offset, data, **facts)
        self.regions[base >> REGION_BITS] = region
        return region

    def locate(self, addresses: Addresses, size: int, *, write: bool = False) -> list[Hit]:
        """Find the region and the offsets of `addresses` (any shape, at least one) for accesses of
        `size` bytes.

        Raises AccessError for the first lane that is out of bounds, misaligned or not writable.
        """
        hit = self._one_region(addresses, size)
        if hit is None or _may_be_denied(hit.region, write):
            return list(self._by_region(addresses.reshape(-1), size, write))
        return [hit]

    def _one_region(self, addresses: Addresses, size: int) -> Hit | None:
        region = self.regions.get(int(addresses.flat[0]) >> REGION_BITS)
        if region is None or region.holes is not None:
            return None
        view, first = region.view(size)
        offsets = addresses - np.uint64(first)
        if size > 1:
            if int(np.bitwise_or.reduce(offsets, axis=None)) & (size - 1):
                return None
            offsets >>= np.uint64(size.bit_length() - 1)
        if int(np.maximum.reduce(offsets, axis=None)) >= len(view):
            return None
        return Hit(region, offsets.view(np.int64))

    def _by_region(self, addresses: Addresses, size: int, write: bool) -> Iterator[Hit]:
        owners = addresses >> np.uint64(REGION_BITS)
        for owner in np.unique(owners).tolist():
            lanes = np.flatnonzero(owners == owner)
            region = self.regions.get(owner)
            if region is None:
                raise self._outside(addresses, int(lanes[0]), size)
            yield self._resolve(region, addresses, lanes, size, write)

    def _resolve(
        self, region: Region, addresses: Addresses, lanes: Indices, size: int, write: bool
    ) -> Hit:
        chosen = addresses[lanes]
        wrong = chosen % np.uint64(size) != 0
        if wrong.any():
            raise self._misalignment_error(addresses, int(lanes[wrong.argmax()]), size)
        view, first = region.view(size)
        index = (chosen.view(np.int64) - first) // size
        outside = (index < 0) | (index >= len(view))
        if region.holes is not None and not outside.any():
            outside = region.flags(region.holes, size)[index] != 0
        if outside.any():
            raise self._outside(addresses, int(lanes[outside.argmax()]), size)
        denied = region.denied_write if write else region.denied_read
        if denied:
            raise AccessError("TIR0508", denied, int(lanes[0]))
        if write and region.fixed is not None:
            wrong = region.flags(region.fixed, size)[index] != 0
            if wrong.any():
                raise AccessError("TIR0508", region.fixed_reason, int(lanes[wrong.argmax()]))
        return Hit(region, index, lanes)

    def _outside(self, addresses: Addresses, lane: int, size: int) -> AccessError:
        address = int(addresses[lane])
        region = self._nearest(address)
        if region is None:
            return AccessError("TIR0501", f"address {address:#x} is in no buffer", lane)
        place = describe(region, address, size)
        extent = len(region.data)
        hole = " (between its elements)" if region.holes is not None else ""
        message = f"{place} is outside the {extent} bytes of {region.name}{hole}"
        return AccessError("TIR0501", message, lane)

    def _misalignment_error(self, addresses: Addresses, lane: int, size: int) -> AccessError:
        address = int(addresses[lane])
        region = self._nearest(address)
        place = f"{address:#x}" if region is None else describe(region, address, size)
        return AccessError("TIR0502", f"{place} is not a multiple of {size} bytes", lane)

    def _nearest(self, address: int) -> Region | None:
        """The region at `address`, or the region that starts close to it."""
        return self.regions.get((address + (1 << (REGION_BITS - 1))) >> REGION_BITS)


def _may_be_denied(region: Region, write: bool) -> bool:
    """Whether accesses of this kind have to be checked element by element."""
    if write:
        return bool(region.denied_write) or region.fixed is not None
    return bool(region.denied_read)


def describe(region: Region, address: int, size: int) -> str:
    """`x + 12 (element 3)`: an address in terms of its region."""
    offset = address - region.start
    element = f" (element {offset // size})" if offset % size == 0 else ""
    sign = "+" if offset >= 0 else "-"
    return f"{region.name} {sign} {abs(offset)} bytes{element}"
