"""What is results of accesses since the last barrier: copied, joined, and ended by barriers."""

from __future__ import annotations

import random
from itertools import combinations, product
from typing import Any

import attrs

from tests.sizes import for_each
from tileir.backend.shared_memory.hazards import (
    HazardState,
    PendingAccess,
    _may_alias,
    _overlap,
    acquires,
    releases,
)
from tileir.backend.shared_memory.thread_conflicts import AccessingThreads, GlobalAccess, SyncScope
from tileir.op import lookup
from tileir.textual import parse
from tileir.types import F32, pointer
from tileir.values import Value

BASES = [Value(pointer(F32), name) for name in "xyz"]
OPS: list[Any] = [lookup("unreachable")() for _ in range(4)]  # type: ignore[misc]
"""Ops by identity; what they do does not matter."""


def accesses() -> list[PendingAccess]:
    return [
        PendingAccess(
            GlobalAccess(base, frozenset({base}), base.type, None, writes, threads), ended
        )
        for base in BASES
        for writes in (False, True)
        for threads in (AccessingThreads.FIRST, AccessingThreads.EVERY)
        for ended in (False, True)
    ]


ENTRIES = accesses()


def state(choose: random.Random) -> HazardState:
    """A few facts of some kinds."""
    result = HazardState()
    if choose.random() < 0.5:
        result.shared = {(n, n + 4, choose.choice(OPS)) for n in choose.sample(range(9), 2)}
    if choose.random() < 0.5:
        result.near = set(choose.sample(OPS, 2))
    if choose.random() < 0.5:
        result.acquired = set(choose.sample(OPS, 2))
    result.fenced = choose.random() < 0.5
    if choose.random() < 0.7:
        for entry in choose.sample(ENTRIES, 3):
            result.touched.setdefault(entry.access.base, set()).add(entry)
    return result


def facts(of: HazardState) -> set[Any]:
    """All that a state knows, one by one."""
    results: set[Any] = {("shared", *x) for x in of.shared}
    results |= {("near", x) for x in of.near} | {("acquired", x) for x in of.acquired}
    results |= {("fenced",)} if of.fenced else set()
    return results | {("touched", base, x) for base, each in of.touched.items() for x in each}


@for_each("seed", range(200))
def test_paths_are_joined_and_copies_are_separate(seed: int) -> None:
    choose = random.Random(seed)
    one, other = state(choose), state(choose)
    if choose.random() < 0.3:
        other = one.copy()
    if choose.random() < 0.3:
        other.join(one)
        one = other.copy() if choose.random() < 0.5 else one
    first, second = facts(one), facts(other)
    copied = one.copy()
    assert facts(copied) == first
    assert copied.join(other) is not second.issubset(first)
    assert facts(copied) == first | second
    assert facts(one) == first and facts(other) == second
    joined = copied.copy()
    assert not joined.join(one) and not joined.join(other)


@for_each("scope", SyncScope)
@for_each("seed", range(40))
def test_barriers_end_what_they_wait_for(seed: int, scope: SyncScope) -> None:
    """One of the warps ends what lanes read of their own warp, and notes that warps are in step."""
    since = state(random.Random(seed))
    copied, before = since.copy(), facts(since)
    copied.wait(scope)
    if scope is SyncScope.NONE:
        expected = before
    elif scope is SyncScope.BLOCK:
        expected = set()
    else:
        expected = {
            (*f[:2], attrs.evolve(f[2], warp_synchronized=True)) if f[0] == "touched" else f
            for f in before
            if f[0] != "near"
        }
    assert facts(copied) == expected
    assert facts(since) == before


@for_each("seed", range(60))
def test_accesses_of_thread_0_alone_may_be_left_out(seed: int) -> None:
    since = state(random.Random(seed))
    every = [e.access for entries in since.touched.values() for e in entries]
    by_others = [a for a in every if a.threads is not AccessingThreads.FIRST]
    assert since.has_global_access(but_by_thread_0=False) == bool(every)
    assert since.has_global_access(but_by_thread_0=True) == bool(by_others)


def test_bytes_of_others_are_waited_for_where_they_overlap() -> None:
    """Those of one buffer come with their barriers, unless the op itself is the owner."""
    op, first, second, _ = OPS
    for a, b in product(combinations(range(5), 2), repeat=2):
        overlapping = bool(set(range(*a)) & set(range(*b)))
        assert _overlap(op, (*a, first), (*b, second)) == overlapping
        assert not _overlap(op, (*a, first), (*b, first))
        assert _overlap(op, (*a, op), (*b, op)) == overlapping
        assert _overlap(op, (*a, op), (*b, first)) == overlapping


def test_pointers_of_which_one_may_be_any_may_be_equal() -> None:
    x, y, z = BASES
    roots = [None, frozenset({x}), frozenset({y}), frozenset({x, y}), frozenset({z})]
    for a, b in product(roots, repeat=2):
        assert _may_alias(a, b) == (a is None or b is None or bool(a & b))


ATOMICS = {
    "%r = atomic_rmw i32 %p, 1 {op = add, sem = SEM}": ("relaxed", "acquire", "release", "acq_rel"),
    "%r = atomic_cas i32 %p, 0, 1 {sem = SEM}": ("relaxed", "acquire", "release", "acq_rel"),
    "%r = atomic_load i32 %p {sem = SEM}": ("relaxed", "acquire"),
    "atomic_store %p, 1 {sem = SEM}": ("relaxed", "release"),
    "fence {sem = SEM}": ("acquire", "release", "acq_rel"),
}
OTHERS = {
    "%r = atomic_rmw i32 %p, 1 {op = add}": (True, True),
    "%r = atomic_load i32 %p": (True, True),
    "atomic_store %p, 1": (True, False),
    "%r = load i32 %p": (False, False),
    "store %p, 1": (False, False),
    "barrier": (False, False),
    "%r = add i32 1, 1": (False, False),
}
"""Without an order, and whether each releases and acquires."""


def test_which_ops_order_accesses_of_others() -> None:
    """Accesses before every one that is not relaxed come first, and after one that acquires."""
    lines = {text.replace("SEM", sem): sem for text, each in ATOMICS.items() for sem in each}
    expected = {
        line: (sem != "relaxed", sem in ("acquire", "acq_rel")) for line, sem in lines.items()
    }
    for line, (is_release, is_acquire) in {**expected, **OTHERS}.items():
        head = "tir 1.0\ndefine kernel void @k(i32* %p) {\nentry:\n  "
        op = parse(f"{head}{line}\n  ret\n}}\n").kernel().blocks["entry"].ops[0]
        assert (releases(op), acquires(op)) == (is_release, is_acquire), line
