"""Accesses with a constant stride along every dimension, recognised by one comparison. Such an
access needs no address per element: its bounds are those of its corners, and numpy copies it as a
strided view."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.interp.memory import RAW, REGION_BITS, Addresses, Indices, Memory, Region

_HALF, _WHOLE = 1 << 63, 1 << 64
_MOST_PATTERNS = 512


@attrs.frozen(eq=False)
class StridedPattern:
    """Byte offsets of a tile's elements from its first one."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: Addresses
    """Modulo 2^64, in the tile's shape."""
    low: int
    high: int
    bits: int
    """The bitwise or of all strides: a power of two that divides it divides all strides."""
    distinct: bool
    """Whether no two elements have one offset."""

    @classmethod
    def of(cls, shape: tuple[int, ...], strides: tuple[int, ...]) -> StridedPattern:
        offsets = np.zeros(shape, np.int64)
        for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
            steps = np.arange(extent, dtype=np.int64) * stride
            offsets = offsets + steps.reshape(-1, *[1] * (len(shape) - axis - 1))
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        bits = 0
        for stride in strides:
            bits |= abs(stride)
        low, high = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)
        distinct = _is_distinct(shape, strides)
        return cls(shape, strides, offsets.view(np.uint64), low, high, bits, distinct)


def _is_distinct(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    reach = 0
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


@attrs.frozen(eq=False)
class Strided:
    """The elements of one access by what it takes to list them: the log's form of an index."""

    first: int
    """Index, in the region's view, of the tile's first element."""
    pattern: StridedPattern
    shift: int
    """log2 of the element's bytes."""

    @property
    def size(self) -> int:
        return self.pattern.offsets.size

    def reshape(self, extent: int) -> Indices:
        """The index of every element, in a row."""
        steps = self.pattern.offsets.view(np.int64).reshape(extent) >> self.shift
        return steps + self.first


@attrs.frozen(eq=False)
class StridedPlace:
    """The place of a strided access; `first` is the byte of `region.view(size)` at which it
    starts."""

    region: Region
    pattern: StridedPattern
    first: int
    size: int

    def view(self) -> NDArray[Any]:
        """The elements, as unsigned integers in memory."""
        elements, pattern = self.region.view(self.size)[0], self.pattern
        if pattern.strides == (self.size,):
            start = self.first // self.size
            return elements[start : start + pattern.shape[0]]
        return np.ndarray(pattern.shape, RAW[self.size], elements.data, self.first, pattern.strides)

    def log(self) -> Any:
        """The entry for the race detector."""
        return Strided(self.first // self.size, self.pattern, self.size.bit_length() - 1)


@attrs.define(eq=False)
class Strides:
    """Finds strided accesses in `memory`, and caches their patterns."""

    memory: Memory
    patterns: dict[tuple[tuple[int, ...], tuple[int, ...]], StridedPattern] = attrs.field(
        factory=dict[tuple[tuple[int, ...], tuple[int, ...]], StridedPattern]
    )

    def find(self, addresses: Addresses, size: int, *, write: bool) -> StridedPlace | None:
        """The place of the whole access, or None.

        It is None if the access is not strided, not in one plain region, or invalid;
        `Memory.locate` reports errors.
        """
        start = addresses.item(0)
        pattern = self._pattern(addresses, start)
        region = self.memory.regions.get((start + pattern.low) >> REGION_BITS)
        if region is None or region.holes is not None or region.undef is not None:
            return None
        elements, base = region.view(size)
        first = start - base
        if region.denied_write or not pattern.distinct if write else region.denied_read:
            return None
        if write and region.fixed is not None:
            return None
        if (first | pattern.bits) & (size - 1) or first + pattern.low < 0:
            return None
        if first + pattern.high > (len(elements) - 1) * size:
            return None
        if np.count_nonzero(addresses - np.array(start, np.uint64) != pattern.offsets):
            return None
        return StridedPlace(region, pattern, first, size)

    def _pattern(self, addresses: Addresses, start: int) -> StridedPattern:
        shape = addresses.shape
        if len(shape) == 1:
            strides: tuple[int, ...] = (_step(addresses.item(1), start) if shape[0] > 1 else 0,)
        else:
            strides = tuple(
                [
                    _step(addresses.item(place), start) if place else 0
                    for place in _second_places(shape)
                ]
            )
        pattern = self.patterns.get((shape, strides))
        if pattern is None:
            if len(self.patterns) >= _MOST_PATTERNS:
                self.patterns.clear()
            pattern = self.patterns[(shape, strides)] = StridedPattern.of(shape, strides)
        return pattern


def _second_places(shape: tuple[int, ...]) -> list[int]:
    """Flat numbers of the second element along each dimension, 0 where there is none."""
    places, pitch = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        places[axis] = pitch if shape[axis] > 1 else 0
        pitch *= shape[axis]
    return places


def _step(address: int, start: int) -> int:
    distance = (address - start) % _WHOLE
    return distance - _WHOLE if distance >= _HALF else distance
