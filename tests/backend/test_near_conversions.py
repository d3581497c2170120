"""Passages through shared memory in which every warp keeps to itself: they wait for no other."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.backend.test_layout_conversion import machine, numbered_tile, numbers
from tileir.backend.codegen.emit.conversion import convert
from tileir.backend.shared_memory.conversion_plan import (
    conversion,
    register_permutation,
    within_warps,
)
from tileir.backend.shared_memory.conversion_staging import ConversionStaging
from tileir.layout import Layout, layout
from tileir.types import F16, F64, I8, I32, Element, Tile

WARPS = 2
"""Bits of the warp's number."""


def random_layouts(seed: int, larger: int = 0) -> tuple[Element, tuple[int, int], Layout, Layout]:
    """Two layouts of one tile, with 2^`larger` times as many elements; warps of both hold the same
    or not."""
    chance = random.Random(seed)
    rows = chance.randrange(3, 6)
    widths = rows, chance.randrange(10, 12) - rows + larger
    units = [(1 << i, 0) for i in range(widths[0])] + [(0, 1 << i) for i in range(widths[1])]
    chance.shuffle(units)
    warps, rest = units[:WARPS], units[WARPS:]
    others = list(rest)
    chance.shuffle(others)
    for i in range(1, len(others)):
        if chance.random() < 0.4:
            others[i] = xor_pair(others[i], others[i - 1])
    theirs = [xor_pair(w, rest[0]) if chance.random() < 0.3 else w for w in warps]
    if chance.random() < 0.3:
        others[0], theirs[0] = theirs[0], others[0]
    elif chance.random() < 0.2:
        theirs.reverse()
    elif chance.random() < 0.2:
        others[0] = xor_pair(others[0], theirs[0])
    element = chance.choice((I8, F16, I32, F64))
    shape = (1 << widths[0], 1 << widths[1])
    return element, shape, layout_of_bits(rest, warps), layout_of_bits(others, theirs)


def xor_pair(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] ^ b[0], a[1] ^ b[1]


def layout_of_bits(threads: list[tuple[int, int]], warps: list[tuple[int, int]]) -> Layout:
    split = len(threads) - 5
    return layout(
        2, register=tuple(threads[:split]), lane=tuple(threads[split:]), warp=tuple(warps)
    )


def of_warps(it: Layout, shape: tuple[int, int]) -> list[set[int]]:
    """Elements that each warp holds."""
    by_warp: list[set[int]] = [set() for _ in range(1 << WARPS)]
    for values in numbers(it, shape):
        for thread, value in enumerate(values.tolist()):
            by_warp[thread // 32].add(value)
    return by_warp


@cache
def staged_conversions() -> dict[int, tuple[Element, tuple[int, int], Layout, Layout]]:
    """Conversions through shared memory, by the seeds they were drawn with."""
    cases = {seed: random_layouts(seed) for seed in range(240)}
    return {
        seed: case
        for seed, case in cases.items()
        if isinstance(conversion(Tile(case[0], case[1], case[2]), case[3]), ConversionStaging)
    }


@cache
def near() -> list[int]:
    """Seeds of those between threads of one warp."""
    return [
        s for s, c in staged_conversions().items() if within_warps(Tile(c[0], c[1], c[2]), c[3])
    ]


@pytest.mark.slow
def test_it_is_told_by_what_warps_hold() -> None:
    for seed, (element, shape, source, target) in staged_conversions().items():
        same = of_warps(source, shape) == of_warps(target, shape)
        few = conversion(Tile(element, shape, source), target).iterations == 1  # type: ignore[union-attr]
        assert (seed in near()) is (same and few)
    assert 10 < len(near()) < len(staged_conversions()) - 10


def test_what_is_staged_in_several_passes_waits_for_all_warps() -> None:
    """Each pass writes over what others may still read."""
    same = 0
    for seed in range(60):
        element, shape, source, target = random_layouts(seed, larger=4)
        tile = Tile(element, shape, source)
        plan = conversion(tile, target)
        if isinstance(plan, ConversionStaging) and plan.iterations > 1:
            assert not within_warps(tile, target)
            same += of_warps(source, shape) == of_warps(target, shape)
    assert same >= 2


def test_registers_of_padding_are_taken_from_anywhere() -> None:
    lanes = tuple((1 << i,) for i in range(5))
    few, more = layout(1, lane=lanes), layout(1, register=((32,),), lane=lanes)
    assert conversion(Tile(I32, (32,), few), more) == (0, 0)
    assert register_permutation(few, more, (33,)) is None


@pytest.mark.slow
def test_warps_wait_for_no_other_thread_repeatedly() -> None:
    for seed in near():
        wait_for_no_other_thread(*staged_conversions()[seed])


def wait_for_no_other_thread(
    element: Element, shape: tuple[int, int], source: Layout, target: Layout
) -> None:
    lowering, op = machine(shape, source, element, target)
    thread = lowering.thread
    for _ in range(3):
        thread.warp_barrier()
        fragment = list(numbered_tile(thread, source, shape, element))
        converted = convert(lowering, op, fragment, op.source.type, target)
        for mine, expected in zip(
            converted, numbered_tile(thread, target, shape, element), strict=True
        ):
            assert mine.array.tobytes() == expected.array.tobytes()
    assert thread.barriers == 0


def test_tiles_of_one_warp_that_are_padded_wait_for_all() -> None:
    it = layout(2, lane=((1, 0), (2, 0), (4, 0), (0, 1), (0, 2)), warp=((0, 4), (8, 0)))
    other = layout(2, lane=((1, 0), (2, 0), (0, 2), (0, 1), (5, 0)), warp=((0, 4), (8, 0)))
    assert not within_warps(Tile(I32, (13, 7), it), other)
