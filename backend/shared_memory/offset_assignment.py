"""Assignment of offsets in one memory to allocations, some of which must be disjoint.

Storage allocation at compile time (Gergov, "Algorithms for Compile-time Memory Optimization", SODA
1999) is NP-hard. A few allocations are placed in every order, each at the lowest free offset. A
larger number is placed in three orders, and the best result is kept. If at most two allocations are
live at once, they are placed at the two ends, which takes no more memory than the two largest
neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import TypeAlias

import attrs

_FEW = 5
"""The number of allocations up to which every order is tried."""

Conflicts: TypeAlias = Sequence[Collection[int]]
"""The conflicting allocations of each allocation."""


@attrs.frozen
class Allocation:
    """`size` bytes from a multiple of `alignment`."""

    size: int
    alignment: int = 1

    def above(self, offset: int) -> int:
        """The first suitable offset at or above `offset`."""
        return -(-offset // self.alignment) * self.alignment


def assign_offsets(allocations: Sequence[Allocation], conflicts: Conflicts) -> list[int]:
    """Choose an offset for each allocation. Allocations that conflict (a symmetric relation) share
    no byte. The end of the last byte in use is kept low."""
    candidates = list(_candidates(allocations, conflicts))
    return (
        min(candidates, key=lambda offsets: total_bytes(allocations, offsets)) if candidates else []
    )


def total_bytes(allocations: Sequence[Allocation], offsets: Sequence[int]) -> int:
    """The end of the last allocation, in bytes."""
    return max(
        (at + allocation.size for allocation, at in zip(allocations, offsets, strict=True)),
        default=0,
    )


def first_fit(allocation: Allocation, ranges: Collection[tuple[int, int]]) -> int:
    """The lowest offset of `allocation` that is disjoint from all `ranges`: bytes (first, end)."""
    at = 0
    for first, end in sorted(ranges):
        if at + allocation.size > first:
            at = max(at, allocation.above(end))
    return at


def _candidates(allocations: Sequence[Allocation], conflicts: Conflicts) -> Iterator[list[int]]:
    numbers = range(len(allocations))
    if len(allocations) <= _FEW:
        for order in permutations(numbers):
            yield _in_order(allocations, conflicts, order)
        return
    yield _in_order(allocations, conflicts, sorted(numbers, key=lambda i: -allocations[i].size))
    yield _in_order(
        allocations,
        conflicts,
        sorted(numbers, key=lambda i: (-len(conflicts[i]), -allocations[i].size)),
    )
    yield _lowest_first(allocations, conflicts)
    ends = _both_ends(allocations, conflicts)
    if ends is not None:
        yield ends


def _in_order(
    allocations: Sequence[Allocation], conflicts: Conflicts, order: Sequence[int]
) -> list[int]:
    placed: dict[int, int] = {}
    for i in order:
        placed[i] = first_fit(allocations[i], _occupied_ranges(allocations, conflicts[i], placed))
    return [placed[i] for i in range(len(allocations))]


def _occupied_ranges(
    allocations: Sequence[Allocation], neighbours: Collection[int], placed: Mapping[int, int]
) -> list[tuple[int, int]]:
    return [(placed[i], placed[i] + allocations[i].size) for i in neighbours if i in placed]


def _lowest_first(allocations: Sequence[Allocation], conflicts: Conflicts) -> list[int]:
    """The skyline grows from below: the allocation that fits lowest is next, the larger one among
    equals."""
    placed: dict[int, int] = {}
    fits = dict.fromkeys(range(len(allocations)), 0)
    while fits:
        i = min(fits, key=lambda i: (fits[i], -allocations[i].size))
        placed[i] = fits.pop(i)
        for j in conflicts[i]:
            if j in fits:
                fits[j] = first_fit(
                    allocations[j], _occupied_ranges(allocations, conflicts[j], placed)
                )
    return [placed[i] for i in range(len(allocations))]


def _both_ends(allocations: Sequence[Allocation], conflicts: Conflicts) -> list[int] | None:
    """Place allocations at the low or the high end of as many bytes as two neighbours take; None
    where the conflicts contain an odd cycle."""
    sides = _sides(conflicts)
    if sides is None:
        return None
    pairs = (
        (i, j) for i in range(len(allocations)) for j in conflicts[i] if not sides[i] and sides[j]
    )
    end = max(
        (allocations[j].above(allocations[i].size) + allocations[j].size for i, j in pairs),
        default=0,
    )
    end = max(end, *(allocation.size for allocation in allocations))
    return [
        (end - allocation.size) // allocation.alignment * allocation.alignment if side else 0
        for allocation, side in zip(allocations, sides, strict=True)
    ]


def _sides(conflicts: Conflicts) -> list[bool] | None:
    """A side for each allocation, different from those of its neighbours; None if that is
    impossible."""
    sides: dict[int, bool] = {}
    for start in range(len(conflicts)):
        waiting = [] if start in sides else [(start, False)]
        while waiting:
            i, side = waiting.pop()
            if sides.setdefault(i, side) is not side:
                return None
            waiting += [(j, not side) for j in conflicts[i] if sides.get(j) is not (not side)]
    return [sides[i] for i in range(len(conflicts))]
