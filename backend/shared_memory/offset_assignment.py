"""Offsets in one memory for rooms of which some must not share a byte.

Storage allocation at compile time (Gergov, "Algorithms for Compile-time Memory Optimization", SODA
1999) is NP-hard. Few rooms are placed in every order, each at the lowest offset that is free; more
are placed in three orders, of which the best is kept. Rooms of which at most two are in use at once
lie at either end, which takes no more than two of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import TypeAlias

import attrs

_FEW = 5
"""Rooms of which every order is tried."""

Apart: TypeAlias = Sequence[Collection[int]]
"""By room, those it must not share a byte with."""


@attrs.frozen
class Allocation:
    """`size` bytes from a multiple of `alignment`."""

    size: int
    alignment: int = 1

    def above(self, offset: int) -> int:
        """The first place from `offset` on."""
        return -(-offset // self.alignment) * self.alignment


def assign_offsets(rooms: Sequence[Allocation], apart: Apart) -> list[int]:
    """An offset for each of `rooms`, so that those that are `apart` (a symmetric relation) share
    no byte, and the last byte in use is low."""
    found = list(_candidates(rooms, apart))
    return min(found, key=lambda offsets: total_bytes(rooms, offsets)) if found else []


def total_bytes(rooms: Sequence[Allocation], offsets: Sequence[int]) -> int:
    """Bytes up to the end of the last room."""
    return max((at + room.size for room, at in zip(rooms, offsets, strict=True)), default=0)


def first_fit(room: Allocation, taken: Collection[tuple[int, int]]) -> int:
    """The lowest offset at which `room` shares no byte with what is `taken`: (first, end)."""
    at = 0
    for first, end in sorted(taken):
        if at + room.size > first:
            at = max(at, room.above(end))
    return at


def _candidates(rooms: Sequence[Allocation], apart: Apart) -> Iterator[list[int]]:
    numbers = range(len(rooms))
    if len(rooms) <= _FEW:
        for order in permutations(numbers):
            yield _in_order(rooms, apart, order)
        return
    yield _in_order(rooms, apart, sorted(numbers, key=lambda i: -rooms[i].size))
    yield _in_order(rooms, apart, sorted(numbers, key=lambda i: (-len(apart[i]), -rooms[i].size)))
    yield _lowest_first(rooms, apart)
    ends = _both_ends(rooms, apart)
    if ends is not None:
        yield ends


def _in_order(rooms: Sequence[Allocation], apart: Apart, order: Sequence[int]) -> list[int]:
    placed: dict[int, int] = {}
    for i in order:
        placed[i] = first_fit(rooms[i], _taken(rooms, apart[i], placed))
    return [placed[i] for i in range(len(rooms))]


def _taken(
    rooms: Sequence[Allocation], others: Collection[int], placed: Mapping[int, int]
) -> list[tuple[int, int]]:
    return [(placed[i], placed[i] + rooms[i].size) for i in others if i in placed]


def _lowest_first(rooms: Sequence[Allocation], apart: Apart) -> list[int]:
    """The skyline grows from below: the room that fits lowest is next, the larger among equals."""
    placed: dict[int, int] = {}
    fits = dict.fromkeys(range(len(rooms)), 0)
    while fits:
        i = min(fits, key=lambda i: (fits[i], -rooms[i].size))
        placed[i] = fits.pop(i)
        for j in apart[i]:
            if j in fits:
                fits[j] = first_fit(rooms[j], _taken(rooms, apart[j], placed))
    return [placed[i] for i in range(len(rooms))]


def _both_ends(rooms: Sequence[Allocation], apart: Apart) -> list[int] | None:
    """Rooms at the low or the high end of as many bytes as two neighbours take; None where three
    in a ring keep each other out."""
    sides = _sides(apart)
    if sides is None:
        return None
    pairs = ((i, j) for i in range(len(rooms)) for j in apart[i] if not sides[i] and sides[j])
    end = max((rooms[j].above(rooms[i].size) + rooms[j].size for i, j in pairs), default=0)
    end = max(end, *(room.size for room in rooms))
    return [
        (end - room.size) // room.alignment * room.alignment if side else 0
        for room, side in zip(rooms, sides, strict=True)
    ]


def _sides(apart: Apart) -> list[bool] | None:
    """A side for each, another than its neighbours'; None where there is none."""
    sides: dict[int, bool] = {}
    for start in range(len(apart)):
        waiting = [] if start in sides else [(start, False)]
        while waiting:
            i, side = waiting.pop()
            if sides.setdefault(i, side) is not side:
                return None
            waiting += [(j, not side) for j in apart[i] if sides.get(j) is not (not side)]
    return [sides[i] for i in range(len(apart))]
