"""Which two accesses of a byte by two threads are a race: of each kind, near and far, with each
barrier between them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.simt.shadow import RaceError, ShadowMemory

KINDS = ("read", "write", "change", "read_atomically", "add")
READS = {"read", "read_atomically"}
THREADS = {"thread": 5, "warp": 6, "group": 40, "block": 200}
"""The second thread: the same as the first, of its warp, of its warpgroup, of another."""
BARRIERS = {"none": 0, "warp": 1, "group": 2, "block": 3}
"""What each orders: threads up to that distance."""
DISTANCE = {"thread": 0, "warp": 1, "group": 2, "block": 3}


def access(shadow: ShadowMemory, kind: str, thread: int, run: int) -> None:
    at, threads = np.array([3]), np.array([thread])
    if kind in ("change", "read_atomically"):
        getattr(shadow, kind)(at, threads, run)
    else:
        getattr(shadow, kind)(at, threads)


def wait(shadow: ShadowMemory, barrier: str) -> None:
    if barrier == "warp":
        shadow.clock.synchronize_warps()
    elif barrier == "group":
        shadow.clock.synchronize_groups()
    elif barrier == "block":
        shadow.clock.synchronize()


PAIRS = [p for p in product(KINDS, KINDS) if not {"change", "add"} <= set(p)]
"""Changes are of global memory, additions of shared memory."""


@for_each(("first", "second"), PAIRS)
def test_two_accesses(first: str, second: str) -> None:
    """Reads are in no conflict, nor are additions. Additions are of any thread."""
    for where, barrier in product(THREADS, BARRIERS):
        if "add" in (first, second) and (where == "thread" or barrier not in ("none", "block")):
            continue
        harmless = {first, second} <= READS or first == second == "add"
        races = not harmless and DISTANCE[where] > BARRIERS[barrier]
        shadow = ShadowMemory(16, "memory")
        access(shadow, first, 5, 1)
        wait(shadow, barrier)
        try:
            access(shadow, second, THREADS[where], 2)
        except RaceError:
            assert races, (where, barrier)
        else:
            assert not races, (where, barrier)


@for_each("reader", ["read", "read_atomically"])
@for_each(("others", "barrier", "races"), [
    ((6, 7), "warp", False), ((6, 40), "warp", True), ((40, 70), "group", False),
    ((40, 200), "group", True), ((40, 200), "block", False), ((6,), "none", True),
    ((200, 40), "group", True), ((40, 6), "warp", True),
])  # fmt: skip
def test_a_write_after_several_reads(
    reader: str, others: tuple[int, ...], barrier: str, races: bool
) -> None:
    """Of the writer and of others, one after the other."""
    shadow = ShadowMemory(16, "memory")
    for thread in (5, *others):
        access(shadow, reader, thread, 1)
    wait(shadow, barrier)
    if races:
        with pytest.raises(RaceError):
            access(shadow, "write", 5, 2)
    else:
        access(shadow, "write", 5, 2)


def test_changes_of_one_op_come_in_any_order() -> None:
    shadow = ShadowMemory(16, "memory")
    for thread in (5, 6, 200):
        access(shadow, "change", thread, 1)
    access(shadow, "read_atomically", 7, 1)
    with pytest.raises(RaceError):
        access(shadow, "change", 8, 2)
