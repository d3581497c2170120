"""The SIMT simulator: what it reports as a defect, and what it counts."""

import numpy as np
import pytest

from tileir import textual
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.counts import Counts, OpCounters
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.simt.shadow import RaceError
from tileir.errors import LaunchError, TileirError

THREADS = 64
EVERY = np.ones(THREADS, bool)
OWN = np.arange(THREADS) * 4
NEXT = (OWN + 4) % (THREADS * 4)


@pytest.fixture
def memory():
    return SimtMemory(THREADS * 4)


def write(memory, at=OWN, mask=EVERY):
    memory.store_shared(at, np.arange(THREADS, dtype=np.int32), mask)


def read(memory, at=OWN, mask=EVERY):
    return memory.load_shared(at, np.dtype(np.int32), mask)


def test_own_bytes_need_no_barrier(memory):
    write(memory)
    assert (read(memory) == np.arange(THREADS)).all()
    write(memory)


def test_a_barrier_orders(memory):
    write(memory)
    memory.synchronize()
    assert (read(memory, NEXT) == (np.arange(THREADS) + 1) % THREADS).all()
    memory.synchronize()
    write(memory)


RACE = """tir 1.0

define kernel void @k(f32* %o) {
entry:
  %z = splat f32*<8> %o
  %r = make_range i32<8>
  %f = sitofp f32<8> %r
  store %z, %f
  ret
}
"""


def test_a_race_is_an_error_at_a_place():
    with pytest.raises(TileirError) as caught:
        SimtExecutor().launch(textual.parse(RACE, "k.tir"), None, 1, [np.zeros(8, np.float32)])
    assert isinstance(caught.value, RaceError)
    (diagnostics,) = caught.value.diagnostics
    assert (diagnostics.code, diagnostics.location.line) == ("TIR0721", 8)


def test_read_after_write(memory):
    write(memory)
    with pytest.raises(RaceError, match="thread 0 reads byte 4 of shared memory, which thread 1"):
        read(memory, NEXT)


def test_write_after_read(memory):
    write(memory)
    memory.synchronize()
    read(memory, NEXT)
    with pytest.raises(RaceError, match="thread 0 writes byte 0 of shared memory, which thread 63"):
        write(memory)


def test_writing_the_same_twice_is_a_race(memory):
    write(memory)
    same = np.roll(np.arange(THREADS, dtype=np.int32), -1)
    with pytest.raises(RaceError, match="which thread 1 wrote"):
        memory.store_shared(NEXT, same, EVERY)


def test_several_readers_are_remembered(memory):
    write(memory)
    memory.synchronize()
    read(memory, np.zeros(THREADS, np.int64))
    with pytest.raises(RaceError, match="several threads read"):
        write(memory, mask=np.arange(THREADS) == 0)


def test_two_values_at_once(memory):
    with pytest.raises(RaceError, match="at the same time, not the same"):
        write(memory, np.zeros(THREADS, np.int64))


def test_bytes_that_were_never_written(memory):
    with pytest.raises(AssertionError, match=r"thread 0 reads byte 0 of .* no thread wrote"):
        read(memory)


def test_outside(memory):
    with pytest.raises(AssertionError, match=r"thread 63 accesses bytes 256 to 259 .* has 256"):
        write(memory, OWN + 4)
    data = np.zeros(4, np.int32)
    base = memory.place(data)
    with pytest.raises(AssertionError, match="thread 4 accesses 4 bytes outside"):
        memory.load(base + OWN, np.dtype(np.int32), EVERY)


def test_global_memory_needs_barriers_too(memory):
    base = memory.place(np.zeros(THREADS, np.int32))
    memory.store(base + OWN, np.arange(THREADS, dtype=np.int32), EVERY)
    with pytest.raises(RaceError, match="of argument 0, which thread 1 wrote"):
        memory.load(base + NEXT, np.dtype(np.int32), EVERY)
    memory.synchronize()
    memory.load(base + NEXT, np.dtype(np.int32), EVERY)


def test_transactions_of_a_stride():
    for stride, sectors, lines in ((4, 4, 1), (8, 8, 2), (128, 32, 32)):
        tally = OpCounters()
        tally.touch_global(np.arange(32) * stride, 4, np.ones(32, bool))
        assert (tally.accesses, tally.sectors, tally.ideal) == (1, sectors, 4)
        assert tally.lines == lines


def test_conflicts_of_a_stride():
    for stride, conflicts in ((4, 0), (8, 1), (128, 31), (132, 0)):
        tally = OpCounters()
        tally.touch_shared(np.arange(32) * stride, 4, np.ones(32, bool))
        assert tally.conflicts == conflicts
        assert tally.wavefronts == conflicts + 1


ADD = """tir 1.0

define kernel void @add(f32* aligned(16) %x) {
entry:
  %i = make_range i32<512>
  %n = program_id i32
  %first = mul i32 %n, 512
  %row = getelementptr f32* %x, %first
  %xs = splat f32*<512> %row
  %p = getelementptr f32*<512> %xs, %i
  %v = load f32<512> %p
  %s = reduce f32 %v {combiner = fadd}
  %t = splat f32<512> %s
  store %p, %t
  ret
}
"""


def test_counts_by_op():
    counts = Counts()
    x = np.ones(1024, np.float32)
    SimtExecutor().launch(textual.parse(ADD), None, 2, [x], counts=counts, num_warps=4)
    by_name = {op.mnemonic: tally for op, tally in counts.by_op.items()}
    assert (x == 512).all()
    assert by_name["load"].sectors == by_name["load"].ideal == 2 * 512 * 4 // 32
    assert by_name["load"].lines == 2 * 512 * 4 // 128
    assert by_name["reduce"].barriers == 2
    assert by_name["reduce"].shuffles == 2 * (5 + 2)
    assert by_name["reduce"].conflicts == 0
    assert by_name["reduce"].instructions["fadd"] > 5


def test_an_access_outside_of_arrays_names_op_and_line():
    with pytest.raises(LaunchError, match=r":11:\d+: error\[TIR0501\]: load: thread \d+ accesses"):
        SimtExecutor().launch(textual.parse(ADD), None, 1, [np.ones(256, np.float32)])


def test_additions_need_no_order_but_what_reads_them_does(memory):
    write(memory)
    memory.synchronize()
    same = np.zeros(THREADS, np.int64)
    memory.add_shared(same, np.ones(THREADS, np.int32), EVERY)
    memory.add_shared(same, np.ones(THREADS, np.int32), EVERY)
    with pytest.raises(RaceError, match="which an addition wrote"):
        read(memory, same)
    memory.synchronize()
    assert (read(memory, same) == 2 * THREADS).all()


def test_a_release_comes_after_what_others_did(memory):
    base = memory.place(np.zeros(THREADS, np.int32))
    memory.store(base + OWN, np.arange(THREADS, dtype=np.int32), EVERY)
    first = np.arange(THREADS) == 0
    memory.check_released("acq_rel", first)
    memory.begin(1)
    memory.check_released("relaxed", first)
    with pytest.raises(RaceError, match="thread 0 releases before thread 1"):
        memory.check_released("acq_rel", first)
    memory.synchronize()
    memory.check_released("acq_rel", first)


def test_lanes_of_one_store_may_write_the_same(memory):
    """Even with several registers; those of another store may not."""
    base = memory.place(np.zeros(THREADS, np.int32))
    same = np.full(THREADS, 7, np.int32)
    memory.begin(1)
    memory.store(base + OWN, same, EVERY)
    memory.store(base + NEXT, same, EVERY)
    with pytest.raises(RaceError, match="which thread 0 wrote"):
        memory.store(base + OWN * 0 + 4, same + 1, np.arange(THREADS) == 5)
    memory.synchronize()
    memory.store(base + OWN, same, EVERY)
    memory.begin(2)
    with pytest.raises(RaceError, match="which thread 1 wrote"):
        memory.store(base + NEXT, same, EVERY)


def test_a_barrier_of_warps_orders_lanes_alone(memory):
    write(memory)
    memory.synchronize_warps()
    inside = OWN % 128 < 124
    assert (read(memory, NEXT, inside)[inside] == (np.arange(THREADS) + 1)[inside]).all()
    with pytest.raises(
        RaceError, match="thread 31 reads byte 128 of shared memory, which thread 32"
    ):
        read(memory, NEXT)


@pytest.mark.parametrize("warp", range(1, THREADS // 32))
def test_readers_of_any_warp_that_has_synchronized(memory, warp):
    write(memory)
    memory.synchronize()
    lane = np.arange(THREADS)
    read(memory, OWN * 0, lane // 32 == warp)
    with pytest.raises(RaceError, match="which several threads read"):
        write(memory, OWN * 0, lane == 32 * warp + 5)
    memory.synchronize_warps()
    with pytest.raises(RaceError, match="which several threads read"):
        write(memory, OWN * 0, lane == 5)
    write(memory, OWN * 0, lane == 32 * warp + 5)


def test_readers_of_a_warp_that_has_synchronized(memory):
    write(memory)
    memory.synchronize()
    lane = np.arange(THREADS)
    read(memory, np.zeros(THREADS, np.int64), lane < 32)
    with pytest.raises(RaceError, match="which several threads read"):
        write(memory, mask=lane == 0)
    memory.synchronize_warps()
    write(memory, mask=lane == 0)
    read(memory, OWN * 0 + 4, lane < 2)
    memory.synchronize_warps()
    read(memory, OWN * 0 + 4, lane == 0)
    with pytest.raises(RaceError, match=r"thread 33 writes byte 4 .* which thread 0 read"):
        memory.store_shared(OWN * 0 + 4, np.zeros(THREADS, np.int32), lane == 33)


def test_readers_of_two_warps(memory):
    write(memory)
    memory.synchronize()
    lane = np.arange(THREADS)
    read(memory, mask=lane == 0)
    memory.synchronize_warps()
    read(memory, OWN * 0, lane == 32)
    memory.synchronize_warps()
    with pytest.raises(RaceError, match="which several threads read"):
        write(memory, mask=lane == 0)


def test_atomics_of_one_op_need_no_order_but_those_of_two_do(memory):
    base = memory.place(np.zeros(THREADS, np.int32))
    kind, first = np.dtype(np.int32), np.arange(THREADS) == 0
    memory.load(base + OWN * 0, kind, EVERY, atomic=True, to_change=True)
    memory.store(base + OWN * 0, np.ones(THREADS, np.int32), EVERY, atomic=True)
    memory.begin(1)
    with pytest.raises(RaceError, match=r"thread 0 changes byte 0 .* several threads changed"):
        memory.load(base + OWN, kind, first, atomic=True, to_change=True)
    with pytest.raises(RaceError, match=r"thread 0 reads byte 0 .* several threads changed"):
        memory.load(base + OWN, kind, first, atomic=True)
    with pytest.raises(RaceError, match=r"thread 0 reads byte 0 .* several threads changed"):
        memory.load(base + OWN, kind, first)
    memory.synchronize()
    memory.load(base + OWN, kind, first, atomic=True)


def test_reads_need_no_order_whether_they_are_atomic_or_not(memory):
    base, kind = memory.place(np.zeros(THREADS, np.int32)), np.dtype(np.int32)
    first, second = (np.arange(THREADS) == t for t in (0, 40))
    for number, atomic in enumerate((False, True, True, False)):
        memory.begin(number)
        memory.load(base + OWN * 0, kind, EVERY, atomic=atomic)
    memory.begin(4)
    with pytest.raises(RaceError, match=r"thread 0 writes byte 0 .* several threads read"):
        memory.store(base + OWN * 0, np.ones(THREADS, np.int32), first)
    with pytest.raises(RaceError, match=r"thread 40 changes byte 0 .* several threads read"):
        memory.store(base + OWN * 0, np.ones(THREADS, np.int32), second, atomic=True)


def test_an_atomic_read_comes_after_a_write(memory):
    base, kind = memory.place(np.zeros(THREADS, np.int32)), np.dtype(np.int32)
    first, second = (np.arange(THREADS) == t for t in (0, 40))
    memory.store(base + OWN * 0, np.ones(THREADS, np.int32), first)
    memory.begin(1)
    with pytest.raises(RaceError, match=r"thread 40 reads byte 0 .* thread 0 wrote"):
        memory.load(base + OWN * 0, kind, second, atomic=True)


def test_a_fence_stands_between_barriers(memory):
    base = memory.place(np.zeros(THREADS, np.int32))
    kind = np.dtype(np.int32)
    memory.load(base + OWN, kind, EVERY)
    memory.begin(1)
    with pytest.raises(RaceError, match="a fence before thread 0 has synchronized with the others"):
        memory.fence()
    memory.synchronize()
    memory.fence()
    with pytest.raises(RaceError, match="before all have passed the fence"):
        memory.load(base + OWN, kind, EVERY)
    memory.synchronize()
    memory.load(base + OWN, kind, EVERY)


def test_a_fence_is_after_the_point_where_blocks_synchronized(memory):
    """Blocks of a cluster that have synchronized have waited for all of their threads."""
    base = memory.place(np.zeros(THREADS, np.int32))
    memory.load(base + OWN, np.dtype(np.int32), EVERY)
    memory.begin(1)
    memory.synchronized_since(memory.clock.epoch)
    memory.check_released("release", EVERY)
    memory.fence()


def test_every_instance_runs_where_instances_are_interleaved():
    text = """tir 1.0
define kernel void @count(i32* %x) {
entry:
  %old = atomic_rmw i32 %x, 1 {op = add, sem = relaxed}
  ret
}
"""
    for instances in (1, 7, 8, 9, 40):
        x = np.zeros(1, np.int32)
        SimtExecutor().launch(textual.parse(text), "count", instances, [x])
        assert x[0] == instances
