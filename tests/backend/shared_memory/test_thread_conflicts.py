"""Who must wait between two accesses, against every byte of every thread."""

from __future__ import annotations

import random

import attrs
import pytest

from tests.sizes import few_or_all, for_each
from tileir.analysis.affine_mod32 import AffineMod32
from tileir.backend.shared_memory.thread_conflicts import (
    AccessingThreads,
    GlobalAccess,
    SyncScope,
    joint_length,
    only_thread_zero,
    required_sync,
    spans_disjoint,
)
from tileir.layout import Layout, Repeat, layout
from tileir.types import F16, F32, F64, I8, I32, Element, Pointer, Type, pointer, tile
from tileir.values import Value

BASE = Value(pointer(F32), "x")
NUMBER = Value(I32, "n")

LAYOUTS: dict[int, tuple[tuple[Layout, tuple[int, ...]], ...]] = {
    1: (
        (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), warp=((32,),)), (64,)),
        (layout(1, register=((1,),), lane=((2,), (4,), (8,), (16,), (32,)), warp=((64,),)), (128,)),
        (layout(1, lane=((1,), (2,), (4,), (0,), (0,)), warp=((8,),)), (16,)),
        (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), warp=((0,),)), (32,)),
        (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), warp=((0,),)), (20,)),
        (layout(1, register=((32,),), lane=((1,), (2,), (4,), (8,), (16,)), warp=((0,),)), (50,)),
        (layout(1, lane=((1,), (3,), (4,), (8,), (16,)), warp=((32,),)), (64,)),
    ),
    2: (
        (layout(2, lane=((0, 1), (0, 2), (0, 4), (1, 0), (2, 0)), warp=((4, 0),)), (8, 8)),
        (layout(2, lane=((1, 0), (2, 0), (4, 0), (0, 1), (0, 2)), warp=((0, 4),)), (8, 8)),
        (layout(2, lane=((0, 1), (0, 2), (0, 0), (1, 0), (2, 0)), warp=((4, 0),)), (8, 4)),
        (layout(2, register=((0, 1),), lane=((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)),
                warp=((0, 0),)), (8, 8)),
    ),
}  # fmt: skip
"""Layouts of two warps by rank, each with a shape."""

REPEATED = (
    (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), repeats=(Repeat("warp", 3, 0),)), (96,), 3),
    (
        layout(1, lane=((1,), (2,), (4,), (8,), (16,)), repeats=(Repeat("register", 3, 0),)),
        (90,),
        1,
    ),
    (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), repeats=(Repeat("warp", 3, None),)), (32,), 3),
    (layout(1, lane=((1,), (2,), (4,)), repeats=(Repeat("lane", 4, None),)), (8,), 1),
)
"""Layouts that no powers of two cover, each with a shape and its warps."""


def access(
    kind: Type, form: AffineMod32 | None, threads: AccessingThreads, writes: bool = True
) -> GlobalAccess:
    return GlobalAccess(BASE, frozenset({BASE}), kind, form, writes, threads)


def affine(start: int, *strides: int) -> AffineMod32:
    return AffineMod32(frozenset({(BASE, 1)}), start, strides)


def elements(a: GlobalAccess, warps: int) -> dict[tuple[int, ...], set[int]]:
    """The threads that access each element."""
    kind, threads_by_element = a.type, dict[tuple[int, ...], set[int]]()
    if isinstance(kind, Pointer):
        return {(): set(range(1 if a.threads is AccessingThreads.FIRST else warps * 32))}
    it: Layout = kind.layout  # type: ignore[attr-defined]
    for thread in range(32 * warps):
        for register in range(it.size("register")):
            at = it.coordinate(register, thread % 32, thread // 32)
            if all(c < n for c, n in zip(at, kind.shape, strict=True)):  # type: ignore[attr-defined]
                threads_by_element.setdefault(at, set()).add(thread)
    return (
        {at: {min(entries)} for at, entries in threads_by_element.items()}
        if a.threads is AccessingThreads.FIRST
        else threads_by_element
    )


def accessing_threads(a: GlobalAccess, warps: int) -> dict[int, set[int]]:
    """The threads that access each byte."""
    assert a.form is not None
    threads_by_byte: dict[int, set[int]] = {}
    for at, threads in elements(a, warps).items():
        start = a.form.start + sum(c * s for c, s in zip(at, a.form.strides, strict=True))
        for byte in range(start, start + a.size):
            threads_by_byte.setdefault(byte % (1 << 32), set()).update(threads)
    return threads_by_byte


def conflict_scope(a: GlobalAccess, b: GlobalAccess, warps: int, step: int = 0) -> SyncScope:
    """Who waits, by looking at all bytes of all iterations that can conflict."""
    scope, first, second = SyncScope.NONE, accessing_threads(a, warps), accessing_threads(b, warps)
    for iterations in range(1, 40) if step else (0,):
        for byte, threads in first.items():
            others = second.get((byte - iterations * step) % (1 << 32), set())
            pairs = {(s, t) for s in threads for t in others}
            if any(s // 32 != t // 32 for s, t in pairs):
                return SyncScope.BLOCK
            if any(s != t for s, t in pairs):
                scope = SyncScope.WARP
    return scope


ELEMENTS: tuple[Element, ...] = (I8, F16, F32, F64)


def random_accesses(seed: int) -> tuple[GlobalAccess, GlobalAccess]:
    """Two accesses whose bytes are near each other."""
    chance = random.Random(seed)
    rank = chance.choice((1, 1, 2))
    accesses: list[GlobalAccess] = []
    element = chance.choice(ELEMENTS)
    for _ in range(2):
        it, shape = chance.choice(LAYOUTS[rank])
        if chance.random() < 0.15:
            element = chance.choice(ELEMENTS)
        size = element.bytes
        steps = (size,) if rank == 1 else chance.choice(((shape[1] * size, size), (size, 8 * size)))
        steps = tuple(s * chance.choice((1, 1, 1, 1, 1, -1, 0, 2)) for s in steps)
        start = chance.choice((0, 0, 0, size, 4 * size, 64 * size, 1))
        kind = tile(pointer(element), shape, it)
        accesses.append(
            access(
                kind,
                affine(start, *steps),
                chance.choice((AccessingThreads.EVERY, AccessingThreads.FIRST)),
            )
        )
    return accesses[0], accesses[1]


def test_who_waits_on_tiles_by_every_byte() -> None:
    seen = {SyncScope.NONE: 0, SyncScope.WARP: 0, SyncScope.BLOCK: 0}
    for seed in range(120):
        a, b = random_accesses(seed)
        scope = required_sync(a, b, 2)
        assert scope is conflict_scope(a, b, 2), seed
        seen[scope] += 1
    assert min(seen.values()) >= 5, seen


@for_each("seed", range(60))
def test_elements_that_any_number_shifts_by_every_byte(seed: int) -> None:
    """A start or a stride of one of two accesses is no multiple of the size of an element."""
    choose = random.Random(seed)
    a, b = random_accesses(seed)
    odd, even = (a, b) if choose.random() < 0.5 else (b, a)
    assert odd.form is not None and even.form is not None
    at, steps = odd.form.start, list(odd.form.strides)
    shift = choose.choice((1, 2, 3))
    where = choose.randrange(len(steps) + 1)
    if where:
        steps[where - 1] += shift
    else:
        at += shift
    shifted = attrs.evolve(odd, form=affine(at, *steps))
    first, second = (shifted, even) if odd is a else (even, shifted)
    assert required_sync(first, second, 2) is conflict_scope(first, second, 2)


@pytest.mark.parametrize("count", few_or_all(30, 200))
def test_iterations_of_a_loop_by_every_byte(count: int) -> None:
    """A loop is followed while it may come back, for seven iterations."""
    agreed = 0
    for seed in range(count):
        a, b = random_accesses(seed)
        step = (
            random.Random(-seed).choice((-1, 1))
            * 4
            * random.Random(seed).choice((4, 16, 32, 64, 128))
        )
        result, expected = required_sync(a, b, 2, step), conflict_scope(a, b, 2, step)
        assert result >= expected, seed
        agreed += result is expected
    assert agreed >= count * 3 // 4


@for_each("elements", range(19, 45))
@for_each("layouts", [(0, 0), (0, 2), (3, 0), (3, 3)])
def test_one_of_several_iterations_that_conflicts_decides(
    elements: int, layouts: tuple[int, int]
) -> None:
    """Every other element is accessed: an odd number of elements later or earlier none is."""
    kinds = [tile(pointer(F32), shape, it) for it, shape in (LAYOUTS[1][n] for n in layouts)]
    a, b = (access(kind, affine(0, 8), AccessingThreads.EVERY) for kind in kinds)
    for step in (4 * elements, -4 * elements):
        assert required_sync(a, b, 2, step) is conflict_scope(a, b, 2, step)


@for_each("seed", range(60))
def test_what_two_accesses_reach_together_by_every_byte(seed: int) -> None:
    """From the first byte to the last one; none where addresses may wrap around between them."""
    a, b = random_accesses(seed)
    far = random.Random(seed).choice((0, 0, 500, 1 << 20, 1 << 31, -(1 << 31)))
    assert b.form is not None
    b = attrs.evolve(b, form=attrs.evolve(b.form, start=b.form.start + far))
    places = [
        x.form.start + sum(c * s for c, s in zip(at, x.form.strides, strict=True)) + byte
        for x in (a, b)
        if x.form is not None
        for at in elements(x, 2)
        for byte in range(x.size)
    ]
    length = max(places) - min(places) + 1
    assert joint_length(a, b) == joint_length(b, a) == (length if abs(far) < 1 << 31 else None)


@pytest.mark.parametrize(("it", "shape", "warps"), REPEATED)
@pytest.mark.parametrize("threads", [AccessingThreads.EVERY, AccessingThreads.FIRST])
@pytest.mark.parametrize("start", [0, 4, 128])
def test_layouts_of_any_number_of_repetitions(
    it: Layout, shape: tuple[int, ...], warps: int, threads: AccessingThreads, start: int
) -> None:
    kind = tile(pointer(F32), shape, it)
    a, b = (
        access(kind, affine(0, 4), threads),
        access(kind, affine(start, 4), AccessingThreads.FIRST),
    )
    assert required_sync(a, b, warps) is conflict_scope(a, b, warps)
    assert required_sync(b, a, warps) is conflict_scope(b, a, warps)


@pytest.mark.parametrize("of_elements", [True, False])
def test_bytes_of_elements_that_straddle_others(of_elements: bool) -> None:
    """Each thread has four bytes from 1 on, or from 3 on: the last of them are the next one's."""
    it, shape = LAYOUTS[1][0]
    kind = tile(PLACE, shape, it)
    a, b = (
        access(kind, affine(start, 4), AccessingThreads.FIRST) for start in (1, 3 - 2 * of_elements)
    )
    assert (
        required_sync(a, b, 2)
        is conflict_scope(a, b, 2)
        is (SyncScope.NONE if of_elements else SyncScope.BLOCK)
    )


def test_one_number_overlapping_another() -> None:
    first, second = (access(PLACE, affine(start), AccessingThreads.EVERY) for start in (2, 4))
    assert required_sync(first, second, 1) is SyncScope.WARP
    wide = access(pointer(F64), affine(0), AccessingThreads.EVERY)
    assert required_sync(second, wide, 1) is required_sync(wide, second, 1) is SyncScope.WARP


def test_addresses_overlap_after_wrapping() -> None:
    """The third of 64 elements is 2^31 up, which is as far down."""
    it, shape = LAYOUTS[1][0]
    a = access(tile(PLACE, shape, it), affine((1 << 31) - 8, 4), AccessingThreads.FIRST)
    b = access(PLACE, affine(-(1 << 31)), AccessingThreads.FIRST)
    assert required_sync(a, b, 2) is SyncScope.WARP
    assert required_sync(a, attrs.evolve(b, form=affine(-(1 << 31) + 248)), 2) is SyncScope.NONE


def test_scopes_are_in_order_and_none_is_nothing() -> None:
    assert [(s.name, int(s)) for s in SyncScope] == [("NONE", 0), ("WARP", 1), ("BLOCK", 2)]


def test_two_accesses_are_two() -> None:
    """Pointers are kept by accesses, of which many say the same."""
    assert access(PLACE, None, AccessingThreads.FIRST) != access(
        PLACE, None, AccessingThreads.FIRST
    )


# One number --------------------------------------------------------------------------------------

PLACE = pointer(F32)


@pytest.mark.parametrize(
    ("first", "second", "warps", "expected"),
    [
        (AccessingThreads.FIRST, AccessingThreads.FIRST, 4, SyncScope.NONE),
        (AccessingThreads.FIRST, AccessingThreads.EVERY, 4, SyncScope.BLOCK),
        (AccessingThreads.EVERY, AccessingThreads.FIRST, 1, SyncScope.WARP),
        (AccessingThreads.EVERY, AccessingThreads.FIRST, 2, SyncScope.BLOCK),
        (AccessingThreads.EVERY, AccessingThreads.FIRST, None, SyncScope.WARP),
        (AccessingThreads.ANY, AccessingThreads.FIRST, 1, SyncScope.BLOCK),
        (AccessingThreads.FIRST, AccessingThreads.ANY, 1, SyncScope.BLOCK),
    ],
)
def test_who_waits_on_one_number(
    first: AccessingThreads, second: AccessingThreads, warps: int | None, expected: SyncScope
) -> None:
    a, b = access(PLACE, affine(8), first), access(PLACE, affine(8), second)
    assert required_sync(a, b, warps) is expected


@pytest.mark.parametrize("threads", AccessingThreads)
@pytest.mark.parametrize(("distance", "expected"), [(4, SyncScope.NONE), (3, SyncScope.BLOCK)])
def test_accesses_of_different_bytes_need_no_barrier(
    threads: AccessingThreads, distance: int, expected: SyncScope
) -> None:
    """Even where it is not known which threads make one of them."""
    a, b = access(PLACE, affine(0), threads), access(PLACE, affine(distance), AccessingThreads.ANY)
    assert required_sync(a, b, 2) is required_sync(b, a, 2) is expected


def test_thread_0_alone_makes_accesses_of_one_number_by_the_first() -> None:
    assert only_thread_zero(access(PLACE, None, AccessingThreads.FIRST))
    assert not only_thread_zero(access(PLACE, None, AccessingThreads.EVERY))
    it, shape = LAYOUTS[1][0]
    assert not only_thread_zero(access(tile(PLACE, shape, it), None, AccessingThreads.FIRST))


def test_where_an_address_is_not_known_all_wait() -> None:
    affine_access, unknown = (
        access(PLACE, affine(0), AccessingThreads.FIRST),
        access(PLACE, None, AccessingThreads.FIRST),
    )
    other = access(PLACE, AffineMod32(frozenset({(NUMBER, 1)}), 400), AccessingThreads.FIRST)
    assert required_sync(affine_access, affine_access, 1) is SyncScope.NONE
    for a, b in (
        (affine_access, unknown),
        (unknown, affine_access),
        (affine_access, other),
        (other, affine_access),
    ):
        assert required_sync(a, b, 1) is SyncScope.BLOCK


# Bounds of what is looked at ---------------------------------------------------------------------


@for_each(
    ("distance", "disjoint"),
    [
        (0, False),
        (3, False),
        (4, True),
        (-4, True),
        (-3, False),
        ((1 << 30) - 4, True),
        ((1 << 30) - 3, False),
        (4 - (1 << 30), True),
        (3 - (1 << 30), False),
    ],
)
def test_spans_are_disjoint_below_half_the_address_space(distance: int, disjoint: bool) -> None:
    a, b = (
        access(PLACE, affine(0), AccessingThreads.FIRST),
        access(PLACE, affine(distance), AccessingThreads.FIRST),
    )
    assert spans_disjoint(a, b) is disjoint


@for_each(
    ("moved", "disjoint"),
    [
        ((0, 0), True),
        ((-4, 0), True),
        ((-5, 0), False),
        ((0, 1 << 20), True),
        ((-12, -12), True),
        ((-12, -11), False),
        ((-100, -12), True),
        ((-12, 0), False),
        ((0, 1 << 30), False),
    ],
)
def test_spans_are_disjoint_wherever_one_is_moved(moved: tuple[int, int], disjoint: bool) -> None:
    """Four bytes at 0, and four at 8 moved by something between two numbers."""
    a, b = (
        access(PLACE, affine(0), AccessingThreads.FIRST),
        access(PLACE, affine(8), AccessingThreads.FIRST),
    )
    assert spans_disjoint(a, b, moved) is disjoint


def test_spans_of_tiles_reach_to_their_last_element() -> None:
    it, shape = LAYOUTS[1][0]
    kind = tile(PLACE, shape, it)
    a = access(kind, affine(0, 4), AccessingThreads.FIRST)
    assert spans_disjoint(a, access(kind, affine(256, 4), AccessingThreads.FIRST))
    assert not spans_disjoint(a, access(kind, affine(255, 4), AccessingThreads.FIRST))
    assert spans_disjoint(a, access(kind, affine(-4, -4), AccessingThreads.FIRST))
    assert not spans_disjoint(a, access(kind, affine(-3, -4), AccessingThreads.FIRST))


@pytest.mark.parametrize(("registers", "expected"), [(512, SyncScope.NONE), (513, SyncScope.BLOCK)])
def test_as_many_bytes_are_looked_at_as_can_be(registers: int, expected: SyncScope) -> None:
    """2^17 bytes by 64 threads are looked at one by one, one more element of each is not."""
    lanes = tuple((1 << i,) for i in range(5))
    few = LAYOUTS[1][0]
    it = layout(1, lane=lanes, warp=((32,),), repeats=(Repeat("register", registers, 0),))
    big = access(tile(PLACE, (64 * registers,), it), affine(0, 4), AccessingThreads.FIRST)
    small = access(tile(PLACE, few[1], few[0]), affine(0, 4), AccessingThreads.FIRST)
    assert required_sync(big, small, 2) is expected
    assert required_sync(small, big, 2) is expected


@pytest.mark.parametrize("writes", [True, False])
def test_threads_in_all_count_for_one_number(writes: bool) -> None:
    many = access(PLACE, affine(0), AccessingThreads.EVERY, writes)
    assert (
        required_sync(many, access(PLACE, affine(0), AccessingThreads.FIRST), 1) is SyncScope.WARP
    )


@pytest.mark.parametrize(
    ("span", "step", "expected"),
    [
        (7, 1, SyncScope.NONE),
        (8, 1, SyncScope.BLOCK),
        (7, -1, SyncScope.NONE),
        (8, -1, SyncScope.BLOCK),
        (1, 1, SyncScope.NONE),
    ],
)
def test_seven_iterations_are_looked_back(span: int, step: int, expected: SyncScope) -> None:
    """Every thread has 4 bytes of its own, 64 of these a row, and rows move on by `step`: a
    thread overlaps itself for as long as rows share bytes."""
    lanes = tuple((0, 1 << i) for i in range(5))
    it = layout(2, lane=lanes, warp=((0, 32),), repeats=(Repeat("register", span, 0),))
    a = access(tile(PLACE, (span, 64), it), affine(0, 256, 4), AccessingThreads.FIRST)
    assert required_sync(a, a, 2, 256 * step) is expected


def test_a_loop_that_comes_near_later_is_waited_for() -> None:
    """The second access is ahead: iterations come to it, by another thread."""
    it, shape = LAYOUTS[1][0]
    kind = tile(PLACE, shape, it)
    a = access(kind, affine(0, 4), AccessingThreads.FIRST)
    after, near, far = (
        access(kind, affine(at, 4), AccessingThreads.FIRST) for at in (260, -260, -2600)
    )
    assert required_sync(a, after, 2, 256) is SyncScope.NONE
    assert required_sync(a, near, 2, 256) is SyncScope.BLOCK
    assert required_sync(a, far, 2, 256) is SyncScope.BLOCK
    assert required_sync(a, near, 2, -256) is SyncScope.NONE
    assert required_sync(a, after, 2, 1) is SyncScope.NONE
    assert required_sync(a, near, 2, 1) is SyncScope.BLOCK
    assert required_sync(a, after, 2, -256) is SyncScope.BLOCK
    turned = attrs.evolve(a, form=affine((1 << 31) - 8, 4))
    assert required_sync(a, turned, 2, 256) is SyncScope.BLOCK, (
        "half the address space away is near the other way around"
    )
