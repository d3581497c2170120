"""The terms of the cost model, each alone on a machine that takes no time for anything else."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.builder import F32
from tileir.frontends.decoupled.cost_model import GpuRates, KernelEstimate, estimate
from tileir.frontends.decoupled.tensors import row_major
from tileir.frontends.decoupled.traffic import KernelWork
from tileir.types import I32

from . import definitions as d
from .costs import f16, f32, product, work

INFINITE = dict.fromkeys(("f16", "bf16", "f32", "tf32", "f64", "i8"), math.inf)
FREE: dict[str, Any] = {
    "memory": math.inf, "cache": math.inf, "mapped": math.inf, "elements": math.inf,
    "cache_bytes": 0.0, "matmuls": INFINITE, "in_flight": 1.0, "scattered": 0.0, "launch": 0.0,
    "latency": 0.0, "start": 0.0, "warp": 0.0,
}  # fmt: skip
"""Rates of a machine on which a kernel takes no time."""


def cost(one: KernelWork, **rates: Any) -> KernelEstimate:
    """The estimate on a machine where only `rates` take time."""
    machine = GpuRates(**{**FREE, **rates})
    return estimate(one.group, one.sizes, one.tensors, one.scalars, machine)


def elements(schedule: str = "x:1 y:1024/0", *, rows: int = 64, columns: int = 4096) -> KernelWork:
    return work(d.RELU, f"relu_out = {schedule} map(x, y)", f32(rows, columns))


def rows(schedule: str, *shape: int) -> KernelWork:
    """A softmax that reads its rows twice where tiles do not hold them."""
    fused = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; softmax_out = "
    return work(d.SOFTMAX, fused + schedule, f32(*shape))


def large(schedule: str, **types: str) -> KernelWork:
    """A matmul with more blocks than a GPU has processors."""
    return product(schedule, m=4096, n=3072, k=1024, **types)  # type: ignore[arg-type]


def test_nothing_takes_no_time() -> None:
    assert cost(elements()).seconds == 0
    assert cost(large("m:128/0 n:128/0 k:/64")).seconds == 0


# How parts are put together -----------------------------------------------------------------------


def test_the_longest_part_hides_most_of_the_others() -> None:
    """256 instances of four warps are one wave; each of its threads has 9 elements."""
    one, moved = elements(), 2 * 64 * 4096 * 4
    assert cost(one, launch=3.0).seconds == 3.0
    assert cost(one, latency=2.0).seconds == pytest.approx(2.0)
    assert cost(one, start=1.0).seconds == pytest.approx(256 * (1 + 4 / 12))
    assert cost(one, memory=1.0).seconds == pytest.approx(1.1 * moved)
    start = 256 * (1 + 4 / 12) * 0.25
    together = cost(one, latency=2.0, start=0.25, launch=7.0).seconds
    assert together == pytest.approx(7 + start + 0.15 * 2.0)
    together = cost(one, latency=1e4, start=0.25).seconds
    assert together == pytest.approx(1e4 + 0.15 * start)
    work_of_each = cost(one, elements=1.0).arithmetic
    assert cost(one, elements=1.0, latency=1.0).seconds == pytest.approx(work_of_each + 0.15)


def test_blocks_of_the_last_wave_have_half_of_what_others_leave() -> None:
    """15 blocks of 128 threads and 33 registers fit on a processor."""
    resident = 65536 // int(128 * (24 + 1.1 * 1024 / 128 + 1))
    assert resident == 15
    for count in (1, 132 * 15, 132 * 15 + 4, 132 * 22):
        one = elements(rows=count, columns=1024)
        assert one.instances == count
        waves = count / (132 * resident)
        tail = 1 + (math.ceil(waves) / waves - 1) / 2 if waves > 1 else 1
        expected = count * (1 + 4 / 12) * tail
        assert cost(one, start=1.0).seconds == pytest.approx(expected)
        assert cost(one, latency=1.0).seconds == pytest.approx(math.ceil(waves) * tail)


@for_each(
    ("warps", "width", "resident"),
    [(4, 1024, 15), (1, 256, 32), (2, 512, 31), (8, 2048, 7), (32, 8192, 1), (32, 256, 2),
     (1, 8192, 8)],
)  # fmt: skip
def test_registers_and_threads_bound_the_blocks_of_a_processor(
    warps: int, width: int, resident: int
) -> None:
    """As many waves as blocks that fit require; each waits once."""
    one = elements(f"x:1 y:{width}/0 w{warps}", rows=132 * resident, columns=width)
    more = elements(f"x:1 y:{width}/0 w{warps}", rows=132 * resident + 132, columns=width)
    slow = cost(one, latency=1.0).seconds
    assert cost(more, latency=1.0).seconds > 1.3 * slow
    less = elements(f"x:1 y:{width}/0 w{warps}", rows=132 * resident - 60, columns=width)
    assert cost(less, latency=1.0).seconds == pytest.approx(slow)


def test_what_does_not_fit_takes_for_ever() -> None:
    """Shared memory of the steps in flight, and registers."""
    fits, exceeds = "m:32/0 n:256/0 k:/128 s3", "m:32/0 n:256/0 k:/128 s4"
    assert 3 * (32 + 256) * 128 * 2 < 227 * 1024 < 4 * (32 + 256) * 128 * 2
    assert cost(large(fits)).seconds == 0 and cost(large(exceeds)).seconds == math.inf
    assert cost(elements("x:1 y:16384/0 w1", columns=16384)).seconds == 0
    assert cost(elements("x:1 y:32768/0 w1", columns=32768)).seconds == math.inf


@for_each(("width", "slowdown"), [(1024, 0), (512, 0), (256, math.log2(4 / 2.2)),
                                  (4096, math.log2(35.2 / 12))])  # fmt: skip
def test_threads_with_few_or_many_elements_are_slower(width: int, slowdown: float) -> None:
    one = elements(f"x:1 y:{width}/0", columns=4096)
    expected = 1 + 0.01 * slowdown
    assert cost(one, latency=1.0).seconds == pytest.approx(expected, rel=2e-4)


def test_rows_that_exceed_registers_are_slower() -> None:
    """They are needed again after the reduction: 1024 threads with 64 words each."""
    fits, exceeds = rows("x:1 y:/0 w32", 132, 32768), rows("x:1 y:/0 w32", 132, 49152)
    assert cost(fits, latency=1.0).seconds == pytest.approx(2.0, rel=1e-3)
    beyond = (24 * 1024 + 1.1 * 49152) / 65536 - 1
    far = math.log2(1.1 * 48 / 40)
    expected = 2.0 * (1 + 0.01 * far) * (1 + 0.3 * beyond)
    assert cost(exceeds, latency=1.0).seconds == pytest.approx(expected, rel=1e-3)


# Memory -------------------------------------------------------------------------------------------


def test_tensors_move_at_the_bandwidth_of_memory() -> None:
    one = elements(rows=1024)
    assert cost(one, memory=1e6).memory == pytest.approx(2 * 1024 * 4096 * 4 / 1e6)
    few = elements(rows=33)
    assert few.instances == 132
    assert cost(few, memory=1e6).memory == pytest.approx(2 * 33 * 4096 * 4 / 1e6)


def test_few_instances_do_not_fill_memory_nor_the_cache() -> None:
    half = elements("x:1 y:2048/0", rows=33)
    assert half.instances == 66
    assert cost(half, memory=1e6).memory == pytest.approx(2 * 2 * 33 * 4096 * 4 / 1e6)
    assert cost(half, cache=1e6).memory == pytest.approx(2 * 2 * 33 * 4096 * 4 / 1e6)
    assert cost(half, elements=1e6).arithmetic == pytest.approx(
        2 * cost(half, elements=2e6).arithmetic
    )


def test_first_loads_and_last_stores_overlap_with_nothing() -> None:
    """A tenth of the bytes of a wave, in kernels without matmuls."""
    one = elements(rows=132 * 15, columns=2048)
    moved = 2 * 132 * 15 * 2048 * 4
    assert cost(one, memory=1.0).seconds == pytest.approx(moved * (1 + 0.1 / 2))
    matmul = large("m:128/0 n:128/0 k:/64")
    result = cost(matmul, memory=1.0)
    waves = matmul.instances / 132
    assert result.seconds == pytest.approx(result.memory * (1 + (math.ceil(waves) / waves - 1) / 2))


def test_the_slower_of_memory_and_cache_counts() -> None:
    one = elements(rows=1024)
    moved = 2 * 1024 * 4096 * 4
    assert cost(one, cache=2.0).memory == pytest.approx(moved / 2)
    assert cost(one, cache=2.0, memory=3.0).memory == pytest.approx(moved / 2)
    assert cost(one, cache=3.0, memory=2.0).memory == pytest.approx(moved / 2)
    assert cost(one, mapped=2.0).memory == 0
    matmul = large("m:128/0 n:128/0 k:/64")
    loaded = 4096 * 1024 * 2 * 24 + 3072 * 1024 * 2 * 32 + 4096 * 3072 * 4
    assert cost(matmul, mapped=2.0).memory == pytest.approx(loaded / 2)
    assert cost(matmul, cache=2.0).memory == 0


def test_processors_keep_small_tensors() -> None:
    """Every instance reads a vector; each processor reads it once from the cache."""
    tensors = f32(16384, 1024), f32(1024), f32(1024), 1.0
    one = work(d.DYT, "dyt = x:1 y:/0", *tensors)
    rows_moved = 2 * 16384 * 1024 * 4
    assert cost(one, cache=1.0).memory == pytest.approx(rows_moved + 2 * 132 * 1024 * 4)
    assert cost(one, cache=1.0, own_cache=1024.0).memory == pytest.approx(
        rows_moved + 2 * 16384 * 1024 * 4
    )


def test_short_segments_open_rows_of_memory_often() -> None:
    """Longer by `scattered`, by as much of a page as accesses do not cover."""
    moved = 2 * 1024 * 4096 * 4
    narrow = work(d.RELU, "relu_out = x:1 y:1024/0 map(y, x)", f32(1024, 4096))
    result = cost(narrow, memory=1.0, scattered=0.5, page=16384.0).memory
    assert result == pytest.approx(moved * (1 + 0.5 * 0.75))
    result = cost(elements(rows=1024), memory=1.0, scattered=0.5, page=16384.0).memory
    assert result == pytest.approx(moved)


def test_bytes_in_flight_limit_the_bandwidth() -> None:
    """Two blocks of a processor load 4096 bytes each."""
    one, moved = elements(rows=66), 2 * 66 * 4096 * 4
    assert one.instances == 2 * 132
    under_way = 4096 * 2**2 / 2.4
    assert cost(one, memory=1.0, in_flight=3 * under_way).memory == pytest.approx(3 * moved)
    assert cost(one, memory=1.0, in_flight=0.9 * under_way).memory == pytest.approx(moved)
    deep = elements("x:1 y:4096/0 w1", rows=132)
    under_way = 32 * 64 / 1.4  # what one warp has in flight at most
    moved = 2 * 132 * 4096 * 4
    assert cost(deep, memory=1.0, in_flight=2 * under_way).memory == pytest.approx(2 * moved)
    matmul = large("m:128/0 n:128/0 k:/64")
    assert cost(matmul, memory=1.0, in_flight=1e9).memory == cost(matmul, memory=1.0).memory


def test_lines_that_stay_are_written_back() -> None:
    moved = 2 * 1024 * 4096 * 4
    schedule = "x:1 y:1024/0"
    one = elements(schedule, rows=1024)
    assert cost(one, memory=1.0, cache_bytes=1e6).memory == pytest.approx(moved + 0.45e6)
    half = elements(schedule + " evict_first(A)", rows=1024)
    assert cost(half, memory=1.0, cache_bytes=2e7).memory == pytest.approx(moved + 0.45 * moved / 2)
    none = elements(schedule + " evict_first(A, relu_out)", rows=1024)
    assert cost(none, memory=1.0, cache_bytes=2e7).memory == pytest.approx(moved)


def test_long_rows_that_are_reduced_and_written_mix_reads_and_writes() -> None:
    """Unless a policy says which lines leave first."""
    moved = 2 * 1024 * 8192 * 4
    for schedule, columns, slowdown in (
        ("x:1 y:/0 w8", 8192, 1.03),
        ("x:1 y:/0 w8", 8000, 1.03),  # 32000 bytes
        ("x:1 y:/0 w8", 7999, 1.0),
        ("x:1 y:/0 w8 evict_first(A)", 8192, 1.0),
        ("x:1 y:/0 w8 evict_last(A)", 8192, 1.0),
    ):
        result = cost(rows(schedule, 1024, columns), memory=1.0).memory
        assert result == pytest.approx(moved * slowdown * columns / 8192)
    one = elements("x:1 y:8192/0", rows=1024, columns=8192)
    assert cost(one, memory=1.0).memory == pytest.approx(moved)


def test_rows_read_twice_come_from_memory_twice_where_the_cache_lost_them() -> None:
    """The cache holds a part of what a wave reads."""
    one, size = rows("x:1 y:/1024 w4", 132 * 12, 4096), 132 * 12 * 4096 * 4
    waves = one.instances / (132 * 15)
    assert waves < 1
    cached = 1e7
    lost = 1 - cached / size
    result = cost(one, memory=1.0, cache_bytes=cached).memory
    assert result == pytest.approx(2 * size + lost * size + 0.45 * cached)
    result = cost(one, memory=1.0, cache_bytes=3.0 * size).memory
    assert result == pytest.approx(2 * size + 0.45 * 2 * size)
    waves = 8
    many = rows("x:1 y:/1024 w4", 132 * 15 * waves, 4096)
    size = 132 * 15 * waves * 4096 * 4
    result = cost(many, memory=1.0, cache_bytes=cached).memory
    assert result == pytest.approx(2 * size + (1 - cached * waves / size) * size + 0.45 * cached)


@for_each(("order", "share"), [("n, m", 0.2), ("n:ni/8, m, ni", 0.08)])
def test_neighbours_of_a_matmul_share_what_they_read(order: str, share: float) -> None:
    one = large(f"m:128/0 n:128/0 k:/64 map({order})")
    a, b, result = 4096 * 1024 * 2, 1024 * 3072 * 2, 4096 * 3072 * 4
    reloaded = 23 * a + 31 * b
    assert cost(one, memory=1.0).memory == pytest.approx(a + b + result + share * reloaded)
    only_a = cost(one, memory=1.0, cache_bytes=4.0 * a).memory
    back = 0.45 * min(4 * a, a + b + result)
    expected = a + b + result + back + (share * 23 * a if a + b + result >= 4 * a else 0)
    assert only_a == pytest.approx(expected)


# Arithmetic ---------------------------------------------------------------------------------------


@for_each(
    ("value", "weight"),
    [
        ("A[x, y] + 1", 1 + 0.5), ("A[x, y] / 3", 8 + 0.5), ("A[x, y] % 3", 8 + 0.5),
        ("exp(A[x, y])", 8 + 0.5), ("erf(A[x, y])", 24 + 0.5), ("-A[x, y]", 1 + 0.5),
        ("pow(A[x, y], 2)", 2 + 0.5), ("pow(A[x, y], A[x, y])", 40 + 0.5), ("A[x, y]", 0.5),
        ("floor(A[x, y])", 1 + 0.5), ("A[x, y] * A[x, y] - 1", 2 + 0.5),
    ],
)  # fmt: skip
def test_functions_take_as_many_instructions_as_they_have(value: str, weight: float) -> None:
    source = f"Func f; In A; Var x, y; f[x, y] = {value}; f.compile();"
    one = work(source, "f = x:1 y:1024/0", f32(256, 1024))
    numbers = 0.5 * 256 if any(c in value for c in "123") else 0
    result = cost(one, elements=1.0).arithmetic
    assert result == pytest.approx(256 * 1024 * weight + numbers)


OPERATIONS = 2 * 4096 * 3072 * 1024


def share(one: KernelWork, name: str = "f16") -> float:
    """The part of the peak rate of matmuls that a kernel reaches."""
    result = cost(one, matmuls={**INFINITE, name: 1.0}).arithmetic
    return OPERATIONS / result if result else math.inf


@for_each(
    ("schedule", "expected"),
    [
        ("m:128/0 n:128/0 k:/64", 1.0),
        ("m:128/0 n:128/0 k:/128", 0.9),  # two stages fit next to the result
        ("m:128/0 n:128/0 k:/16", 0.5),  # rows of 32 bytes
        ("m:64/0 n:192/0 k:/64", 64 * 192 / 256 / 64),
        ("m:128/0 n:64/0 k:/64 w8", 128 * 64 / 192 / 64 * 1.5 * 128 * 64 / (8 * 2048)),
        ("m:128/0 n:128/0 k:/64 roles(off) s4", 0.62),
        ("m:128/0 n:128/0 k:/64 roles(off)", 0.62 * 0.98),
        ("m:128/0 n:128/0 k:/64 roles(off) s2", 0.62 * 0.9),
        ("m:128/0 n:128/0 k:/64 roles(off) s1", 0.62 * 0.5),
        ("m:128/0 n:128/0 k:/64 persistent(off)", 1.0),
    ],
)
def test_tiles_decide_the_rate_of_matmuls(schedule: str, expected: float) -> None:
    assert share(large(schedule)) == pytest.approx(expected)


def test_spilled_registers_slow_a_matmul() -> None:
    """128 x 256 accumulators of 128 threads."""
    spilled = 24 + 1.1 * 128 * 256 / 128 - 200
    one = large("m:128/0 n:256/0 k:/64 roles(off) s4 w4")
    assert share(one) == pytest.approx(0.62 / (1 + spilled / 40))


def test_fewer_blocks_than_processors_are_slower() -> None:
    one = product("m:128/0 n:128/0 k:/64", m=1024, n=1024, k=1024)
    result = cost(one, matmuls={**INFINITE, "f16": 1.0}).arithmetic
    assert result == pytest.approx(2 * 1024**3 / (64 / 132))


@for_each(("m", "n", "k"), [("128", "128", "4"), ("4", "128", "64"), ("128", "4", "64")])
def test_slivers_are_multiplied_element_by_element(m: str, n: str, k: str) -> None:
    one = large(f"m:{m}/0 n:{n}/0 k:/{k}")
    assert cost(one, matmuls=dict.fromkeys(INFINITE, 1e-9)).arithmetic == 0
    assert cost(one, elements=4.0).arithmetic >= OPERATIONS


@for_each(("left", "right", "precision", "name"), [
    ("f32", "f32", "", "f32"), ("f32", "f32", "precision(tf32)", "tf32"),
    ("f16", "f32", "", "f16"), ("i32", "i32", "", None), ("i32", "f32", "", None),
])  # fmt: skip
def test_types_decide_which_instructions_multiply(
    left: str, right: str, precision: str, name: str | None
) -> None:
    kinds = {"f32": F32, "i32": I32, "f16": f16(1).element}
    a, b = row_major(kinds[left], (4096, 1024)), row_major(kinds[right], (1024, 3072))
    one = work(d.MATMUL, f"matmul = m:128/0 n:128/0 k:/32 {precision} s3", a, b)
    for other in INFINITE:
        result = cost(one, matmuls={**INFINITE, other: 1.0}).arithmetic
        assert (result > 0) == (other == name), other
    if name is None:
        assert cost(one, elements=4.0).arithmetic >= OPERATIONS


def test_an_inner_loop_does_not_run_ahead() -> None:
    tensors = f16(4096, 1024), f16(1024, 128), f16(128, 64)
    one = work(d.INNER_2MM, "_2mm = m:64/0 n:/0 k:/64 l:/0 s2", *tensors)
    outer = 2 * 4096 * 128 * 64
    inner = 2 * 4096 * 1024 * 128
    feed = (64 * 128 / 192 / 64, 64 * 64 / 128 / 64)
    narrow = 1.5 * 64 * 64 / (4 * 2048)
    expected = inner / (feed[0] * 0.9 * 0.6) + outer / (feed[1] * narrow * 0.9)
    busy = one.instances / 132
    result = cost(one, matmuls={**INFINITE, "f16": 1.0}).arithmetic
    assert result == pytest.approx(expected / busy)


def epilogue(schedule: str, depth: int = 1024, **rates: Any) -> float:
    tensors = f16(4096, depth), f16(depth, 3072)
    one = work(d.MMSIGMOID, f"mmsigmoid = {schedule}", *tensors)
    return cost(one, **rates).arithmetic


@for_each(
    ("schedule", "depth", "drift"),
    [
        ("m:128/0 n:128/0 k:/64", 1024, 0.0),  # a single warpgroup
        ("m:128/0 n:128/0 k:/64 persistent(pingpong)", 1024, 1.0),
        ("m:128/0 n:128/0 k:/64 persistent(pingpong)", 64, 0.5),  # of one step
        ("m:128/0 n:128/0 k:/64 w8", 64, 1.0),  # operands of later instances are loaded
        ("m:128/0 n:128/0 k:/64 w8", 192, (4 * 64 / 192 - 1) / 1.5),
        ("m:128/0 n:128/0 k:/64 w8", 1024, 0.0),
        ("m:128/0 n:64/0 k:/64 persistent(off)", 1024, 1.0),  # two blocks of a processor
        ("m:64/0 n:64/0 k:/64 persistent(off)", 1024, 1.0),  # four blocks of a processor
        ("m:128/0 n:128/0 k:/64 persistent(off)", 64, 0.0),  # one
    ],
)
def test_warpgroups_write_while_others_multiply(schedule: str, depth: int, drift: float) -> None:
    """0.4 of the shorter of both is hidden, by how far warpgroups drift apart."""
    peak = {"f16": OPERATIONS / 1024 * depth}
    multiply = epilogue(schedule, depth, matmuls={**INFINITE, **peak})
    write = epilogue(schedule, depth, elements=1e9)
    both = epilogue(schedule, depth, elements=1e9, matmuls={**INFINITE, **peak})
    assert both == pytest.approx(multiply + write - 0.4 * drift * min(multiply, write))


@for_each(("schedule", "warps"), [("", 4), ("persistent(pingpong)", 8), ("w8", 8)])
def test_warps_hide_latencies_of_elementwise_work(schedule: str, warps: int) -> None:
    """A sigmoid of 16 instructions for every element, and its operand."""
    result = epilogue(f"m:128/0 n:128/0 k:/64 {schedule}", elements=1.0)
    reads = 0.5 * (4096 * 1024 * 24 + 3072 * 1024 * 32)
    assert result == pytest.approx((16 * 4096 * 3072 + reads) * 0.6 * (warps + 5.3) / warps)


# Latency and start of matmuls ---------------------------------------------------------------------


def test_steps_of_a_matmul_wait_as_they_are_loaded_ahead() -> None:
    """16 steps of one tile, by the stages stated, in waves of one block of a processor."""
    one = product("m:128/0 n:128/0 k:/64 roles(off) s2", m=1024, n=1024, k=1024)
    assert cost(one, latency=1.0).seconds == pytest.approx((1 + 16) / 2)
    one = product("m:128/0 n:128/0 k:/64 roles(off) s3", m=1024, n=1024, k=1024)
    assert cost(one, latency=1.0).seconds == pytest.approx((1 + 16) / 3)


def test_the_only_blocks_of_processors_start_by_their_warps() -> None:
    few = product("m:128/0 n:128/0 k:/64 roles(off) w8", m=1024, n=1024, k=1024)
    assert cost(few, warp=2.0).seconds == 16 and cost(few, start=2.0).seconds == 0
    alone = large("m:128/0 n:128/0 k:/64")
    result, waves = cost(alone, warp=1.0).seconds, 32 * 24 / 132
    assert result == pytest.approx(4 * (1 + (math.ceil(waves) / waves - 1) / 2))
    many = large("m:128/0 n:128/0 k:/64 roles(off) w8")
    assert cost(many, warp=1.0).seconds == 0 and cost(many, start=1.0).seconds > 768 * 1.6


def test_operands_that_fill_shared_memory_leave_nothing_to_load_ahead() -> None:
    """Three quarters of it."""
    kept, less = "m:256/0 n:128/0 k:/0", "m:128/0 n:128/0 k:/0"
    for schedule, slowdown in ((kept, 1.25), (less, 1.0)):
        one = product(schedule, m=1024, n=1024, k=256)
        assert (one.traffic().kept > 0.75 * 227 * 1024) == (slowdown > 1)
        assert cost(one, warp=1.0).seconds == 4 * slowdown
