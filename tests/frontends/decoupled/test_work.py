"""The work of kernels under their schedules, counted by hand: instances, steps, bytes, words."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.builder import F32
from tileir.frontends.decoupled import Tensor, parse
from tileir.frontends.decoupled.fusion import groups
from tileir.frontends.decoupled.nodes import Access, Reduction
from tileir.frontends.decoupled.split_reductions import cut
from tileir.frontends.decoupled.traffic import KernelWork, uses_of

from . import definitions as d
from .costs import f16, f32, product, use_of, work

SHARED = 227 * 1024


# Instances and steps ------------------------------------------------------------------------------


def test_elements_are_counted_in_whole_blocks() -> None:
    """Of 10 x 1000 elements in blocks of 4 x 256 and tiles of 1 x 64."""
    one = work(d.RELU, "relu_out = x:4/1 y:256/64", f32(10, 1000))
    assert one.instances == 3 * 4
    assert one.steps() == 4 * 4
    amounts = {use.dims: count for use, count in one.amounts() if isinstance(use.node, Access)}
    assert amounts == {("x", "y"): 4 * 256 * 12}
    read = use_of(one, "A")
    assert [one.block(n) for n in "xy"] == [one.span(n, read) for n in "xy"] == [4, 256]
    assert [one.tensor(n, read) for n in "xy"] == [1, 64]


@for_each(
    ("schedule", "sizes"),
    [("y:/0", 70), ("y:/70", 70), ("y:/128", 70), ("y:/69", 69), ("y:", 1), ("y:/1", 1)],
)
def test_a_tensor_size_is_at_most_what_a_block_goes_through(schedule: str, sizes: int) -> None:
    schedule = "" if schedule == "y:" else schedule
    one = work(d.RELU, f"relu_out = x:2 {schedule}", f32(4, 70))
    assert one.tensor("y", use_of(one, "A")) == sizes


def test_steps_of_a_reduction_repeat_in_the_loops_around_a_matmul() -> None:
    assert product("m:64/0 n:32/0 k:/16").steps() == 1 + 4
    assert product("m:64/0 n:32/0 k:/0").steps() == 1 + 1
    assert product("m:64/32 n:32/0 k:/16").steps() == 2 + 2 * 4
    assert product("m:64/0 n:96/32 k:/24").steps() == 3 + 3 * 3


def test_steps_of_rows_are_those_of_both_passes() -> None:
    fused = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; softmax_out = "
    assert work(d.SOFTMAX, fused + "x:2/0 y:/16", f32(10, 64)).steps() == 4 + 4
    assert work(d.SOFTMAX, fused + "x:2/0 y:/0", f32(10, 64)).steps() == 1 + 1
    assert work(d.SOFTMAX, fused + "x:2/1 y:/16", f32(10, 64)).steps() == 2 * 4 + 4


def test_an_inner_matmul_is_repeated_for_each_tile_that_its_outer_one_has() -> None:
    """That over k does not depend on n, the sum over l around it does."""
    sizes = f16(128, 48), f16(48, 96), f16(96, 64)
    one = work(d.INNER_2MM, "_2mm = m:64/0 n:/32 k:/16 l:/32", *sizes)
    assert (one.repeats(use_of(one, "k")), one.repeats(use_of(one, "l"))) == (2, 1)
    assert one.steps() == 2 + 2 * (96 / 32 + 2 * 48 / 16)
    whole = work(d.INNER_2MM, "_2mm = m:64/0 n:/0 k:/16 l:/32", *sizes)
    assert whole.repeats(use_of(whole, "k")) == 1
    rows = work(d.INNER_2MM, "_2mm = m:64/16 n:/0 k:/16 l:/32", *sizes)
    assert rows.repeats(use_of(rows, "k")) == 1


def test_values_of_matmuls_are_counted_for_each_instance() -> None:
    one = product("m:64/0 n:32/0 k:/16")
    counted = {
        use.node.name if isinstance(use.node, Access) else use.label: count
        for use, count in one.amounts()
    }
    assert counted == {"k": 64 * 32 * 6, "A": 64 * 64 * 6, "B": 64 * 32 * 6}
    assert one.depth(use_of(one, "k")) == (64, 16)
    assert product("m:64/0 n:32/0 k:/0").depth(use_of(one, "k")) == (64, 64)
    assert product("m:64/0 n:32/0 k:/100").depth(use_of(one, "k")) == (64, 64)


def test_parts_of_a_split_reduction_are_of_its_blocks() -> None:
    program = parse(d.ROW_TOTALS).with_schedule("sum_out.block(k:128); sum_out.tensorize(k:32);")
    plan = program.function().plan(f32(3, 1000))
    (own,) = groups(program.definitions, "sum_out")
    part, joined = cut(own, plan.sizes, {}).groups
    first = KernelWork(part, plan.sizes, plan.tensors, {}, uses_of(part, {}))
    assert first.instances == 8
    assert first.depth(use_of(first, "k")) == (128, 32)
    assert first.span("k", use_of(first, "A")) == 128 and first.steps() == 3 + 128 / 32
    assert first.traffic().requested["A"] == 3 * 128 * 4 * 8
    last = KernelWork(joined, plan.sizes, plan.tensors, {}, uses_of(joined, {}))
    assert last.instances == 1 and last.depth(use_of(last, "k.block")) == (8, 8)


# Warps and stages ---------------------------------------------------------------------------------


@for_each(
    ("schedule", "roles", "alone"),
    [
        ("m:64/0 n:32/0 k:/16", True, True),
        ("m:32/0 n:64/0 k:/16", False, False),
        ("m:63/0 n:64/0 k:/16", False, False),
        ("m:64/0 n:32/0 k:/16 roles(off)", False, False),
        ("m:64/0 n:32/0 k:/16 persistent(off)", True, False),
        ("m:64/0 n:32/0 k:/16 persistent(pingpong)", True, True),
    ],
)
def test_matmuls_of_64_rows_have_roles(schedule: str, roles: bool, alone: bool) -> None:
    one = product(schedule)
    assert one.matmuls and (one.roles, one.alone) == (roles, alone)


def test_kernels_without_matmuls_have_no_roles() -> None:
    one = work(d.RELU, "relu_out = x:64/0 y:64/0", f32(128, 128))
    assert not one.matmuls and not one.roles and not one.alone


@for_each(
    ("rows", "columns", "stated", "warps"),
    [
        (64, 128, "", 4),
        (128, 128, "", 4),
        (128, 160, "", 4),  # 160 words of accumulators for each of 128 threads
        (128, 176, "", 8),
        (128, 256, "", 8),
        (256, 256, "", 8),
        (128, 128, "w8", 8),
        (64, 128, "w8", 4),  # a warp has at least 16 rows
        (64, 256, "w1", 4),
        (256, 64, "w16", 16),
        (32, 256, "w8", 8),  # without roles it has what is stated
        (32, 256, "", 4),
    ],
)
def test_accumulators_of_large_tiles_take_two_warpgroups(
    rows: int, columns: int, stated: str, warps: int
) -> None:
    one = product(f"m:{rows}/0 n:{columns}/0 k:/16 {stated}", m=512, n=1024)
    assert one.warps == warps


def test_elementwise_kernels_have_the_warps_stated() -> None:
    assert work(d.RELU, "relu_out = x:1 w16", f32(4, 4)).warps == 16
    assert work(d.RELU, "relu_out = x:1", f32(4, 4)).warps == 4


def test_with_roles_as_many_stages_as_shared_memory_holds() -> None:
    """Next to the result, or without it where no two fit next to it; eight at most."""
    sizes = {"m": 512, "n": 512, "k": 512}
    step = (128 + 128) * 64 * 2
    half = product("m:128/0 n:128/0 k:/64 s2", **sizes, matmul="float16")  # type: ignore[arg-type]
    assert half.stages() == (SHARED - 128 * 128 * 2) // step == 6
    single = product("m:128/0 n:128/0 k:/64 s2", **sizes)
    assert single.stages() == (SHARED - 128 * 128 * 4) // step == 5
    assert product("m:128/0 n:128/0 k:/16", **sizes).stages() == 8
    large = product("m:256/0 n:128/0 k:/128", **sizes)
    assert (SHARED - 256 * 128 * 4) // (384 * 128 * 2) == 1
    assert large.stages() == SHARED // (384 * 128 * 2) == 2


def test_without_roles_as_many_stages_as_stated() -> None:
    assert product("m:32/0 n:128/0 k:/16 s2").stages() == 2
    assert product("m:32/0 n:128/0 k:/16").stages() == 3
    assert work(d.RELU, "relu_out = x:1 s4", f32(4, 4)).stages() == 1
    sizes = f16(128, 48), f16(48, 96), f16(96, 64)
    assert work(d.INNER_2MM, "_2mm = m:64/0 n:/0 k:/16 l:/32 s2", *sizes).stages() == 2


# Bytes --------------------------------------------------------------------------------------------


def test_bytes_that_instances_load_and_store() -> None:
    """The last blocks load what is masked, too; a result is stored once."""
    moved = work(d.RELU, "relu_out = x:4/1 y:256/64", f32(10, 1000)).traffic()
    assert moved.footprint == {"relu_out": 40000, "A": 40000}
    assert moved.requested == {"relu_out": 40000, "A": 4 * 256 * 4 * 12}
    assert (moved.step, moved.kept) == (64 * 4, 0)
    assert {n: t.dims for n, t in moved.touched.items()} == {
        "relu_out": ("x", "y"), "A": ("x", "y"),
    }  # fmt: skip
    assert moved.touched["A"].bytes == 4 * 256 * 4
    assert moved.touched["relu_out"].bytes == pytest.approx(40000 / 12)


def test_operands_of_matmuls_are_loaded_by_every_block_of_the_other_dimension() -> None:
    moved = product("m:64/0 n:32/0 k:/16").traffic()
    assert moved.requested == {"matmul": 128 * 96 * 4, "A": 128 * 64 * 2 * 3, "B": 64 * 96 * 2 * 2}
    assert moved.footprint == {"matmul": 128 * 96 * 4, "A": 128 * 64 * 2, "B": 64 * 96 * 2}
    assert (moved.step, moved.kept) == ((64 * 16 + 16 * 32) * 2, 0)
    assert {n: t.dims for n, t in moved.touched.items()} == {
        "matmul": ("m", "n"), "A": ("m",), "B": ("n",),
    }  # fmt: skip
    assert moved.touched["A"].bytes == 64 * 64 * 2 and moved.touched["B"].bytes == 64 * 32 * 2


def test_operands_that_no_step_changes_are_kept() -> None:
    moved = product("m:64/0 n:32/0 k:/0").traffic()
    assert (moved.step, moved.kept) == (0, (64 * 64 + 64 * 32) * 2)
    moved = product("m:64/0 n:96/32 k:/0").traffic()
    assert (moved.step, moved.kept) == (64 * 32 * 2, 64 * 64 * 2)


@for_each(
    ("columns", "waste"), [("y:1", 8), ("y:2/0", 4), ("y:8/0", 1), ("y:16/0", 1), ("y:16/4", 2)]
)
def test_bytes_come_in_segments_of_32(columns: str, waste: int) -> None:
    moved = work(d.RELU, f"relu_out = x:4/0 {columns}", f32(64, 64)).traffic()
    assert moved.requested["A"] == 64 * 64 * 4 * waste == moved.footprint["A"]
    assert moved.requested["relu_out"] == 64 * 64 * 4


def test_rows_of_a_transposed_tensor_are_its_columns() -> None:
    turned = Tensor(F32, (64, 64), (1, 64))
    assert work(d.RELU, "relu_out = x:4/0 y:8/0", turned).traffic().requested["A"] == 2 * 64**2 * 4
    assert work(d.RELU, "relu_out = x:8/0 y:1", turned).traffic().requested["A"] == 64**2 * 4


def test_a_row_that_two_passes_need_is_counted_once_where_tiles_are_the_same() -> None:
    fused = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; softmax_out = "
    whole = work(d.SOFTMAX, fused + "x:2/0 y:/0", f32(10, 64)).traffic()
    assert whole.requested == {"softmax_out": 2560, "A": 2560}
    tiled = work(d.SOFTMAX, fused + "x:2/0 y:/16", f32(10, 64)).traffic()
    assert tiled.requested == {"softmax_out": 2560, "A": 2 * 2560}
    assert tiled.touched["A"].dims == ("x",)


@for_each(
    ("schedule", "expected"),
    [
        ("x:4/0 y:256/0", 256 * 4),  # the next instance has other rows
        ("x:4/0 y:256/0 map(x, y)", 10 * 1000 * 4),  # blocks along rows, then further rows
        ("x:4/0 y:/0", 10 * 1000 * 4),
        ("x:1 y:100/0 map(y, x)", 100 * 4),
        ("x:1 y:100/0 map(x:xi/2, y, xi)", 100 * 4),
        ("x:1 y:100/0 map(y:yi/2, x, yi)", 200 * 4),
    ],
)
def test_neighbouring_instances_access_bytes_in_a_row(schedule: str, expected: int) -> None:
    one = work(d.RELU, f"relu_out = {schedule}", f32(10, 1000))
    assert one.contiguous_bytes() == expected


def test_the_largest_tensor_decides_which_bytes_are_in_a_row() -> None:
    one = product("m:64/0 n:32/0 k:/16", m=128, n=96, k=4096)
    assert one.contiguous_bytes() == 128 * 4096 * 2  # rows of A, all that an instance reads
    one = product("m:64/0 n:32/0 k:/16", m=2048, n=2048, k=16)
    assert one.contiguous_bytes() == 32 * 4


# Live values --------------------------------------------------------------------------------------


def test_the_largest_tiles_are_live_at_the_same_time() -> None:
    """Of a matmul its result and what is not an operand; of elements those of two smaller shapes
    take half."""
    assert product("m:64/0 n:32/0 k:/16").live() == pytest.approx(1.1 * 64 * 32)
    one = work(d.RELU, "relu_out = x:4/2 y:256/64", f32(10, 1000))
    assert one.live() == pytest.approx(1.1 * 128 + 0.5 * 1)
    fused = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; softmax_out = "
    one = work(d.SOFTMAX, fused + "x:2/0 y:/16", f32(10, 64))
    assert one.live() == pytest.approx(1.1 * 32 + 0.5 * 2)


def test_comparisons_are_not_live() -> None:
    source = "Func f; In A, B; Var x, y; f[x, y] = where(A[x, y] < B[y], 1, 2); f.compile();"
    one = work(source, "f = x:4/0 y:8/0", f32(4, 8), f32(8))
    assert one.live() == pytest.approx(1.1 * 32 + 0.5 * (8 + 1))


def test_reductions_of_matrices_are_matmuls_of_their_kind() -> None:
    one = product("m:64/0 n:32/0 k:/16")
    node = use_of(one, "k").node
    assert isinstance(node, Reduction) and [str(one.kind(v)) for v in node.values] == ["f16"] * 2
    assert str(one.kind(node)) == "f32"
