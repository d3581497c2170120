"""Program instances: the grid, races, atomics, their order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sizes import for_each

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


@for_each(("grid", "count"), [(5, 5), ((3, 4), 12), ((2, 3, 4), 24), ((7,), 7)])
@for_each("seed", [0, 1])
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
    orders = set()
    for seed in range(4):
        x, total, order = np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(16, np.int32)
        run(HISTOGRAM, 16, x, total, order, seed=seed)
        same_seed = np.zeros(16, np.int32)
        run(HISTOGRAM, 16, np.zeros(3, np.int32), np.zeros(1, np.int32), same_seed, seed=seed)
        assert same_seed.tolist() == order.tolist()
        orders.add(tuple(order.tolist()))
    assert len(orders) > 1


RMW = """
define kernel void @k(TYPE* %x, TYPE* %old, TYPE %v) {
entry:
  %o = atomic_rmw TYPE %x, %v {op = KIND}
  store %old, %o
  ret
}
"""


@for_each(("kind", "type_", "start", "value", "end"), [
        ("and", "i32", 12, 10, 8), ("or", "i32", 12, 10, 14), ("xor", "i32", 12, 10, 6),
        ("add", "i64", 1, -3, -2), ("smax", "i32", -1, 1, 1), ("smin", "i32", -1, 1, -1),
        ("umax", "i32", -1, 1, -1), ("umin", "i32", -1, 1, 1), ("xchg", "i32", 4, 5, 5),
        ("inc", "i32", 4, 5, 5), ("inc", "i32", 5, 5, 0), ("dec", "i32", 0, 5, 5),
        ("dec", "i32", 9, 5, 5), ("dec", "i32", 3, 5, 2), ("fadd", "f32", 1.5, 2.0, 3.5),
        ("fmax", "f32", -1.0, 2.0, 2.0), ("fmin", "f64", -1.0, 2.0, -1.0),
    ])  # fmt: skip
def test_every_kind_of_update(
    kind: str, type_: str, start: float, value: float, end: float
) -> None:
    dtype = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}[type_]
    x, old = np.array([start], dtype), np.zeros(1, dtype)
    run(RMW.replace("TYPE", type_).replace("KIND", kind), 1, x, old, value)
    assert (x[0], old[0]) == (end, start)
