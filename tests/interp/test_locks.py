"""Instances that wait for each other: locks, barriers, deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import InterpretError

from .programs import fails, run

LOCK = """
define kernel void @k(i32* %lock, i32* %count, i32* %log) {
entry:
  %me = program_id i32 {axis = 0}
  br spin
spin:
  %old = atomic_cas i32 %lock, 0, 1 {sem = SEM}
  %got, _ = icmp (i1, i1) %old, 0 {predicate = eq}
  cond_br %got, locked, spin
locked:
  %n = load i32 %count
  %slot = getelementptr i32* %log, %n
  store %slot, %me
  %next = add i32 %n, 1
  store %count, %next
  UNLOCK
  ret
}
"""
UNLOCK = "%was = atomic_rmw i32 %lock, 0 {op = xchg, sem = release}"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("unlock", [UNLOCK, "atomic_store %lock, 0 {sem = release}"])
def test_a_lock_orders_what_it_guards(seed: int, unlock: str) -> None:
    lock, count, log = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)
    body = LOCK.replace("UNLOCK", unlock).replace("SEM", "acquire")
    run(body, 8, lock, count, log, seed=seed)
    assert count[0] == 8
    assert sorted(log.tolist()) == list(range(8))


@pytest.mark.parametrize("grid", [(1, 1, 4), (1, 4, 1), (2, 1, 2)])
def test_a_lock_orders_instances_along_every_axis(grid: tuple[int, int, int]) -> None:
    lock, count, log = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(4, np.int32)
    run(LOCK.replace("UNLOCK", UNLOCK).replace("SEM", "acquire"), grid, lock, count, log)
    assert count[0] == 4
    assert sorted(log.tolist()) == sorted([*range(grid[0])] * (4 // grid[0]))


@pytest.mark.parametrize("sem", ["relaxed", "release"])
def test_a_lock_without_acquire_orders_nothing(sem: str) -> None:
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)]
    body = LOCK.replace("UNLOCK", UNLOCK).replace("SEM", sem)
    fails("TIR0517", "%", body, 8, *zeros)


def test_a_lock_without_release_orders_nothing() -> None:
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)]
    unlock = UNLOCK.replace("release", "relaxed")
    body = LOCK.replace("UNLOCK", unlock).replace("SEM", "acquire")
    fails("TIR0517", "%", body, 8, *zeros)


@pytest.mark.parametrize("seed", range(4))
def test_fences_order_relaxed_atomics(seed: int) -> None:
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)]
    body = LOCK.replace(
        "UNLOCK", "fence {sem = release}\n  " + UNLOCK.replace("release", "relaxed")
    )
    body = body.replace("SEM", "relaxed").replace("locked:", "locked:\n  fence {sem = acquire}")
    run(body, 8, *zeros, seed=seed)
    assert zeros[1][0] == 8


def test_a_lock_never_given_back_is_a_deadlock() -> None:
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)]
    body = LOCK.replace("UNLOCK", "").replace("SEM", "acquire")
    message = fails("TIR0518", "atomic_cas", body, 3, *zeros)
    assert "2 program instances wait" in message
    assert message.count("waits before atomic_cas") == 2


BARRIER = """
define kernel void @k(i32* %count, i32* %parts, i32* %out) {
entry:
  %me = program_id i32 {axis = 0}
  %all = num_programs i32 {axis = 0}
  %slot = getelementptr i32* %parts, %me
  %square = mul i32 %me, %me
  store %slot, %square
  %arrived = atomic_rmw i32 %count, 1 {op = add, sem = SEM}
  br wait
wait:
  %n = WATCH
  %done, _ = icmp (i1, i1) %n, GOAL {predicate = sge}
  cond_br %done, go, wait
go:
  FENCE
  %next = add i32 %me, 1
  %other = urem i32 %next, %all
  %p = getelementptr i32* %parts, %other
  %v = load i32 %p
  %o = getelementptr i32* %out, %me
  store %o, %v
  ret
}
"""


def barrier(**words: str) -> str:
    body = BARRIER
    for word, text in {"SEM": "release", "GOAL": "%all", "FENCE": "", **words}.items():
        body = body.replace(word, text)
    return body


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("grid", [1, 5, 100])
def test_a_barrier_between_instances(seed: int, grid: int) -> None:
    count, parts, out = np.zeros(1, np.int32), np.zeros(grid, np.int32), np.zeros(grid, np.int32)
    run(barrier(WATCH="atomic_load i32 %count {sem = acquire}"), grid, count, parts, out, seed=seed)
    assert out.tolist() == [((i + 1) % grid) ** 2 for i in range(grid)]


def test_a_volatile_barrier_needs_a_fence() -> None:
    def zeros() -> list[np.ndarray]:
        return [np.zeros(n, np.int32) for n in (1, 5, 5)]

    watch = "load i32 %count {volatile = true}"
    fails("TIR0517", "load i32 %p", barrier(WATCH=watch), 5, *zeros())
    run(barrier(WATCH=watch, FENCE="fence {sem = acquire}"), 5, *zeros())


def test_a_barrier_that_waits_for_too_many() -> None:
    zeros = [np.zeros(n, np.int32) for n in (1, 70, 70)]
    watch = "atomic_load i32 %count {sem = acquire}"
    message = fails("TIR0518", "atomic_load", barrier(WATCH=watch, GOAL="71"), 70, *zeros)
    assert "70 program instances wait" in message


PATIENT = """
define kernel void @k(i32* %flag, i32* %out) {
entry:
  br wait
wait:
  %i = phi i32 [0, entry], [%j, more]
  %v = atomic_load i32 %flag
  %set, _ = icmp (i1, i1) %v, 1 {predicate = eq}
  cond_br %set, done, more
more:
  %j = add i32 %i, 1
  %on, _ = icmp (i1, i1) %j, 50 {predicate = slt}
  cond_br %on, wait, done
done:
  store %out, %i
  ret
}
"""


def test_a_bounded_wait_is_no_deadlock() -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(PATIENT, 1, flag, out)
    assert out[0] == 49


def test_the_limit_of_ops() -> None:
    body = "define kernel void @k(i32* %x) {\nentry:\n  br loop\nloop:\n  br loop\n}\n"
    fails("TIR0516", "br loop", body, 1, np.zeros(1, np.int32), limit=1000)


NESTED = """
define void @take(i32* %lock) {
entry:
  br spin
spin:
  %old = atomic_cas i32 %lock, 0, 1 {sem = acquire}
  %got, _ = icmp (i1, i1) %old, 0 {predicate = eq}
  cond_br %got, locked, spin
locked:
  ret
}

define kernel void @k(i32* %lock, i32* %count) {
entry:
  call @take, %lock
  %n = load i32 %count
  %next = add i32 %n, 1
  store %count, %next
  atomic_store %lock, 0 {sem = release}
  ret
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_device_functions_may_wait(seed: int) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(NESTED, 9, lock, count, seed=seed)
    assert count[0] == 9


# Pham, "Decoupled Triton" (MSc thesis, 2025), section 3.3.2: a reduction over program instances as
# a tree, with a barrier made of a lock and a counter between its levels.
TREE = """
define void @barrier(i32* %lock, i32* %count, i32 %goal) {
entry:
  br take
take:
  %old = atomic_cas i32 %lock, 0, 1 {sem = acquire}
  %got, _ = icmp (i1, i1) %old, 0 {predicate = eq}
  cond_br %got, arrive, take
arrive:
  %n = load i32 %count {volatile = true}
  %n1 = add i32 %n, 1
  COUNT
  atomic_store %lock, 0 {sem = release}
  br wait
wait:
  %seen = load i32 %count {volatile = true}
  %all, _ = icmp (i1, i1) %seen, %goal {predicate = sge}
  cond_br %all, done, wait
done:
  %last = atomic_load i32 %count {sem = ORDER}
  ret
}

define kernel void @k(i32* %lock, i32* %count, f32* %parts, f32* %out) {
entry:
  %me = program_id i32 {axis = 0}
  %size = num_programs i32 {axis = 0}
  %mine = getelementptr f32* %parts, %me
  %start = sitofp f32 %me
  store %mine, %start
  br level
level:
  %step = phi i32 [1, entry], [%twice, next]
  %goal = phi i32 [%size, entry], [%later, next]
  call @barrier, %lock, %count, %goal
  %more, _ = icmp (i1, i1) %step, %size {predicate = slt}
  cond_br %more, join, end
join:
  %twice = shl i32 %step, 1
  %later = add i32 %goal, %size
  %rest = urem i32 %me, %twice
  %even, _ = icmp (i1, i1) %rest, 0 {predicate = eq}
  %other = add i32 %me, %step
  %inside, _ = icmp (i1, i1) %other, %size {predicate = slt}
  %adds = and i1 %even, %inside
  cond_br %adds, sum, next
sum:
  %theirs = getelementptr f32* %parts, %other
  %a = load f32 %mine
  %b = load f32 %theirs
  %c = fadd f32 %a, %b
  store %mine, %c
  br next
next:
  br level
end:
  %total = load f32 %parts
  %o = getelementptr f32* %out, %me
  store %o, %total
  ret
}
"""


def tree(order: str = "acquire", count: str = "atomic_store %count, %n1 {sem = release}") -> str:
    return TREE.replace("ORDER", order).replace("COUNT", count)


def tree_arrays(grid: int) -> list[np.ndarray]:
    return [np.zeros(n, t) for n, t in ((1, "i4"), (1, "i4"), (grid, "f4"), (grid, "f4"))]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("grid", [1, 2, 7, 16])
@pytest.mark.parametrize("seed", range(5))
def test_a_tree_reduction_over_instances(grid: int, seed: int) -> None:
    arrays = tree_arrays(grid)
    run(tree(), grid, *arrays, seed=seed)
    assert arrays[3].tolist() == [sum(range(grid))] * grid


def test_a_tree_reduction_whose_barrier_orders_nothing() -> None:
    fails("TIR0517", "%", tree(order="relaxed"), 7, *tree_arrays(7))


@pytest.mark.slow
def test_who_is_counted_before_the_lock_is_released_is_seen_too_early() -> None:
    """The count can be read before the instance that raised it releases the lock; an acquire of
    the lock then misses that instance's writes, under some schedules."""
    counted_first = tree(count="store %count, %n1 {volatile = true}")
    counted_first = counted_first.replace(
        "atomic_load i32 %count {sem = acquire}", "atomic_load i32 %lock"
    )
    count = 0
    for seed in range(8):
        try:
            run(counted_first, 16, *tree_arrays(16), seed=seed)
        except InterpretError as error:
            assert error.code == "TIR0517"
            count += 1
    assert count


POLLS = """
define void @poll(i32* %x) {
entry:
  %v = load i32 %x {volatile = true}
  ret
}

define kernel void @k(i32* %x) {
entry:
  call @poll, %x
  call @poll, %x
  call @poll, %x
  call @poll, %x
  call @poll, %x
  ret
}
"""


def test_the_same_call_at_another_place_is_progress() -> None:
    for seed in range(5):
        run(POLLS, 3, np.zeros(1, np.int32), seed=seed)


TIMED = """
define kernel void @k(i32* %x) {
entry:
  %start = clock i64
  br wait
wait:
  %v = load i32 %x {volatile = true}
  %now = clock i64
  %spent = sub i64 %now, %start
  %more, _ = icmp (i1, i1) %spent, 40 {predicate = slt}
  %same = add i32 %v, 1
  %pad = mul i32 %same, 3
  %pad2 = mul i32 %pad, 3
  %pad3 = mul i32 %pad2, 3
  %pad4 = mul i32 %pad2, %pad3
  cond_br %more, wait, done
done:
  ret
}
"""


def test_a_wait_by_the_clock_is_no_deadlock() -> None:
    """Not even where other values have taken the place of the time that was read."""
    run(TIMED, 2, np.zeros(1, np.int32))
