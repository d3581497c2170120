"""The schedules that a search compares: which tiles, warps, orders and policies, and which not."""

from __future__ import annotations

from typing import Any

from tests.sizes import for_each
from tileir.frontends.decoupled import Tensor
from tileir.frontends.decoupled.candidates import candidates
from tileir.frontends.decoupled.schedule import Schedule
from tileir.types import F16

from . import definitions as d
from .costs import f16, f32, work

FUSED = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; softmax_out = w4"
HEADS = "s @ p.l; top @ attention.m; p @ attention.l; total @ attention.m; attention = w4"


def schedules_of(source: str, schedule: str, *arguments: Tensor | float) -> list[Schedule]:
    one = work(source, schedule, *arguments)
    return list(candidates(one.group, one.sizes, one.tensors))


def relu(*shape: int) -> list[Schedule]:
    return schedules_of(d.RELU, "relu_out = w4", f32(*shape))


def softmax(*shape: int) -> list[Schedule]:
    return schedules_of(d.SOFTMAX, FUSED, f32(*shape))


def totals(*shape: int) -> list[Schedule]:
    return schedules_of(d.ROW_TOTALS, "sum_out = w4", f32(*shape))


def matmuls(m: int, n: int, k: int) -> list[Schedule]:
    return schedules_of(d.MATMUL, "matmul = w4", f16(m, k), f16(k, n))


def levels(schedule: Schedule) -> str:
    return ", ".join(
        f"{s.label}:{s.inner}/{s.factor}" if s.inner else s.label for s in schedule.order
    )


def values(schedules: list[Schedule], attribute: str, label: str = "") -> set[Any]:
    result = [getattr(one, attribute) for one in schedules]
    return {x.get(label) if label else x for x in result}


# Elements -----------------------------------------------------------------------------------------


def test_threads_have_4_to_16_elements_of_small_blocks() -> None:
    """Two or four warps: one alone where a block is smaller than 512."""
    tiles = [(s.blocks["x"], s.blocks["y"], s.num_warps) for s in relu(100, 5000)]
    assert tiles == [
        (1, 512, 2), (1, 512, 4), (1, 1024, 2), (1, 1024, 4), (1, 2048, 4),
        (2, 512, 2), (2, 512, 4), (2, 1024, 4), (4, 512, 4),
    ]  # fmt: skip
    tiles = [(s.blocks["x"], s.blocks["y"], s.num_warps) for s in relu(8, 300)]
    assert tiles == [(1, 300, 1), (1, 300, 2), (2, 300, 2), (2, 300, 4), (4, 300, 4)]


def test_blocks_of_elements_are_whole_tiles_in_the_order_of_memory() -> None:
    for schedule in relu(100, 5000):
        assert schedule.tensors == {"x": 0, "y": 0} and levels(schedule) == "x, y"
    turned = schedules_of(d.RELU, "relu_out = w4", Tensor(F16, (5000, 100), (1, 5000)))
    assert {levels(schedule) for schedule in turned} == {"y, x"}
    assert values(turned, "blocks", "x") == {512, 1024, 2048}
    assert values(turned, "blocks", "y") == {1, 2, 4}


def test_whole_rows_where_they_are_short() -> None:
    assert values(relu(64, 1000), "blocks", "y") == {512, 1000}
    assert max(values(schedules_of(d.RELU, "relu_out = w4", f16(64, 400)), "blocks", "y")) == 400
    assert max(values(relu(64, 4097), "blocks", "y")) <= 4096


@for_each(
    ("shape", "first"),
    [
        ((4096, 4096), {"A", "relu_out"}),
        ((4097, 4096), set[str]()),
        ((100, 5000), {"A", "relu_out"}),
    ],
)
def test_elements_of_few_bytes_go_first(shape: tuple[int, int], first: set[str]) -> None:
    """Up to 128 MiB, of operands and result together."""
    assert values(relu(*shape), "evict_first") == {frozenset(first)}


def test_what_instances_share_does_not_go_first() -> None:
    """A vector that all rows read."""
    schedules = schedules_of(d.DYT, "dyt = w4", f32(64, 4096), f32(4096), f32(4096), 1.0)
    assert values(schedules, "evict_first") == {frozenset(("X", "dyt"))}


# Rows ---------------------------------------------------------------------------------------------


def test_rows_are_whole_or_in_tiles_shorter_than_they_are() -> None:
    assert values(softmax(16, 3000), "tensors", "y") == {0, 2048}
    assert values(softmax(16, 2048), "tensors", "y") == {0}
    assert values(softmax(16, 10000), "tensors", "y") == {0, 2048, 4096, 8192}


def test_several_rows_hold_at_most_8192_elements() -> None:
    tiles = {(s.blocks["x"], s.tensors["y"]) for s in softmax(16, 3000)}
    assert tiles == {(1, 2048), (1, 0), (2, 2048), (2, 0), (4, 2048)}
    assert {(s.blocks["x"], s.tensors["y"]) for s in softmax(16, 512)} == {
        (1, 0), (2, 0), (4, 0), (8, 0), (16, 0),
    }  # fmt: skip


def test_threads_have_4_to_32_elements_of_a_tile_and_more_of_a_row() -> None:
    """Of whole rows 64, 128 with as many warps as fill half a processor; 32 warps at most."""
    single = [s for s in softmax(16, 10000) if s.blocks["x"] == 1]
    assert {s.num_warps for s in single if s.tensors["y"] == 2048} == {2, 4, 8, 16}
    assert {s.num_warps for s in single if s.tensors["y"] == 0} == {8, 16, 32}
    assert {s.num_warps for s in softmax(16, 60000) if not s.tensors["y"]} == {16, 32}
    assert {s.num_warps for s in softmax(16, 70000) if not s.tensors["y"]} == {32}
    assert {s.num_warps for s in softmax(16, 100) if s.blocks["x"] == 1} == {1}


def test_rows_of_one_wave_go_first() -> None:
    """132 processors run 64 warps at once."""
    at_once = [s for s in softmax(2112, 2048) if s.num_warps == 4 and s.blocks["x"] == 1]
    assert values(at_once, "evict_first") == {frozenset(("A", "softmax_out"))}
    later = [s for s in softmax(2113, 2048) if s.num_warps == 4 and s.blocks["x"] == 1]
    assert values(later, "evict_first") == {frozenset()} == values(later, "evict_last")
    assert values(totals(16, 4096), "evict_first") >= {frozenset("A")}
    assert not any("sum_out" in s.evict_first for s in totals(16, 4096))


def test_long_rows_that_are_written_keep_what_they_read() -> None:
    """From 32 KiB on."""
    for columns, last in ((8192, {"A"}), (8191, set[str]())):
        several = [s for s in softmax(1 << 15, columns) if s.num_warps == 16 and not s.tensors["y"]]
        assert values(several, "evict_last") == {frozenset(last)}
        assert values(several, "evict_first") == {frozenset()}
    assert values(totals(1 << 15, 8192), "evict_last") == {frozenset()}


def test_few_long_rows_are_split() -> None:
    """Into 2 to 32 parts of at least 1024 elements, for at most 32 blocks of a processor."""
    assert values(totals(2, 1 << 20), "blocks", "k") == {
        None, 1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 15,
    }  # fmt: skip
    assert values(totals(2, 3000), "blocks", "k") == {None, 1500}
    assert values(totals(2, 2047), "blocks", "k") == {None, 1024}
    assert values(totals(2, 2046), "blocks", "k") == {None}
    parts = [s for s in totals(1056, 1 << 17) if s.blocks["x"] == 1]
    assert values(parts, "blocks", "k") == {None, 1 << 16, 1 << 15}
    for schedule in totals(2, 5000):
        assert schedule.tensors["k"] <= schedule.blocks.get("k", 5000)
        assert "k" not in schedule.blocks or schedule.tensors["k"] > 0


def test_columns_are_reduced_in_tiles_of_as_many_rows_as_fit() -> None:
    source = "Func f; In A; Var x; RVar k; f[x] = rsum(A[k, x], k); f.compile();"
    schedules = schedules_of(source, "f = w4", f32(5000, 4096))
    assert values(schedules, "blocks", "x") == {512, 1024, 2048}
    for schedule in schedules:
        width = schedule.blocks["x"]
        assert schedule.tensors["x"] == 0 and 1 <= schedule.tensors["k"] <= 4096 // width
    assert {s.tensors["k"] for s in schedules if s.blocks["x"] == 512} == {2, 4, 8}
    short = schedules_of(source, "f = w4", f32(2, 4096))
    assert values(short, "tensors", "k") == {0}


def test_maxima_with_sums_are_also_reduced_in_one_pass() -> None:
    source = """Func f; In A; Var x; RVar k;
    f[x] = rsum(exp(A[x, k] - reshape(rmax(A[x, k], k), x, 1)), k); f.compile();"""
    schedules = schedules_of(source, "f = w4", f32(300, 5000))
    online = [s for s in schedules if s.online]
    assert values(online, "online") == {frozenset("k")}
    assert all(0 < s.tensors["k"] < 5000 and "k" not in s.blocks for s in online)
    plain = [s for s in schedules if not s.online and 0 < s.tensors["k"] < 5000]
    assert len(online) == len([s for s in plain if "k" not in s.blocks])
    for other in ("rsum(A[x, k], k) * rsum(exp(A[x, k]), k)", "rmax(A[x, k], k)"):
        several = f"Func f; In A; Var x; RVar k; f[x] = {other}; f.compile();"
        assert not any(s.online for s in schedules_of(several, "f = w4", f32(300, 5000)))


# Matmuls ------------------------------------------------------------------------------------------


def test_tiles_of_matmuls_fit_registers_and_fill_warps() -> None:
    tiles = {(s.blocks["m"], s.blocks["n"], s.num_warps) for s in matmuls(4096, 4096, 4096)}
    assert {t[:2] for t in tiles if t[2] == 4} == {
        (m, n) for m in (32, 64, 128, 256) for n in (16, 32, 64, 128, 256) if m * n <= 128 * 128
    }
    assert {t[:2] for t in tiles if t[2] == 8} == {
        (m, n) for m in (32, 64, 128, 256) for n in (16, 32, 64, 128, 256)
        if 64 * 64 <= m * n <= 256 * 128
    }  # fmt: skip
    assert values(matmuls(4096, 4096, 4096), "num_stages") == {2, 3, 4}


def test_tiles_of_small_matmuls_are_no_larger_than_they_need() -> None:
    assert values(matmuls(48, 20, 64), "blocks", "m") == {32, 64}
    assert values(matmuls(17, 20, 64), "blocks", "m") == {32}
    assert values(matmuls(16, 20, 64), "blocks", "m") == {16}
    assert values(matmuls(5, 33, 64), "blocks", "m") == {8}
    assert values(matmuls(48, 20, 64), "blocks", "n") == {16, 32, None}
    assert values(matmuls(48, 1, 64), "blocks", "n") == {1}


@for_each(
    ("k", "depths"),
    [(4096, {32, 64, 128}), (129, {32, 64, 128}), (128, {16, 32, 64, 0}), (64, {16, 32, 0}),
     (17, {16, 0}), (16, {0})],
)  # fmt: skip
def test_steps_of_matmuls_are_16_to_128_or_all(k: int, depths: set[int]) -> None:
    assert values(matmuls(4096, 4096, k), "tensors", "k") == depths


def test_nested_matmuls_have_steps_of_both_and_whole_ones_up_to_256() -> None:
    schedules = schedules_of(d.INNER_2MM, "_2mm = w4", f16(4096, 256), f16(256, 257), f16(257, 512))
    assert values(schedules, "tensors", "k") == {32, 64, 128, 0}
    assert values(schedules, "tensors", "l") == {32, 64, 128}
    assert values(schedules, "num_stages") == {2, 3}
    assert {"n" in s.blocks for s in schedules} == {True, False}  # tiles within a block, too
    assert not any("k" in s.blocks or "l" in s.blocks for s in schedules)


def test_blocks_of_several_tiles_only_where_columns_are_few() -> None:
    assert {"n" in s.blocks for s in matmuls(4096, 256, 4096)} == {True, False}
    assert {"n" in s.blocks for s in matmuls(4096, 257, 4096)} == {True}
    for schedule in matmuls(4096, 256, 4096):
        if "n" not in schedule.blocks:
            assert 0 < schedule.tensors["n"] < 256 and not schedule.order


def test_a_processor_with_one_block_needs_no_loop() -> None:
    """Nor one with up to four whose matmuls have one step: these are tried both ways."""

    def modes(m: int, n: int, k: int, step: int) -> set[str]:
        return {
            s.persistent for s in matmuls(m, n, k)
            if (s.blocks.get("m"), s.blocks.get("n")) == (64, 64) and s.tensors["k"] == step
            and "k" not in s.blocks
        }  # fmt: skip

    assert modes(64 * 11, 64 * 12, 1024, 64) == {"off"}
    assert modes(64 * 7, 64 * 19, 1024, 64) == {"on"}
    assert modes(64 * 7, 64 * 19, 64, 0) == {"on", "off"}
    assert modes(64 * 22, 64 * 24, 64, 0) == {"on", "off"}
    assert modes(64 * 23, 64 * 23, 64, 0) == {"on"}
    assert modes(64 * 22, 64 * 24, 64, 32) == {"on"}


@for_each(
    ("k", "steps"),
    [(128, {32, 64}), (256, {64, 128}), (512, {128}), (576, set[int]()), (64, {16, 32})],
)
def test_warpgroups_alternate_where_matmuls_have_two_to_four_steps(k: int, steps: set[int]) -> None:
    alternating = [s for s in matmuls(4096, 4096, k) if s.persistent == "pingpong"]
    assert values(alternating, "tensors", "k") == steps or not steps | set(alternating)
    assert {(s.blocks["m"], s.blocks["n"], s.num_warps) for s in alternating} <= {(128, 128, 4)}


def test_orders_of_matmuls() -> None:
    """In groups of columns, or row by row, first what is estimated to be better; with few blocks
    column by column."""

    def orders(m: int, n: int, k: int) -> list[str]:
        return list(dict.fromkeys(
            levels(s) for s in matmuls(m, n, k) if s.blocks.get("m") == s.blocks.get("n") == 128
            and "k" not in s.blocks
        ))  # fmt: skip

    grouped = "n:n_in_group/8, m, n_in_group"
    assert orders(2048, 2048, 128) == ["m, n", grouped]
    assert orders(2048, 2048, 1023) == ["m, n", grouped]
    assert orders(2048, 2048, 1024) == [grouped, "m, n"]
    assert orders(1920, 2048, 128) == ["n, m"]
    assert orders(2048, 1920, 128) == ["n, m"]


def test_batches_of_matmuls_are_blocks_of_one() -> None:
    source = """Func f; In A, B; Var h, m, n; RVar k;
    f[h, m, n] = rdot(A[h, m, k], B[k, n], k); f.compile();"""
    schedules = schedules_of(source, "f = w4", f16(3, 256, 128), f16(128, 256))
    assert values(schedules, "blocks", "h") == {1}
    assert all(not s.order or s.order[0].label == "h" for s in schedules)


def test_a_deep_matmul_is_split_for_one_or_two_blocks_of_a_processor() -> None:
    """In powers of two, of 256 at least."""

    def parts(m: int, n: int, k: int, tile: tuple[int, int]) -> set[int]:
        return {
            s.blocks["k"] for s in matmuls(m, n, k)
            if "k" in s.blocks and (s.blocks["m"], s.blocks["n"]) == tile
        }  # fmt: skip

    assert parts(64, 64, 16384, (64, 64)) == {256}
    assert parts(64, 64, 1 << 17, (64, 64)) == {1024, 512}
    assert parts(512, 512, 16384, (64, 64)) == {8192, 4096}
    assert parts(704, 768, 16384, (64, 64)) == {8192}
    assert parts(1024, 1152, 16384, (64, 64)) == set()
    assert parts(64, 64, 256, (64, 64)) == set()


def test_a_matmul_without_rows_has_one_schedule() -> None:
    source = """Func f; In A, B; Var h; RVar k, m, n;
    f[h] = rsum(rsum(rdot(A[h, m, k], B[k, n], k), n), m); f.compile();"""
    (schedule,) = schedules_of(source, "f = w4", f16(3, 256, 257), f16(257, 256))
    assert schedule.tensors == {"h": 0, "m": 0, "n": 0, "k": 64} and not schedule.blocks


# Causal masks -------------------------------------------------------------------------------------


def attention(heads: int, positions: int, mask: bool = True) -> list[Schedule]:
    score = "rdot(Q[h, m, k], K[h, k, l], k) * scale"
    source = d.FLASH.replace(score, f"where(l <= reshape(m, m, 1), {score}, -inf)")
    key = Tensor(F16, (heads, 64, positions), (positions * 64, 1, 64))
    query = f16(heads, positions, 64)
    schedules = schedules_of(source if mask else d.FLASH, HEADS, query, key, query, 0.1)
    return [s for s in schedules if s.online and s.blocks["m"] == 128 and s.num_warps == 8]


def test_the_longest_rows_of_a_mask_come_first() -> None:
    schedules = [s for s in attention(24, 1024) if "n" not in s.blocks]
    assert values(schedules, "reverse") == {frozenset("m")}
    orders = {levels(s) for s in schedules}
    assert {"m, h", "h, m"} <= orders and len(orders) <= 3
    assert all(o.startswith("h:h_in_group/") and o.endswith("m, h_in_group")
               for o in orders - {"m, h", "h, m"})  # fmt: skip


def test_few_instances_of_a_mask_need_one_order() -> None:
    schedules = [s for s in attention(8, 1024) if "n" not in s.blocks]
    assert {levels(s) for s in schedules} == {"m, h"}


def test_rows_of_equal_length_are_not_reversed() -> None:
    assert values(attention(24, 1024, mask=False), "reverse") == {frozenset()}
