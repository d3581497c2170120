"""Which memory a launch may access, as its code looks it up (`checks`): the arrays that it was
given, and the globals of the module."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import attrs
import numpy as np
from numpy.lib.array_utils import byte_bounds

from tileir.backend.cpu.checks import RECORD, REGION

_ALL = (1 << 64) - 1


@attrs.frozen(eq=False)
class Region:
    """Memory called `name`: `size` bytes from the address `first`. `dims` are distances in bytes
    and extents of rows of `run` bytes that follow one another, where there is something between
    them."""

    name: str
    first: int
    size: int
    writable: bool = True
    dims: tuple[tuple[int, int], ...] = ()
    run: int = 0

    @staticmethod
    def of(name: str, array: np.ndarray[Any, Any]) -> Region:
        """The memory of an array."""
        start, flags = address(array), array.flags
        if flags.c_contiguous or flags.f_contiguous or not array.size:
            return Region(name, start, array.nbytes, flags.writeable)
        first, end = byte_bounds(array)
        dims, run = _rows(array)
        return Region(name, first, end - first, flags.writeable, dims, run)

    @staticmethod
    def anywhere(name: str) -> Region:
        """Memory behind an address that was given as a number, of which nothing is known."""
        return Region(name, 0, _ALL)

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.first + self.size


def address(array: np.ndarray[Any, Any]) -> int:
    """Where the first element of `array` is."""
    return array.__array_interface__["data"][0]


def _rows(array: np.ndarray[Any, Any]) -> tuple[tuple[tuple[int, int], ...], int]:
    """Dimensions with bytes between, outer ones first, and bytes that follow one another."""
    run, reach = array.itemsize, array.itemsize
    found: list[tuple[int, int]] = []
    strides = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, count in sorted(s for s in strides if s[0] and s[1] > 1):
        if stride < reach:  # rows that overlap: nothing is said of what lies between
            return (), 0
        if stride == run and not found:
            run *= count
        else:
            found.append((stride, count))
        reach = stride * (count - 1) + reach
    return tuple(reversed(found)), run


@attrs.frozen(eq=False)
class Record:
    """What a pointer may access: the regions of a parameter or global, `own` first said."""

    own: Region
    regions: tuple[Region, ...]


@attrs.frozen(eq=False)
class Bounds:
    """The records of the parameters, `None` for numbers, and of the globals of a launch, and the
    memory that they are written in."""

    records: tuple[Record | None, ...]
    everything: Record
    memory: Any
    addresses: tuple[int, int]
    """Of the records, and of the one of everything."""

    @staticmethod
    def of(owns: Sequence[Region | None], more: Iterable[Region] = ()) -> Bounds:
        """The bounds of parameters and globals with memory `owns`; pointers of which it is not
        known where they come from may access it and `more`."""
        given = [x for x in owns if x is not None]
        grouped = {id(x): group for group in _overlapping(given) for x in group}
        found = tuple(None if x is None else _record(x, grouped[id(x)]) for x in owns)
        every = Region("", 0, 0)
        everything = Record(every, (*given, *more))
        memory, addresses = _written(found, everything)
        return Bounds(found, everything, memory, addresses)

    def fault(self, record: int | None, at: int, size: int, writes: bool) -> tuple[str, str]:
        """The code of an access of `size` bytes at the address `at` that may not be made, and
        where it is."""
        found = self.everything if record is None else self.records[record]
        assert found is not None
        hit = next((r for r in found.regions if r.first <= at and at + size <= r.end), None)
        own = found.own if record is not None else hit
        if own is None:
            return "TIR0501", f"{at:#x}, which is in no array of the launch"
        place = f"byte {_signed(at - own.first)} of {own.name}"
        if hit is None:
            return "TIR0501", f"{place}, which has {own.size}"
        if writes and not (own.writable and hit.writable):
            return "TIR0508", f"{place}, which is read-only"
        return "TIR0501", f"{place}, which lies between its elements"


def _signed(distance: int) -> int:
    return (distance + (1 << 63)) % (1 << 64) - (1 << 63)


def _overlapping(regions: Sequence[Region]) -> list[list[Region]]:
    """`regions` grouped by shared memory, where something is known of it."""
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


def _record(own: Region, group: list[Region]) -> Record:
    """The record of a pointer to `own`: dense arrays that overlap are one region."""
    if len(group) > 1 and not any(x.dims for x in group):
        first, end = min(x.first for x in group), max(x.end for x in group)
        whole = Region(own.name, first, end - first, own.writable)
        return Record(whole, (whole,))
    return Record(own, (own, *(x for x in group if x is not own)))


def _written(found: Sequence[Record | None], everything: Record) -> tuple[Any, tuple[int, int]]:
    """Records, their regions and dimensions as words, one behind the other; where they begin."""
    listed = [*found, everything]
    regions = [r for x in listed if x is not None for r in x.regions]
    start = RECORD * len(listed)
    rows = start + REGION * (len(regions) + 1)
    dims = sum(2 * len(r.dims) + 1 for r in regions)
    words: Any = (ctypes.c_uint64 * (rows + dims + 1))()
    base = ctypes.addressof(words)
    head, table, tail = list[int](), list[int](), list[int]()
    for x in listed:
        if x is None:
            head += _NOTHING
            continue
        own, place = x.own, base + 8 * (start + len(table))
        dense, free = not own.dims, own.writable
        head += (
            own.first, dense * own.size, (dense and free) * own.size, free or x is everything,
            place, len(x.regions),
        )  # fmt: skip
        for r in x.regions:
            table += r.first, r.size, r.writable, len(r.dims), base + 8 * (rows + len(tail))
            tail += [n for d in r.dims for n in d]
            tail.append(r.run or r.size)
    words[: len(head)] = head
    words[start : start + len(table)] = table
    words[rows : rows + len(tail)] = tail
    return words, (base, base + 8 * RECORD * len(found))


_NOTHING = (0,) * RECORD
