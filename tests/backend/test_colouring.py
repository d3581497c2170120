"""Offsets of allocations, against every allocation and every order where there are few."""

from __future__ import annotations

import random
from itertools import permutations

from tests.sizes import for_each
from tileir.backend.shared_memory.offset_assignment import (
    Allocation,
    assign_offsets,
    first_fit,
    total_bytes,
)


def conflicts_of(intervals: list[tuple[int, int]]) -> list[set[int]]:
    """Allocations in use from a first to before a last moment: which are in use at once."""
    count = range(len(intervals))
    return [
        {j for j in count if j != i and a < intervals[j][1] and intervals[j][0] < b}
        for i, (a, b) in enumerate(intervals)
    ]


def load(allocations: list[Allocation], intervals: list[tuple[int, int]]) -> int:
    """The most bytes that are in use at one moment."""
    moments = {a for a, _ in intervals}
    pairs = list(zip(allocations, intervals, strict=True))
    return max(sum(r.size for r, (a, b) in pairs if a <= t < b) for t in moments)


def check(allocations: list[Allocation], conflicts: list[set[int]]) -> int:
    """Every allocation is where it may be; the bytes in all."""
    offsets = assign_offsets(allocations, conflicts)
    assert len(offsets) == len(allocations) and min(offsets) >= 0
    for i, allocation in enumerate(allocations):
        assert offsets[i] % allocation.alignment == 0
        for j in conflicts[i]:
            assert (
                offsets[i] + allocation.size <= offsets[j]
                or offsets[j] + allocations[j].size <= offsets[i]
            )
    return total_bytes(allocations, offsets)


def random_allocations(seed: int) -> tuple[list[Allocation], list[tuple[int, int]]]:
    """Some allocations of 16 to 4096 bytes and when they are in use."""
    chance = random.Random(seed)
    allocations, intervals = [], []
    length = chance.choice((2, 5, 12, 40))
    for _ in range(chance.randrange(1, 24)):
        allocations.append(Allocation(16 * chance.randrange(1, chance.choice((4, 64, 256)))))
        start = chance.randrange(20)
        intervals.append((start, start + 1 + chance.randrange(length)))
    return allocations, intervals


@for_each("seed", range(300))
def test_intervals_take_at_most_twice_what_is_in_use_at_once(seed: int) -> None:
    allocations, intervals = random_allocations(seed)
    size, least = check(allocations, conflicts_of(intervals)), load(allocations, intervals)
    assert least <= size <= 2 * least
    if len(allocations) <= 4:
        assert size == exact(allocations, conflicts_of(intervals))


def test_most_intervals_take_little_more_than_what_is_in_use_at_once() -> None:
    most, total = 0.0, 0.0
    for seed in range(300):
        allocations, intervals = random_allocations(seed)
        share = check(allocations, conflicts_of(intervals)) / load(allocations, intervals)
        most, total = max(most, share), total + share
    assert most < 1.35
    assert total / 300 < 1.03


def exact(allocations: list[Allocation], conflicts: list[set[int]]) -> int:
    """The least bytes: some order of first fits finds them, that of the offsets of a solution."""
    best = sum(r.size + r.alignment for r in allocations)
    for order in permutations(range(len(allocations))):
        placed: dict[int, int] = {}
        for i in order:
            ranges = [
                (placed[j], placed[j] + allocations[j].size) for j in conflicts[i] if j in placed
            ]
            placed[i] = first_fit(allocations[i], ranges)
        best = min(best, total_bytes(allocations, [placed[i] for i in range(len(allocations))]))
    return best


@for_each("seed", range(100))
def test_a_chain_takes_what_two_neighbours_take(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(2, 40)
    allocations = [Allocation(16 * chance.randrange(1, 99)) for _ in range(count)]
    intervals = [(i, i + 2) for i in range(count)]
    assert check(allocations, conflicts_of(intervals)) == load(allocations, intervals)


@for_each("seed", range(200))
def test_any_graph_of_allocations_with_alignments(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 14)
    allocations = [
        Allocation(16 * chance.randrange(1, 20), chance.choice((16, 16, 128, 1024)))
        for _ in range(count)
    ]
    conflicts: list[set[int]] = [set() for _ in allocations]
    for i in range(count):
        for j in range(i):
            if chance.random() < 0.3:
                conflicts[i].add(j)
                conflicts[j].add(i)
    size = check(allocations, conflicts)
    assert size <= sum(r.size + r.alignment for r in allocations)
    if count <= 5:
        assert size == exact(allocations, conflicts)


def test_a_gap_is_used_if_it_is_large_enough() -> None:
    assert first_fit(Allocation(8, 8), [(0, 16), (20, 32)]) == 32
    assert first_fit(Allocation(8, 4), [(0, 16), (24, 32)]) == 16
    assert first_fit(Allocation(8, 8), [(4, 12)]) == 16
    assert first_fit(Allocation(4, 8), [(4, 12)]) == 0
    assert first_fit(Allocation(8), []) == 0
    assert assign_offsets([], []) == []


def test_no_allocations_take_nothing_and_an_allocation_begins_anywhere() -> None:
    assert assign_offsets([], []) == [] and total_bytes([], []) == 0
    assert (
        Allocation(8).above(1) == 1
        and Allocation(8, 16).above(1) == Allocation(8, 16).above(16) == 16
    )


def test_the_first_gap_that_is_wide_enough() -> None:
    used = [(4, 8), (16, 20), (0, 2)]
    assert first_fit(Allocation(2), used) == 2
    assert first_fit(Allocation(3), used) == 8
    assert first_fit(Allocation(8), used) == 8
    assert first_fit(Allocation(9), used) == 20
    assert first_fit(Allocation(2, 4), used) == 8
    assert first_fit(Allocation(5), [(5, 9)]) == 0
