"""Program instances: races, atomics, locks, barriers, deadlock, order."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import InterpretError

from .programs import fails, run

GRID = """
define kernel void @k(i32* %x) {
entry:
  %a = program_id i32 {axis = 0}
  %b = program_id i32 {axis = 1}
  %c = program_id i32 {axis = 2}
  %m = num_programs i32 {axis = 0}
  %n = num_programs i32 {axis = 1}
  %cn = mul i32 %c, %n
  %bc = add i32 %cn, %b
  %bm = mul i32 %bc, %m
  %i = add i32 %bm, %a
  %p = getelementptr i32* %x, %i
  store %p, %i
  ret
}
"""


@pytest.mark.parametrize(("grid", "count"), [(5, 5), ((3, 4), 12), ((2, 3, 4), 24), ((7,), 7)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_grid(grid: object, count: int, seed: int) -> None:
    x = np.full(count, -1, np.int32)
    report = run(GRID, grid, x, seed=seed)
    assert x.tolist() == list(range(count))
    assert report.instances == count
    assert report.ops["program_id"] == 3 * count


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), -1])
def test_grids_that_are_none(grid: object) -> None:
    with pytest.raises(Exception, match="grid"):
        run(GRID, grid, np.zeros(1, np.int32))


def test_an_empty_grid_runs_nothing() -> None:
    x = np.zeros(1, np.int32)
    assert run(GRID, (0, 3), x).ops == {}


# Races -------------------------------------------------------------------------------------

SAME = """
define kernel void @k(i32* %x) {
entry:
  %i = program_id i32 {axis = 0}
  store %x, %i
  ret
}
"""

NEIGHBOUR = """
define kernel void @k(i32* %x, i32* %y) {
entry:
  %i = program_id i32 {axis = 0}
  %j = add i32 %i, 1
  %p = getelementptr i32* %x, %i
  %q = getelementptr i32* %READ, %j
  %v = load i32 %q
  store %p, %v
  ret
}
"""


def test_two_writers_race() -> None:
    message = fails("TIR0517", "store", SAME, 3, np.zeros(1, np.int32))
    assert "program (2, 0, 0) writes" in message
    assert "program (0, 0, 0)" in message
    run(SAME, 1, np.zeros(1, np.int32))


def test_writers_of_the_same_value_race() -> None:
    fails(
        "TIR0517",
        "store",
        SAME.replace("store %x, %i", "store %x, i32 7"),
        2,
        np.zeros(1, np.int32),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_and_a_writer_race(seed: int) -> None:
    x, y = np.zeros(9, np.int32), np.zeros(9, np.int32)
    message = fails("TIR0517", "%", NEIGHBOUR.replace("%READ", "%x"), 8, x, y, seed=seed)
    assert "load" in message and "store" in message
    run(NEIGHBOUR.replace("%READ", "%y"), 8, x, y, seed=seed)


def test_readers_do_not_race() -> None:
    body = NEIGHBOUR.replace("%READ, %j", "%y, i32 0")
    run(body, 8, np.zeros(8, np.int32), np.zeros(1, np.int32))


def test_races_can_be_reported() -> None:
    report = run(SAME, 3, np.zeros(1, np.int32), allow_races=True)
    assert {(r.first.instance, r.second.instance) for r in report.races} <= {(0, 1), (1, 2), (0, 2)}
    assert report.races and report.races[0].region == "x"
    assert report.races[0].second.op.mnemonic == "store"


BYTES = """
define kernel void @k(i32* %x) {
entry:
  %i = program_id i32 {axis = 0}
  %b = bitcast i8* %x
  %p = getelementptr i8* %b, %i
  store %p, i8 1
  WIDE
  ret
}
"""


def test_races_are_seen_at_the_size_of_the_access() -> None:
    x = np.zeros(1, np.int32)
    run(BYTES.replace("WIDE", ""), 4, x)
    assert x[0] == 0x01010101
    fails("TIR0517", "%", BYTES.replace("WIDE", "store %x, i32 0"), 4, x)


# Atomics -----------------------------------------------------------------------------------

HISTOGRAM = """
define kernel void @k(i32* %x, i32* %sum, i32* %order) {
entry:
  %i = program_id i32 {axis = 0}
  %r = make_range i32<8> {start = 0}
  %bin = urem i32<8> %r, 3
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %bin
  %old = atomic_rmw i32<8> %p, 1 {op = add, sem = relaxed}
  %turn = atomic_rmw i32 %sum, 1 {op = add}
  %o = getelementptr i32* %order, %turn
  store %o, %i
  ret
}
"""


@pytest.mark.parametrize("seed", range(5))
def test_atomic_sums(seed: int) -> None:
    x, total, order = np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(16, np.int32)
    report = run(HISTOGRAM, 16, x, total, order, seed=seed)
    assert x.tolist() == [48, 48, 32]
    assert sorted(order.tolist()) == list(range(16))
    assert report.accesses.atomics == 32


def test_the_seed_chooses_the_order() -> None:
    found = set()
    for seed in range(4):
        x, total, order = np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(16, np.int32)
        run(HISTOGRAM, 16, x, total, order, seed=seed)
        again = np.zeros(16, np.int32)
        run(HISTOGRAM, 16, np.zeros(3, np.int32), np.zeros(1, np.int32), again, seed=seed)
        assert again.tolist() == order.tolist()
        found.add(tuple(order.tolist()))
    assert len(found) > 1


RMW = """
define kernel void @k(TYPE* %x, TYPE* %old, TYPE %v) {
entry:
  %o = atomic_rmw TYPE %x, %v {op = KIND}
  store %old, %o
  ret
}
"""


@pytest.mark.parametrize(
    ("kind", "type_", "start", "value", "end"),
    [
        ("and", "i32", 12, 10, 8), ("or", "i32", 12, 10, 14), ("xor", "i32", 12, 10, 6),
        ("add", "i64", 1, -3, -2), ("smax", "i32", -1, 1, 1), ("smin", "i32", -1, 1, -1),
        ("umax", "i32", -1, 1, -1), ("umin", "i32", -1, 1, 1), ("xchg", "i32", 4, 5, 5),
        ("inc", "i32", 4, 5, 5), ("inc", "i32", 5, 5, 0), ("dec", "i32", 0, 5, 5),
        ("dec", "i32", 9, 5, 5), ("dec", "i32", 3, 5, 2), ("fadd", "f32", 1.5, 2.0, 3.5),
        ("fmax", "f32", -1.0, 2.0, 2.0), ("fmin", "f64", -1.0, 2.0, -1.0),
    ],
)  # fmt: skip
def test_every_kind_of_update(
    kind: str, type_: str, start: float, value: float, end: float
) -> None:
    dtype = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}[type_]
    x, old = np.array([start], dtype), np.zeros(1, dtype)
    run(RMW.replace("TYPE", type_).replace("KIND", kind), 1, x, old, value)
    assert (x[0], old[0]) == (end, start)


# Locks and barriers ------------------------------------------------------------------------

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


# Seed 003, section 3.3.2: a reduction over program instances as a tree, with a barrier made of a
# lock and a counter between its levels.
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


@pytest.mark.parametrize("grid", [1, 2, 7, 16])
@pytest.mark.parametrize("seed", range(5))
def test_a_tree_reduction_over_instances(grid: int, seed: int) -> None:
    arrays = tree_arrays(grid)
    run(tree(), grid, *arrays, seed=seed)
    assert arrays[3].tolist() == [sum(range(grid))] * grid


def test_a_tree_reduction_whose_barrier_orders_nothing() -> None:
    fails("TIR0517", "%", tree(order="relaxed"), 7, *tree_arrays(7))


def test_who_is_counted_before_the_lock_is_released_is_seen_too_early() -> None:
    """The count can be read before the instance that raised it releases the lock; an acquire of
    the lock then misses that instance's writes, under some schedules."""
    early = tree(count="store %count, %n1 {volatile = true}")
    early = early.replace("atomic_load i32 %count {sem = acquire}", "atomic_load i32 %lock")
    found = 0
    for seed in range(8):
        try:
            run(early, 16, *tree_arrays(16), seed=seed)
        except InterpretError as error:
            assert error.code == "TIR0517"
            found += 1
    assert found
