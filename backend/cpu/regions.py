"""The memory that a launch may access, in the form in which its code checks it (`checks`): the
arrays of the arguments, and the globals of the module."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import attrs
import numpy as np
from numpy.lib.array_utils import byte_bounds

from tileir.backend.cpu.checks import RECORD, REGION

_ALL = (1 << 64) - 1


@attrs.frozen(eq=False)
class MemoryRegion:
    """Memory called `name`: `size` bytes from the address `first`. If there are gaps between
    elements, `dims` are the distances in bytes and the extents of the dimensions, and `run` is the
    number of contiguous bytes."""

    name: str
    first: int
    size: int
    writable: bool = True
    dims: tuple[tuple[int, int], ...] = ()
    run: int = 0

    @staticmethod
    def of(name: str, array: np.ndarray[Any, Any]) -> MemoryRegion:
        """The memory of an array."""
        start, flags = address(array), array.flags
        if flags.c_contiguous or flags.f_contiguous or not array.size:
            return MemoryRegion(name, start, array.nbytes, flags.writeable)
        first, end = byte_bounds(array)
        dims, run = _rows(array)
        return MemoryRegion(name, first, end - first, flags.writeable, dims, run)

    @staticmethod
    def anywhere(name: str) -> MemoryRegion:
        """Memory at an address that was passed as a number, with unknown bounds."""
        return MemoryRegion(name, 0, _ALL)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.first + self.size

    def surrounds(self, at: int, size: int) -> bool:
        """Whether `size` bytes at the address `at` are between its first byte and its end; they may
        be in a gap."""
        return self.first <= at and at + size <= self.end

    def contains(self, at: int, size: int) -> bool:
        """Whether `size` bytes at the address `at` belong to its elements."""
        rest = at - self.first
        for stride, count in self.dims:
            index, rest = divmod(rest, stride)
            if index >= count:
                return False
        return self.surrounds(at, size) and rest + size <= (self.run or self.size)


def address(array: np.ndarray[Any, Any]) -> int:
    """The address of the first element of `array`."""
    return array.__array_interface__["data"][0]


def _rows(array: np.ndarray[Any, Any]) -> tuple[tuple[tuple[int, int], ...], int]:
    """The dimensions with gaps, outermost first, and the number of contiguous bytes."""
    run, reach = array.itemsize, array.itemsize
    rows: list[tuple[int, int]] = []
    strides = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, count in sorted(s for s in strides if s[0] and s[1] > 1):
        if stride < reach:  # overlapping rows: gaps between them are not checked
            return (), 0
        if stride == run and not rows:
            run *= count
        else:
            rows.append((stride, count))
        reach = stride * (count - 1) + reach
    return tuple(reversed(rows)), run


@attrs.frozen(eq=False)
class RegionRecord:
    """The memory that a pointer to `own` may access: the regions of arrays that share memory with
    it, or `own` in parts. Read-only regions come first, since a byte of one is never written."""

    own: MemoryRegion
    regions: tuple[MemoryRegion, ...]

    @property
    def may_write(self) -> bool:
        """Whether any of it may be written."""
        return any(x.writable for x in self.regions)


@attrs.frozen(eq=False)
class Bounds:
    """The records of the parameters (None for numbers) and of the globals of a launch, and the
    memory that contains the records."""

    records: tuple[RegionRecord | None, ...]
    everything: RegionRecord
    memory: Any
    addresses: tuple[int, int]
    """The addresses of the records, and of the record of all memory."""

    @staticmethod
    def of(owns: Sequence[MemoryRegion | None], more: Iterable[MemoryRegion] = ()) -> Bounds:
        """The bounds of parameters and globals with memory `owns`. Pointers of unknown origin may
        access all of it, and `more`."""
        present = [x for x in owns if x is not None]
        grouped = {id(x): group for group in _overlapping(present) for x in group}
        records_of = tuple(None if x is None else _record(x, grouped[id(x)]) for x in owns)
        every = MemoryRegion("", 0, 0)
        all_regions = RegionRecord(every, _read_only_first([*present, *more]))
        memory, addresses = _encode(records_of, all_regions)
        return Bounds(records_of, all_regions, memory, addresses)

    def fault(self, record: int | None, at: int, size: int, writes: bool) -> tuple[str, str]:
        """The error code of an out-of-bounds access of `size` bytes at the address `at`, and the
        name of the region."""
        regions = self.everything if record is None else self.records[record]
        assert regions is not None
        near = [r for r in regions.regions if r.surrounds(at, size)]
        within = [r for r in near if r.contains(at, size)]
        hit = next(iter(within or near), None)
        own = regions.own if record is not None else hit
        if own is None:
            return "TIR0501", f"{at:#x}, which is in no array of the launch"
        place = f"byte {_to_signed(at - own.first)} of {own.name}"
        if hit is None:
            return "TIR0501", f"{place}, which has {own.size}"
        if writes and (not regions.may_write or any(not r.writable for r in within)):
            return "TIR0508", f"{place}, which is read-only"
        return "TIR0501", f"{place}, which is between its elements"


def _to_signed(distance: int) -> int:
    return (distance + (1 << 63)) % (1 << 64) - (1 << 63)


def _overlapping(regions: Sequence[MemoryRegion]) -> list[list[MemoryRegion]]:
    """`regions` with known bounds, grouped by shared memory."""
    if len(regions) == 1:
        return [[regions[0]]]
    groups = [[x] for x in regions if not x.size or x.size == _ALL]
    reach = 0
    for region in sorted((x for x in regions if 0 < x.size < _ALL), key=attrgetter("first")):
        if region.first < reach:
            groups[-1].append(region)
        else:
            groups.append([region])
        reach = max(reach, region.end)
    return groups


def _record(own: MemoryRegion, group: list[MemoryRegion]) -> RegionRecord:
    """The record of a pointer to `own`. Dense arrays that overlap are one region, or several parts
    if some of them are read-only."""
    if len(group) > 1 and not any(x.dims for x in group):
        first, end = min(x.first for x in group), max(x.end for x in group)
        parts = _parts(own, group)
        span = MemoryRegion(own.name, first, end - first, all(x.writable for x in parts))
        return RegionRecord(span, (span,) if len(parts) < 2 else _read_only_first(parts))
    return RegionRecord(own, _read_only_first([own, *(x for x in group if x is not own)]))


def _read_only_first(regions: Iterable[MemoryRegion]) -> tuple[MemoryRegion, ...]:
    return tuple(sorted(regions, key=attrgetter("writable")))


def _parts(own: MemoryRegion, group: list[MemoryRegion]) -> list[MemoryRegion]:
    """The memory of the dense arrays of `group`, split into writable parts and parts that belong to
    a read-only array."""
    ends = sorted({x.first for x in group} | {x.end for x in group})
    parts: list[MemoryRegion] = []
    for first, end in pairwise(ends):
        free = all(x.writable or x.end <= first or x.first >= end for x in group)
        if parts and parts[-1].writable == free:
            first = parts.pop().first
        parts.append(MemoryRegion(own.name, first, end - first, free))
    return parts


def _encode(
    record_list: Sequence[RegionRecord | None], everything: RegionRecord
) -> tuple[Any, tuple[int, int]]:
    """The records, their regions and dimensions as consecutive words, with their addresses."""
    constant_vector = [*record_list, everything]
    regions = [r for x in constant_vector if x is not None for r in x.regions]
    start = RECORD * len(constant_vector)
    rows = start + REGION * (len(regions) + 1)
    dims = sum(2 * len(r.dims) + 1 for r in regions)
    words: Any = (ctypes.c_uint64 * (rows + dims + 1))()
    base = ctypes.addressof(words)
    head, table, tail = list[int](), list[int](), list[int]()
    for x in constant_vector:
        if x is None:
            head += _NOTHING
            continue
        own, place = x.own, base + 8 * (start + len(table))
        dense, free = not own.dims, all(r.writable for r in x.regions)
        head += (
            own.first, dense * own.size, (dense and free) * own.size,
            x.may_write or x is everything,
            place, len(x.regions),
        )  # fmt: skip
        for r in x.regions:
            table += r.first, r.size, r.writable, len(r.dims), base + 8 * (rows + len(tail))
            tail += [n for d in r.dims for n in d]
            tail.append(r.run or r.size)
    words[: len(head)] = head
    words[start : start + len(table)] = table
    words[rows : rows + len(tail)] = tail
    return words, (base, base + 8 * RECORD * len(record_list))


_NOTHING = (0,) * RECORD
