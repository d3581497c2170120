"""The SIMT simulator, instruction by instruction: what it computes, refuses and counts."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import textual
from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.simt.barrier_removal import Barriers, _random_operands, counting
from tileir.backend.simt.counts import Counts, OpCounters
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.simt.shadow import RaceError
from tileir.types import F16, F32, F64, I1, I8, I16, I32, I64

THREADS = 64
EACH = np.arange(THREADS, dtype=np.int32)
"""Of every thread its index."""


def threads(memory=None):
    return SimtThread(THREADS, (0, 0, 0), (1, 1, 1), memory or SimtMemory(1024))


@for_each("source", [F16, F32, F64])
@for_each("result", [I1, I8, I16, I32, I64])
@for_each("name", ["fptosi.sat", "fptoui.sat"])
def test_conversions_that_saturate(name, source, result):
    """Towards zero, NaN to 0, and what is too large to the largest."""
    thread, signed = threads(), name == "fptosi.sat"
    numbers = [0.0, 0.5, 0.99, 1.0, 1.5, 2, -0.5, -1.0, -2, 1e4, -1e4, np.inf, -np.inf, np.nan]
    array = np.resize(np.array(numbers), THREADS).astype(thread.dtype(source))
    least = -(1 << result.bits - 1) if signed else 0
    most = (1 << result.bits - signed) - 1
    results = thread.convert(name, source, result, ThreadValues(array)).array
    for x, y in zip(array.astype(np.float64).tolist(), results.tolist(), strict=True):
        whole = 0 if np.isnan(x) else most if x == np.inf else least if x == -np.inf else int(x)
        expected = min(max(whole, least), most)
        assert int(y) % (1 << result.bits) == expected % (1 << result.bits), x


def test_quotients_are_cut_and_rests_have_the_sign_of_the_dividend():
    thread = threads()
    pairs = np.meshgrid(np.arange(-4, 4), [-4, -3, -2, -1, 1, 2, 3, 5])
    a, b = (x.ravel().astype(np.int32) for x in pairs)
    arrays = [
        thread.binary(name, I32, ThreadValues(a), ThreadValues(b)).array
        for name in ("sdiv", "srem")
    ]
    assert arrays[0].tolist() == [int(x / y) for x, y in zip(a, b, strict=True)]
    assert arrays[1].tolist() == [int(np.fmod(x, y)) for x, y in zip(a, b, strict=True)]


@for_each(("name", "before", "left"), [
        ("uinc_wrap", 0, 1), ("uinc_wrap", 4, 5), ("uinc_wrap", 5, 0), ("uinc_wrap", 6, 0),
        ("uinc_wrap", -1, 0), ("udec_wrap", 0, 5), ("udec_wrap", 1, 0), ("udec_wrap", 5, 4),
        ("udec_wrap", 6, 5), ("udec_wrap", -1, 5),
    ])  # fmt: skip
def test_counters_wrap_after_their_bound(name, before, left):
    """Five and all below it are counted; what is above, without a sign, is none of them."""
    result = threads().atomic_result(
        name, I32, np.array([before], np.int32), np.array([5], np.int32)
    )
    assert result.tolist() == [left]


@pytest.mark.parametrize(("count", "element"), [(1, F16), (2, F16), (4, F16), (1, I8), (2, F32)])
def test_matrices_are_where_their_first_lanes_say(count, element):
    """Eight lanes for each matrix name its rows; what others hold is no address."""
    thread = threads(SimtMemory(1024))
    buffer = np.random.default_rng(0).integers(0, 250, 1024, np.uint8)
    for half, values in enumerate(buffer.view(np.int64).reshape(THREADS, 2).T):
        thread.store_shared(I64, ThreadValues(EACH * 16 + half * 8), [ThreadValues(values.copy())])
    thread.barrier()
    lane = EACH % 32
    row = EACH // 32 * 512 + lane % 8 * 16 + lane // 8 * 128
    at = np.where(lane < 8 * count, row, 100_001).astype(np.int32)
    result = thread.load_matrix(element, count, False, ThreadValues(at), 0)
    words = np.stack([x.array for x in result], axis=1)
    for n in range(THREADS):
        places = [n // 32 * 512 + m * 128 + n % 32 * 4 for m in range(count)]
        expected = np.concatenate([buffer[i : i + 4] for i in places])
        assert np.ascontiguousarray(words[n]).tobytes() == expected.tobytes()


def test_clocks_are_numbers():
    assert (threads().effect("mov.u64 $0, %clock64;", I64, ()).array == 0).all()


def test_a_volatile_access_comes_after_what_others_did():
    memory = SimtMemory(0)
    base, thread = memory.place(np.zeros(THREADS, np.int32)), threads(memory)
    pointer = ThreadValues(base + EACH.astype(np.int64) * 4)
    thread.store_global(I32, pointer, [ThreadValues(EACH)], None, AccessAttributes())
    memory.begin(1)
    with pytest.raises(RaceError, match="has synchronized with it"):
        thread.load_global(I32, 1, pointer, None, None, AccessAttributes(volatile=True))
    thread.barrier()
    (result,) = thread.load_global(I32, 1, pointer, None, None, AccessAttributes(volatile=True))
    assert (result.array == EACH).all()


@pytest.mark.parametrize("offset", [2, 4, 8])
def test_wide_accesses_of_shared_memory_are_aligned(offset):
    thread = threads()
    at, values = ThreadValues(offset + 16 * EACH), [ThreadValues(EACH)] * 4
    with pytest.raises(AssertionError, match="16 bytes that is not aligned"):
        thread.store_shared(I32, at, values)
    thread.store_shared(I32, ThreadValues(16 * EACH), values)
    with pytest.raises(AssertionError, match="16 bytes that is not aligned"):
        thread.load_shared(I32, 4, at)


class Op:
    """Stands for the op whose rule runs."""


def counting_thread():
    memory, counts = SimtMemory(4096), Counts()
    thread = counting(counts)(THREADS, (0, 0, 0), (1, 1, 1), memory)
    thread.op = Op()
    return thread, memory, counts.of(thread.op)


def test_wide_stores_are_counted_by_their_bytes():
    thread, memory, tally = counting_thread()
    base = memory.place(np.zeros(4 * THREADS, np.int32))
    pointer = ThreadValues(base + 16 * EACH.astype(np.int64))
    thread.store_global(I32, pointer, [ThreadValues(EACH)] * 4, None, AccessAttributes())
    assert (tally.accesses, tally.ideal, tally.sectors, tally.lines) == (2, 32, 32, 8)


def test_copies_touch_both_memories():
    thread, memory, tally = counting_thread()
    base = memory.place(np.zeros(4 * THREADS, np.int32))
    pointer = ThreadValues(base + 16 * EACH.astype(np.int64))
    thread.copy_async(16, ThreadValues(16 * EACH), 0, pointer, None, None)
    assert (tally.sectors, tally.shared, tally.wavefronts) == (32, 2, 8)


def sectors(addresses, size, active, unit=32):
    """The sectors of each warp's accesses, or other units."""
    total = 0
    for first in range(0, THREADS, 32):
        lanes = [i for i in range(first, first + 32) if active[i]]
        total += len({(addresses[i] + b) // unit for i in lanes for b in range(size)})
    return total


@for_each("seed", range(12))
def test_accesses_under_masks_are_counted_by_the_bytes_of_active_threads(seed):
    """Loads, stores and copies to shared memory, at drawn addresses."""
    chance = np.random.default_rng(seed)
    size = int(chance.choice((4, 8, 16)))
    active = chance.random(THREADS) < chance.choice((0.1, 0.5, 1.0))
    places = size * chance.integers(0, 128, THREADS)
    mask = ThreadValues(active)
    for kind in ("load", "store", "copy"):
        thread, memory, tally = counting_thread()
        base = memory.place(np.zeros(1024, np.int32))
        at, count = base + places.astype(np.int64), size // 4
        pointer = ThreadValues(at)
        if kind == "load":
            thread.load_global(I32, count, pointer, mask, None, AccessAttributes())
        elif kind == "store":
            at = base + size * EACH.astype(np.int64)
            values = [ThreadValues(EACH)] * count
            thread.store_global(I32, ThreadValues(at), values, mask, AccessAttributes())
        else:
            thread.copy_async(size, ThreadValues(size * EACH), 0, pointer, mask, None)
        assert tally.sectors == sectors(at, size, active), kind
        assert tally.lines == sectors(at, size, active, 128), kind
        distinct = [
            len(set(at[first : first + 32][active[first : first + 32]].tolist()))
            for first in (0, 32)
        ]
        assert tally.accesses == sum(map(bool, distinct))
        assert tally.ideal == sum(-(-n * size // 32) for n in distinct), kind


@for_each("seed", range(12))
def test_copies_under_masks_and_predicates_are_counted_in_both_memories(seed):
    """A thread reads where its mask and its predicate hold. It writes wherever its predicate holds:
    a mask that is false writes zeros."""
    chance = np.random.default_rng(seed)
    size = int(chance.choice((4, 8, 16)))
    mask, predicate = (chance.random(THREADS) < chance.choice((0.05, 0.5, 1.0)) for _ in range(2))
    thread, memory, tally = counting_thread()
    base = memory.place(np.zeros(4 * THREADS, np.int32))
    places = size * EACH
    thread.copy_async(
        size, ThreadValues(places), 0, ThreadValues(base + places.astype(np.int64)),
        ThreadValues(mask), ThreadValues(predicate),
    )  # fmt: skip
    assert tally.sectors == sectors(base + places, size, mask & predicate)
    assert tally.shared == predicate.reshape(-1, 32).any(axis=1).sum()
    phases = predicate.reshape(-1, 128 // size)
    assert tally.wavefronts == phases.any(axis=1).sum()
    assert tally.conflicts == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_are_stored_at_the_addresses_of_their_first_lanes(count):
    """Eight lanes for each matrix; other lanes count for nothing."""
    thread, _, tally = counting_thread()
    lane = EACH % 32
    at = np.where(lane < 8 * count, EACH // 32 * 512 + lane * 16, 1 << 20).astype(np.int32)
    values = [ThreadValues(np.zeros(THREADS, np.float16))] * (2 * count)
    thread.store_matrix(F16, False, ThreadValues(at), 0, values)
    assert (tally.shared, tally.wavefronts, tally.conflicts) == (2, 2 * count, 0)


def wavefronts_of(offsets, size):
    """Of all warps: as many lanes as 128 bytes suffice for access their words together, as often as
    the bank with the most words has words."""
    total = 0
    for first in range(0, THREADS, step := min(32, 128 // size)):
        words = {
            (at + byte) // 4
            for at in offsets[first : first + step].tolist()
            for byte in range(size)
        }
        total += max(sum(word % 32 == bank for word in words) for bank in range(32))
    return total


@for_each("element", [I8, I16, I32, I64])
@for_each("count", [1, 2, 4, 8])
@for_each("seed", range(4))
def test_vectors_in_shared_memory_are_counted_by_their_bytes(element, count, seed):
    """Stores and loads of 16 bytes at most, at drawn multiples of what a thread accesses."""
    size = element.bytes * count
    if size > 16:
        return
    thread, _, tally = counting_thread()
    places = np.random.default_rng(seed).integers(0, 4096 // size, THREADS)
    at = ThreadValues((places * size).astype(np.int32))
    thread.store_shared(
        element, at, [ThreadValues(np.zeros(THREADS, thread.dtype(element)))] * count
    )
    assert (tally.shared, tally.wavefronts) == (2, wavefronts_of(at.array, size))
    thread.memory.synchronize()
    thread.load_shared(element, count, at)
    assert (tally.shared, tally.wavefronts) == (4, 2 * wavefronts_of(at.array, size))


@pytest.mark.parametrize(("least", "parted"), [(0, 0), (5, 1), (32, 0), (40, 1), (64, 0)])
def test_warps_are_parted_by_conditions_that_their_lanes_differ_in(least, parted):
    thread, _, tally = counting_thread()
    thread.when(ThreadValues(least > EACH), (), list)
    assert tally.divergent == parted


DRAWN = """tir 1.0
define void @f(i32<64> %v, i8<64> %b, i32<8> %w, i32 %o, i32<64> %at) {
entry:
  %h = histogram i64<16> %v
  %g = gather i32<64> %w, %at {axis = 0}
  %p = extract_slice i32<8> %v, %o
  %s = extract_slice i32<8> %v, %o {strides = [3]}
  %a = extract_slice i32<64> %v, %o
  %i = insert_slice i32<64> %v, %w, %o {strides = [2]}
  %n = histogram i32<300> %b
  ret
}
"""
BOUNDS = (16, 8, 57, 43, 1, 50, 128)
"""What the numbers that say where an op goes are below: bins, elements, and places of parts."""


@pytest.mark.parametrize("number", range(len(BOUNDS)))
def test_numbers_are_drawn_from_all_that_an_op_may_have(number):
    """For an op whose accesses depend on data, so that races on any data are found."""
    op = list(textual.parse(DRAWN).functions["f"].ops)[number]
    chance, thread, values = np.random.default_rng(number), threads(), []
    for _ in range(600):
        for handles in _random_operands(op, thread, chance).values():
            values += [int(x) for handle in handles for x in handle.array]
    assert (min(values), max(values)) == (0, BOUNDS[number] - 1)


@pytest.mark.parametrize("kind", ["barrier", "warp_barrier", "group_barrier"])
def test_barriers_are_watched_and_left_out(kind):
    """Each by the op whose rule waits, and its number among the barriers of that rule."""
    memory, op, other = SimtMemory(256), Op(), Op()
    barriers = Barriers()
    thread = barriers.make(THREADS, (0, 0, 0), (1, 1, 1), memory)
    epochs = []
    for run, each in enumerate((op, other, op)):
        thread.op, thread.runs = each, run + 1
        for _ in range(2):
            getattr(thread, kind)()
            epochs.append(memory.touched.clock.epoch)
    assert barriers.events == [None, *[(each, i) for each in (op, other, op) for i in (0, 1)]]
    assert list(barriers.sites) == [(op, 0), (op, 1), (other, 0), (other, 1)]
    less = Barriers(without=(op, 1))
    thread = less.make(THREADS, (0, 0, 0), (1, 1, 1), SimtMemory(256))
    thread.op, thread.runs = op, 1
    base = ThreadValues(EACH * 4)
    thread.store_shared(I32, base, [ThreadValues(EACH)])
    thread.barrier()
    thread.load_shared(I32, 1, ThreadValues(252 - EACH * 4))
    thread.barrier()
    with pytest.raises(RaceError):
        thread.store_shared(I32, base, [ThreadValues(EACH)])
    assert less.events[-1] == (op, 1)


APPROXIMATE = {
    "ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": lambda x: 1 / x,
}  # fmt: skip


@for_each("name", APPROXIMATE)
def test_approximate_instructions_are_near(name):
    """Not nearer than those of a GPU."""
    x = np.linspace(0.1, 3, THREADS).astype(np.float32)
    flush = ".ftz" if name in ("rcp", "ex2") else ""
    text = f"{name}.approx{flush}.f32 $0, $1;"
    array = threads().instruction(text, F32, [(F32, ThreadValues(x))]).array
    np.testing.assert_allclose(array, APPROXIMATE[name](x.astype(np.float64)), rtol=1e-5, atol=1e-5)


def test_data_that_is_drawn_is_for_its_op_alone():
    """What the op goes by is there again for those that follow."""
    op = next(iter(textual.parse(DRAWN).functions["f"].ops))
    values = {op.value: [ThreadValues(EACH)]}
    numbers = Barriers(chance=np.random.default_rng(1))
    thread = numbers.make(THREADS, (0, 0, 0), (1, 1, 1), SimtMemory(256))
    execution = SimpleNamespace(values=values)
    with thread.running(execution, op):
        (drawn,) = execution.values[op.value]
        assert (drawn.array != EACH).any()
    (kept,) = execution.values[op.value]
    assert (kept.array == EACH).all()


@for_each("seed", range(40))
def test_transactions_are_counted_by_bytes(seed):
    """Random addresses, some of several lanes, some lanes off: sectors and lines are those of the
    bytes that a warp touches, and the ideal is what as many bytes fill."""
    choose = np.random.default_rng(seed)
    size, lanes = int(choose.choice([1, 2, 4, 8, 16])), int(choose.choice([32, 64, 128]))
    addresses = choose.integers(0, choose.choice([2, 40, 4000]), lanes) * size + int(
        choose.choice([0, 0, 3])
    )
    active = choose.random(lanes) < choose.choice([0.02, 0.5, 1.0])
    tally = OpCounters()
    tally.touch_global(addresses.astype(np.int64), size, active)
    expected = dict.fromkeys(("accesses", "sectors", "ideal", "lines"), 0)
    for first in range(0, lanes, 32):
        warp = slice(first, first + 32)
        touched = {int(a) + b for a in addresses[warp][active[warp]] for b in range(size)}
        expected["accesses"] += bool(touched)
        expected["sectors"] += len({b // 32 for b in touched})
        expected["ideal"] += -(-len(touched) // 32)
        expected["lines"] += len({b // 128 for b in touched})
    assert {name: getattr(tally, name) for name in expected} == expected
