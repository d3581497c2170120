"""Who holds what, against the layout at every thread and register."""

from __future__ import annotations

from tests.backend.shared_memory.test_thread_conflicts import LAYOUTS, REPEATED
from tests.sizes import for_each
from tileir.backend.shared_memory.element_owners import LANES, element_owners
from tileir.layout import Layout, Repeat, layout

TANGLED = (
    (layout(1, register=((33,),), lane=((1,), (2,), (4,), (8,), (16,)), warp=((32,),)), (64,)),
    (layout(1, register=((3,), (64,)), lane=((1,), (2,), (4,), (8,), (16,)), warp=((32,),)),
     (128,)),
    (layout(2, lane=((0, 1), (0, 2), (0, 4)), repeats=(Repeat("lane", 4, 0), Repeat("warp", 3, 1),
                                                       Repeat("warp", 2, 0))), (8, 24)),
    (layout(2, lane=((1, 0), (0, 1), (1, 1), (2, 0), (0, 2)),
            repeats=(Repeat("warp", 3, None), Repeat("register", 3, 1), Repeat("warp", 2, 0))),
     (7, 11)),
    (layout(1, lane=((1,), (2,), (4,), (8,), (16,)), warp=((0,), (32,), (96,))), (128,)),
    (layout(1, lane=((1,), (1,), (4,), (2,), (6,))), (8,)),
)  # fmt: skip
"""Registers, lanes and warps that hold the same in part, and several repetitions of one axis."""

CASES = [*LAYOUTS[1], *LAYOUTS[2], *((it, shape) for it, shape, _ in REPEATED), *TANGLED]


def owners_of(it: Layout, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """Every element and thread that holds it, once for every register."""
    owners: list[tuple[tuple[int, ...], int]] = []
    for thread in range(LANES * it.size("warp")):
        for register in range(it.size("register")):
            at = it.coordinate(register, thread % 32, thread // 32)
            if all(c < n for c, n in zip(at, shape, strict=True)):
                owners.append((at, thread))
    return owners


@for_each(("it", "shape"), CASES)
def test_every_thread_holds_what_the_layout_says(it: Layout, shape: tuple[int, ...]) -> None:
    at, threads = element_owners(it, shape, first=False)
    assert list(zip(map(tuple, at.tolist()), threads.tolist(), strict=True)) == owners_of(it, shape)


@for_each(("it", "shape"), CASES)
def test_the_first_is_one_of_them(it: Layout, shape: tuple[int, ...]) -> None:
    at, threads = element_owners(it, shape, first=True)
    seen = set(zip(map(tuple, at.tolist()), threads.tolist(), strict=True))
    every = owners_of(it, shape)
    assert seen == {(c, min(t for other, t in every if other == c)) for c, _ in every}
