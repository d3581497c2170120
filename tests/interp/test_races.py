"""The race detector against the definition, on random logs of accesses."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.interp import races
from tileir.interp.clocks import InstanceClock, Published, SyncMemory
from tileir.interp.memory import Memory, Region
from tileir.interp.races import Race, RaceDetector, Touch
from tileir.op import Op, lookup

from .programs import fails, run

SIZE = 16
Access = tuple[int, Touch, int, list[int]]
"""Instance, touch, element size, elements."""


def op() -> Op:
    entry = lookup("unreachable")
    assert entry is not None
    return entry()


def log_of(choose: random.Random, touches: tuple[Touch, ...], count: int) -> list[Access]:
    accesses: list[Access] = []
    for _ in range(count):
        size = choose.choice((1, 2, 4))
        elements = choose.sample(range(SIZE // size), choose.randint(1, 2))
        accesses.append((choose.randrange(3), choose.choice(touches), size, elements))
    return accesses


def cells(access: Access, offset: int = 0) -> set[int]:
    """The bytes that an access covers, from the first of a region that begins `offset` bytes after
    an address that all sizes divide: elements are counted from the first aligned one."""
    _, _, size, elements = access
    return {-offset % size + e * size + b for e in elements for b in range(size)}


def conflicts(a: Access, b: Access, offset: int = 0) -> bool:
    """The definition: two instances, one byte, one writes, not both atomic."""
    atomic = (Touch.ATOMIC_READ, Touch.ATOMIC_WRITE)
    writes = (Touch.WRITE, Touch.ATOMIC_WRITE)
    return (
        a[0] != b[0]
        and bool(cells(a, offset) & cells(b, offset))
        and (a[1] in writes or b[1] in writes)
        and not (a[1] in atomic and b[1] in atomic)
    )


def region(offset: int = 0) -> Region:
    return Memory().add("x", np.zeros(SIZE + 8, np.uint8), offset)


def detect(accesses: list[Access], every: int, offset: int = 0) -> list[Race]:
    """What the detector finds, checking after each `every` accesses."""
    results: list[Race] = []
    detector, here = RaceDetector(results.append), region(offset)
    for number, (instance, touch, size, elements) in enumerate(accesses, 1):
        entry = detector.entry(op(), instance)
        detector.log(here, np.array(elements), size, entry, touch)
        if number % every == 0:
            detector.check()
    detector.check()
    return results


def test_accesses_of_an_op_share_an_entry_within_an_epoch_of_an_instance() -> None:
    """The next ones in a loop do; those of another instance or epoch have one of their own."""
    detector, store, other = RaceDetector(lambda race: None), op(), op()
    numbers = [(2, 1), (2, 1), (1, 2), (1, 2), (1, 1), (2, 1)]
    entries = [detector.entry(store, *number) for number in numbers]
    assert entries == [0, 0, 1, 1, 2, 3]
    for entry, number in zip(entries, numbers, strict=True):
        logged = detector.entries[entry]
        assert (logged.op, logged.instance, logged.epoch) == (store, *number)
    assert detector.entry(other, 2, 1) == 4
    assert detector.entry(store, 2, 1) == 3


def test_accesses_of_two_epochs_are_distinguished() -> None:
    """Of one op in a loop, what comes after the release is not what comes before it."""
    results: list[Race] = []
    detector, here, store = RaceDetector(results.append), region(), op()
    for epoch in (0, 1):
        entry = detector.entry(store, 0, epoch)
        assert detector.entry(store, 0, epoch) == entry
        detector.log(here, np.array([epoch]), 4, entry, Touch.WRITE)
        detector.check(np.zeros(2, np.int32))
    seen_first_epoch = np.zeros(2, np.int32)
    for cell, count in ((0, 0), (1, 1)):
        detector.log(here, np.array([cell]), 4, detector.entry(op(), 1), Touch.READ)
        detector.check(seen_first_epoch)
        assert len(results) == count


def test_reads_of_what_is_never_written_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "BATCH", 2)
    results: list[Race] = []
    detector, here = RaceDetector(results.append), region()
    for _ in range(9):
        detector.log(here, np.array([0]), 4, detector.entry(op(), 0), Touch.READ)
    detector.check()
    assert not detector.reads
    detector.log(here, np.array([0]), 4, detector.entry(op(), 1), Touch.WRITE)
    detector.check()
    assert len(results) == 1


@for_each("seed", range(300))
def test_without_synchronisation_the_detector_decides(seed: int) -> None:
    choose = random.Random(seed)
    accesses = log_of(choose, (Touch.READ, Touch.READ, Touch.READ, Touch.WRITE), 6)
    expected = any(conflicts(a, b) for a, b in combinations(accesses, 2))
    for every in (1, 2, 100):
        diagnostics = detect(accesses, every)
        assert bool(diagnostics) == expected
        for race in diagnostics:
            pair = {race.first.instance, race.second.instance}
            touched = [a for a in accesses if a[0] in pair and race.offset in cells(a)]
            assert any(conflicts(a, b) for a, b in combinations(touched, 2))


@for_each("writes", (Touch.WRITE, Touch.ATOMIC_WRITE))
@for_each("seed", range(100))
def test_a_write_conflicts_with_every_reader(seed: int, writes: Touch) -> None:
    """Whoever reads last, the writer itself, too."""
    choose = random.Random(seed)
    accesses = log_of(choose, (Touch.READ,), 5)
    accesses.insert(choose.randint(0, 5), log_of(choose, (writes,), 1)[0])
    expected = any(conflicts(a, b) for a, b in combinations(accesses, 2))
    for every in (1, 2, 100):
        assert bool(detect(accesses, every)) == expected


@for_each("readers", product(range(3), repeat=4))
def test_a_write_conflicts_with_readers_in_any_order(readers: tuple[int, ...]) -> None:
    """Of one element, by any instance."""
    reads: list[Access] = [(reader, Touch.READ, 1, [3]) for reader in readers]
    for writer in range(3):
        accesses: list[Access] = [*reads, (writer, Touch.WRITE, 1, [3])]
        for every in (1, 2, len(accesses)):
            assert bool(detect(accesses, every)) == ({*readers} != {writer})


@for_each(("count", "every"), product((1023, 1024, 1025, 2049, 5000), (700, 1024, 10000)))
def test_races_with_any_of_many_instances_are_found(count: int, every: int) -> None:
    """Each of `count` instances, in an epoch of its own, writes one element; the last one then
    writes some of those of others."""
    results: list[Race] = []
    detector, here = RaceDetector(results.append), Memory().add("x", np.zeros(count, np.uint8))
    for number in range(count):
        detector.log(here, np.array([number]), 1, detector.entry(op(), number, number), Touch.WRITE)
        if number % every == 0:
            detector.check()
    detector.check()
    assert not results
    last, others = count - 1, [0, 1, 1000, count - 2, count - 1]
    for other in others:
        entry = detector.entry(op(), last, last)
        detector.log(here, np.array([other]), 1, entry, Touch.WRITE)
        detector.check()
    pairs = [(r.offset, r.first.instance, r.first.epoch, r.second.instance) for r in results]
    assert pairs == [(other, other, other, last) for other in others[:-1]]


@pytest.mark.parametrize("offset", range(1, 8))
@for_each("seed", range(40))
def test_regions_may_begin_between_two_elements(seed: int, offset: int) -> None:
    """Where an array begins at an address that its elements do not divide, granules of another size
    begin elsewhere."""
    choose = random.Random(seed)
    accesses = log_of(choose, tuple(Touch), 5)
    expected = any(conflicts(a, b, offset) for a, b in combinations(accesses, 2))
    for every in (1, 2, 100):
        diagnostics = detect(accesses, every, offset)
        assert bool(diagnostics) == expected
        for race in diagnostics:
            touched = [a for a in accesses if race.offset in cells(a, offset)]
            assert any(conflicts(a, b, offset) for a, b in combinations(touched, 2))


@for_each("first", Touch)
@for_each("second", Touch)
@for_each("sizes", [(1, 1), (1, 4), (4, 1)])
def test_every_pair_of_accesses_is_decided(
    first: Touch, second: Touch, sizes: tuple[int, int]
) -> None:
    """One access by each of two instances, in one batch or in two; and by one instance."""
    for one, other in ((0, 1), (0, 0)):
        accesses: list[Access] = [(one, first, sizes[0], [0]), (other, second, sizes[1], [0])]
        for every in (1, 2):
            diagnostics = detect(accesses, every)
            assert bool(diagnostics) == conflicts(*accesses)
            assert all({r.first_touch, r.second_touch} == {first, second} for r in diagnostics)


@for_each("sizes", [(4, 1), (4, 2), (2, 1)])
@for_each("first", Touch)
@for_each("offset", [0, 3])
def test_smaller_granules_keep_every_access(
    sizes: tuple[int, int], first: Touch, offset: int
) -> None:
    """What was accessed in large elements, by one instance or by two of which one reads, and is
    then accessed in smaller ones, by one of the two or by a third."""
    large, small = sizes
    cell = SIZE // 2
    for middle, last, instance in product((None, Touch.READ), Touch, range(3)):
        # Shadow memory exists in large granules since something else was written.
        accesses: list[Access] = [(3, Touch.WRITE, large, [0]), (0, first, large, [cell // large])]
        accesses += [] if middle is None else [(1, middle, large, [cell // large])]
        accesses.append((instance, last, small, [cell // small]))
        expected = any(conflicts(a, b, offset) for a, b in combinations(accesses, 2))
        for every in (1, len(accesses) - 1):
            assert bool(detect(accesses, every, offset)) == expected


def test_a_release_orders_what_came_before_it_and_nothing_else() -> None:
    results: list[Race] = []
    detector, here, sync = RaceDetector(results.append), region(), SyncMemory()
    one, two = InstanceClock.of(0, 2), InstanceClock.of(1, 2)

    def touch(clock: InstanceClock, element: int, how: Touch) -> None:
        entry = detector.entry(op(), clock.instance, clock.epoch)
        detector.log(here, np.array([element]), 1, entry, how)
        detector.check(clock.now)

    touch(one, 0, Touch.WRITE)
    sync.write(one, [99], release=True, rmw=False)
    touch(one, 1, Touch.WRITE)
    sync.read(two, [99], acquire=True)
    touch(two, 0, Touch.READ)
    touch(two, 0, Touch.WRITE)
    assert not results
    touch(two, 1, Touch.READ)
    assert [(r.first.instance, r.second.instance, r.offset) for r in results] == [(0, 1, 1)]


@pytest.mark.parametrize("middle", ["rmw", "store"])
def test_a_release_sequence_goes_through_updates_and_ends_at_stores(middle: str) -> None:
    sync = SyncMemory()
    clocks = [InstanceClock.of(n, 3) for n in range(3)]
    sync.write(clocks[0], [8], release=True, rmw=False)
    sync.write(clocks[1], [8], release=False, rmw=middle == "rmw")
    sync.read(clocks[2], [8], acquire=True)
    assert (clocks[2].now[0] == 1) == (middle == "rmw")


def test_a_relaxed_read_orders_only_after_an_acquire_fence() -> None:
    sync = SyncMemory()
    one, two = InstanceClock.of(0, 2), InstanceClock.of(1, 2)
    one.fence(acquire=False, release=True)
    sync.write(one, [8], release=False, rmw=False)
    sync.read(two, [8], acquire=False)
    assert two.now[0] == 0
    two.fence(acquire=True, release=False)
    assert two.now[0] == 1


def test_a_fence_orders_after_every_relaxed_read_before_it() -> None:
    sync = SyncMemory()
    clocks = [InstanceClock.of(number, 3) for number in range(3)]
    for number, clock in enumerate(clocks[:2]):
        sync.write(clock, [8 * number], release=True, rmw=False)
        sync.read(clocks[2], [8 * number], acquire=False)
    clocks[2].fence(acquire=True, release=False)
    assert clocks[2].now.tolist() == [1, 1, 1]


PASSED_ON = """
define kernel void @k(i32* %x, i32* %flag) {
entry:
  %me = program_id i32 {axis = 0}
  %first, _ = icmp (i1, i1) %me, 0 {predicate = eq}
  cond_br %first, put, wait
put:
  store %x, 7
  atomic_store %flag, 1 {sem = release, scope = SCOPE}
  ret
wait:
  %f = atomic_load i32 %flag {sem = acquire, scope = SCOPE}
  %set, _ = icmp (i1, i1) %f, 1 {predicate = eq}
  cond_br %set, take, wait
take:
  %v = load i32 %x
  ret
}
"""


@pytest.mark.parametrize("scope", ["cta", "gpu"])
def test_a_release_to_a_block_orders_nothing_for_others(scope: str) -> None:
    x, flag = (np.zeros(1, np.int32) for _ in range(2))
    body = PASSED_ON.replace("SCOPE", scope)
    if scope == "gpu":
        run(body, 2, x, flag)
        return
    fails("TIR0517", "", body, 2, x, flag)


EACH_STORES = """
define kernel void @k(i32* %x) {
entry:
  %me = program_id i32 {axis = 0}
  %p = getelementptr i32* %x, PLACE
  store %p, %me
  ret
}
"""


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_what_is_ordered_is_so_in_batches_of_any_size(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is full is checked with what the instance knows then, if it knows anything."""
    monkeypatch.setattr(races, "BATCH", batch)
    for place, races_there in (("%me", False), ("i32 0", True)):
        body = EACH_STORES.replace("PLACE", place)
        if races_there:
            fails("TIR0517", "store", body, 4, np.zeros(4, np.int32))
        else:
            run(body, 4, np.zeros(4, np.int32))
    for scope in ("cta", "gpu"):
        test_a_release_to_a_block_orders_nothing_for_others(scope)


@for_each("seed", range(50))
def test_published_clocks_join_as_arrays_do(seed: int) -> None:
    choose = np.random.default_rng(seed)
    one, two = (
        choose.integers(1, 9, 20).astype(np.int32) * (choose.random(20) < share)
        for share in choose.choice((0.05, 0.5, 1.0), 2)
    )
    into = choose.integers(0, 9, 20).astype(np.int32)
    expected = np.maximum(np.maximum(one, two), into)
    (Published.of(one) | Published.of(two)).join_into(into)
    assert (into == expected).all()


CASES = {
    "an atomic read after a write": (Touch.WRITE, Touch.ATOMIC_READ, True),
    "a write after an atomic read": (Touch.ATOMIC_READ, Touch.WRITE, True),
    "an atomic write after a write": (Touch.WRITE, Touch.ATOMIC_WRITE, True),
    "a write after an atomic write": (Touch.ATOMIC_WRITE, Touch.WRITE, True),
    "a read after an atomic write": (Touch.ATOMIC_WRITE, Touch.READ, True),
    "an atomic write after a read": (Touch.READ, Touch.ATOMIC_WRITE, True),
    "a read after an atomic read": (Touch.ATOMIC_READ, Touch.READ, False),
    "an atomic read after a read": (Touch.READ, Touch.ATOMIC_READ, False),
    "an atomic write after an atomic read": (Touch.ATOMIC_READ, Touch.ATOMIC_WRITE, False),
    "an atomic read after an atomic write": (Touch.ATOMIC_WRITE, Touch.ATOMIC_READ, False),
    "an atomic write after an atomic write": (Touch.ATOMIC_WRITE, Touch.ATOMIC_WRITE, False),
    "a write after a write": (Touch.WRITE, Touch.WRITE, True),
    "a read after a write": (Touch.WRITE, Touch.READ, True),
    "a write after a read": (Touch.READ, Touch.WRITE, True),
    "a read after a read": (Touch.READ, Touch.READ, False),
}


@for_each("case", CASES)
@for_each(("every", "ordered"), [(1, False), (1, True), (2, False)])
def test_every_pair_of_accesses(case: str, every: int, ordered: bool) -> None:
    """Two instances touch one element one after the other: checked after each, with a clock that
    knows the first one or does not, or both in one batch, which nothing orders."""
    first, second, race = CASES[case]
    results: list[Race] = []
    detector, here = RaceDetector(results.append), region()
    clock = np.array([1 if ordered else 0, 1], np.int32)
    for number, touch in enumerate((first, second)):
        entry = detector.entry(op(), number, 1)
        detector.log(here, np.array([2]), 1, entry, touch)
        if every == 1:
            detector.check(clock if number else np.array([1, 0], np.int32))
    detector.check()
    expected = [(first, second)] if race and not ordered else []
    assert [(r.first_touch, r.second_touch) for r in results[:1]] == expected


BLOCKS = """
define kernel void @k(i32* %x) {
entry:
  %o = ACCESS
  ret
}
"""


@pytest.mark.parametrize(
    "access", ["atomic_rmw i32 %x, 1 {op = add, sem = SEM, scope = SCOPE}",
               "atomic_cas i32 %x, 0, 1 {sem = SEM, scope = SCOPE}"],
)  # fmt: skip
@pytest.mark.parametrize("sem", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
def test_atomics_of_the_scope_of_a_block_race(access: str, sem: str, scope: str) -> None:
    body = BLOCKS.replace("ACCESS", access).replace("SEM", sem).replace("SCOPE", scope)
    if scope == "cta":
        fails("TIR0517", "atomic_", body, 2, np.zeros(1, np.int32))
    else:
        x = np.zeros(1, np.int32)
        run(body, 2, x)
        assert x[0] >= 1
    run(body, 1, np.zeros(1, np.int32))


ENDLESS = """
define kernel void @k(i32* %x, i32* %y) {
entry:
  %me = program_id i32 {axis = 0}
  store %x, %me
  %i = make_range i32<65536>
  %ys = splat i32*<65536> %y
  %p = getelementptr i32*<65536> %ys, %i
  %first, _ = icmp (i1, i1) %me, 0 {predicate = eq}
  cond_br %first, out, loop
loop:
  %v = load i32<65536> %p
  br loop
out:
  ret
}
"""


def test_a_race_is_told_while_a_kernel_goes_on() -> None:
    x, y = np.zeros(1, np.int32), np.zeros(65536, np.int32)
    fails("TIR0517", "store %x, %me", ENDLESS, 2, x, y, limit=1000)


@for_each("seed", range(200))
def test_races_are_what_releases_and_acquires_leave_unordered(seed: int) -> None:
    """Against happens-before as it is defined: program order, a release before an acquire that
    reads what it wrote, and what follows from both. What is reported is a race; and an access that
    races with the last write, or a write that races with the last read, is reported."""
    choose = random.Random(seed)
    results: list[Race] = []
    detector, here, sync = RaceDetector(results.append), region(), SyncMemory()
    clocks = [InstanceClock.of(n, 3) for n in range(3)]
    before: list[set[int]] = [set(), set(), set()]  # events that happened before, by instance
    released: dict[int, set[int]] = {}
    events: list[Access] = []
    for number in range(30):
        instance = choose.randrange(3)
        mine, clock, flag = before[instance], clocks[instance], choose.randrange(2)
        match choose.randrange(4):
            case 0:
                release = choose.random() < 0.7
                sync.write(clock, [100 + flag], release=release, rmw=False)
                released[flag] = set(mine) if release else set()
            case 1:
                sync.read(clock, [100 + flag], acquire=True)
                mine |= released.get(flag, set())
            case _:
                how = choose.choice((Touch.READ, Touch.WRITE, Touch.WRITE))
                access: Access = (instance, how, 1, [choose.randrange(2)])
                earlier = [
                    n for n, a in enumerate(events) if conflicts(a, access) and n not in mine
                ]
                entry = detector.entry(op(), instance, clock.epoch)
                detector.log(here, np.array(access[3]), 1, entry, how)
                count = len(results)
                detector.check(clock.now)
                assert len(results) == count or earlier, f"no race at {number}"
                same = [n for n, a in enumerate(events) if a[3] == access[3]]
                last = {
                    kind: max((n for n in same if events[n][1] is kind), default=-1)
                    for kind in (Touch.WRITE, Touch.READ)
                }
                assert len(results) > count or not {*last.values()} & {*earlier}, f"missed {number}"
                mine.add(len(events))
                events.append(access)


@for_each("seed", range(100))
def test_fences_and_accesses_order_as_their_definitions_say(seed: int) -> None:
    """Every event of another instance is before the next one exactly if a chain of releases and
    acquires leads there. A release is a write, or a fence before a relaxed write; an acquire is a
    read, or a fence after a relaxed read. A fence may be both: then it passes on what it
    acquires."""
    choose, sync = random.Random(seed), SyncMemory()
    clocks = [InstanceClock.of(n, 3) for n in range(3)]
    before, seen, fenced = ([set[int]() for _ in clocks] for _ in range(3))
    published: dict[int, set[int]] = {}
    events: list[tuple[int, int]] = []  # the instance, and its epoch
    for _ in range(200):
        me = choose.randrange(3)
        clock, flag, orders = clocks[me], choose.randrange(2), choose.random() < 0.3
        match choose.choice(("event", "write", "update", "read", "fence")):
            case "event":
                before[me].add(len(events))
                events.append((me, clock.epoch))
            case "read":
                sync.read(clock, [flag], acquire=orders)
                (before if orders else seen)[me] |= published.get(flag, set())
            case "fence":
                acquire, release = choose.choice(((True, False), (False, True), (True, True)))
                clock.fence(acquire=acquire, release=release)
                before[me] |= seen[me] if acquire else set()
                fenced[me] = set(before[me]) if release else fenced[me]
            case kind:
                sync.write(clock, [flag], release=orders, rmw=kind == "update")
                kept = published.get(flag, set()) if kind == "update" else set()
                published[flag] = kept | (before[me] if orders else fenced[me])
        for number, (instance, epoch) in enumerate(events):
            if instance != me:
                assert (int(clock.now[instance]) >= epoch) == (number in before[me])


TWO_INSTANCES = """
define kernel void @k(i32* %x) {{
entry:
  %me = program_id i32
  %first, _ = icmp (i1, i1) %me, 0 {{predicate = eq}}
  cond_br %first, one, other
one:
  {}
  br done
other:
  {}
  br done
done:
  ret
}}
"""
SINGLE = {
    "load": "LEFT = load i32 %x",
    "store": "store %x, 1",
    "volatile load": "LEFT = load i32 %x {volatile = true}",
    "volatile store": "store %x, 1 {volatile = true}",
    "atomic load": "LEFT = atomic_load i32 %x {sem = relaxed}",
    "atomic store": "atomic_store %x, 1 {sem = relaxed}",
    "update": "LEFT = atomic_rmw i32 %x, 1 {op = add, sem = relaxed}",
}
"""Accesses of one element. Volatile ones are atomic (docs/explanation/memory-model.md)."""


@for_each(("first", "second"), product(SINGLE, repeat=2))
def test_volatile_accesses_race_with_plain_ones_alone(first: str, second: str) -> None:
    lines = [SINGLE[n].replace("LEFT", f"%v{i}") for i, n in enumerate((first, second))]
    body, x = TWO_INSTANCES.format(*lines), np.zeros(1, np.int32)
    writes = any("store" in name or name == "update" for name in (first, second))
    if writes and {first, second} & {"load", "store"}:
        fails("TIR0517", "", body, 2, x)
    else:
        run(body, 2, x)
