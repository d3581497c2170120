"""Results of reductions that the lanes which share a row divide, on threads and in generated
code."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from tests.backend.test_layout_scan import check, machine
from tests.backend.test_reduction_layouts import (
    NUMPY,
    drawn_layout,
    drawn_numbers,
    reference,
    values_of,
)
from tests.sizes import few_or_all, for_each
from tileir import interpret
from tileir.backend import compile as compile_module
from tileir.backend.codegen.emit.reduction import reduce_tile
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.reduction_plan import divided_result, is_divided, warps_along
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.layout_tilings import blocked_layout
from tileir.ops.reduce import Combiner, Reduce
from tileir.types import I1, I64, Tile
from tileir.values import Value

ROWS = blocked_layout((32, 64), (1, 0), 8, 2)
"""A thread has 8 neighbours of a row, and every eighth row; 8 lanes share a row."""


def reduction(it, shape, axis, element=I64, combiner=Combiner.ADD, predicate=None):
    value = Value(Tile(element, shape, it))
    return Reduce((value,), axis=axis, combiner=combiner, predicate=predicate)


def test_the_layout_of_rows():
    """Two bits of the register become two of the lanes that shared a row."""
    op = reduction(ROWS, (32, 64), 1)
    divided = divided_result(op, ROWS)
    assert ROWS.slice(1).size("register") == 4
    assert divided is not None and divided.size("register") == 1
    assert divided.lane == ((0,), (8,), (16,), (1,), (2,)) and divided.warp == ROWS.slice(1).warp


def test_results_that_are_not_divided():
    """Several warps share a row; no lanes do; no thread has two rows; one instruction reduces
    integers across the warp; registers are not counted in bits."""
    shared = blocked_layout((1, 2048), (1, 0), 8, 4)
    assert (
        warps_along(shared, 1) == 4
        and divided_result(reduction(shared, (1, 2048), 1), shared) is None
    )
    columns = blocked_layout((32, 4), (0, 1), 1, 1)
    assert divided_result(reduction(columns, (32, 4), 1), columns) is None
    single = blocked_layout((4, 64), (1, 0), 8, 1)
    assert divided_result(reduction(single, (4, 64), 1), single) is None
    whole = blocked_layout((8, 128), (1, 0), 4, 1)
    assert divided_result(reduction(whole, (8, 128), 1, I32), whole) is None
    assert divided_result(reduction(whole, (8, 128), 1, F32, Combiner.FADD), whole) is not None
    three = blocked_layout((12, 64), (1, 0), 8, 1)
    assert divided_result(reduction(three, (12, 64), 1), three) is None


def test_an_op_is_divided_by_its_type():
    op = reduction(ROWS, (32, 64), 1)
    assert not is_divided(op)
    for it, divided in ((ROWS.slice(1), False), (divided_result(op, ROWS), True)):
        typed = op.with_fields(results=(Value(Tile(I64, (32,), it)),))
        assert is_divided(typed) == divided


@pytest.mark.parametrize("count", few_or_all(60, 1500))
def test_divided_results_of_generated_layouts(count):
    divided = 0
    for seed in range(count):
        choose = random.Random(seed)
        it, axis = drawn_layout(choose), choose.randrange(2)
        shape = tuple(
            n if choose.random() < 0.5 else choose.randint(n // 2 + 1, n) for n in it.extents
        )
        combiner = choose.choice(list(NUMPY))
        numbers, taking, predicate = drawn_numbers(choose, I64, shape), np.ones(shape, bool), None
        if choose.random() < 0.4:
            predicate = Value(Tile(I1, shape, it))
            taking = np.random.default_rng(seed).random(shape) < choose.choice((0.1, 0.9))
        op = reduction(it, shape, axis, I64, combiner, predicate)
        target = divided_result(op, it)
        if target is None:
            continue
        divided += 1
        rest = (*shape[:axis], *shape[axis + 1 :])
        op = op.with_fields(results=(Value(Tile(I64, rest, target)),))
        lowering = machine(0, it.size("warp"))
        lowering.values[op.values[0]] = values_of(it, numbers, numbers.dtype.type(77))
        if predicate is not None:
            lowering.values[predicate] = values_of(it, taking, True)
        (result,) = reduce_tile(lowering, op)
        assert len(result) == target.size("register") < it.slice(axis).size("register")
        check(target, result, reference(numbers, taking, combiner, axis))
    assert divided > count // 40


def sums_of_rows(rows, columns, use):
    """A kernel that stores what `use` computes from the sums of the rows of a matrix. If `use` is
    None, it stores the sums, and subtracts them from the elements."""
    b = Builder()
    pointers = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **pointers) as (x, y, z):
        row, column = b.arange(rows), b.arange(columns)
        at = row[:, None] * columns + column[None, :]
        tile = (x + at).load()
        total = tile.sum(axis=1)
        (y + row).store(use(total) if use is not None else total)
        if use is None:
            (z + at).store(tile - total[:, None])
    return b.module()


def stores_and_shuffles(module, warps):
    ptx = compile_module(module, "sm_90a", options={"num_warps": warps}).ptx
    return len(re.findall(r"st\.global", ptx)), len(re.findall(r"shfl", ptx))


def check_run(module, rows, columns, warps):
    kind = np.float32
    x = np.random.default_rng(0).integers(-8, 8, rows * columns).astype(kind)
    results = []
    for launch in ("simt", "interpreter"):
        y, z = np.zeros(rows, kind), np.zeros_like(x)
        if launch == "simt":
            SimtExecutor().launch(module, None, 1, [x, y, z], num_warps=warps)
        else:
            interpret(module, "k", (1,), {"x": x, "y": y, "z": z})
        results.append((y, z))
    for simulated, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(simulated, expected)
    assert results[0][0].any()


@for_each(
    ("rows", "columns", "warps", "shuffles"),
    [(128, 128, 4, 31), (64, 64, 4, 8), (32, 256, 2, 16), (16, 64, 1, 8)],
)
def test_rows_that_are_only_stored_are_stored_by_one_instruction(rows, columns, warps, shuffles):
    """Lanes that share a row exchange half of the sums in each step. Each thread computes with
    the rows that it stores."""
    module = sums_of_rows(rows, columns, lambda total: total * 2.0 + 1.0)
    stores, exchanged = stores_and_shuffles(module, warps)
    assert (stores, exchanged) == (1, shuffles)
    check_run(module, rows, columns, warps)


def test_rows_that_the_tile_needs_again_are_in_every_lane():
    module = sums_of_rows(64, 64, None)
    whole = sums_of_rows(64, 64, lambda total: total)
    assert stores_and_shuffles(module, 4)[1] > stores_and_shuffles(whole, 4)[1]
    check_run(module, 64, 64, 4)


def test_a_loop_carries_the_rows_that_a_thread_stores():
    b = Builder()
    pointers = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    with b.kernel("k", n=I32, **pointers) as (n, x, y):
        row, column = b.arange(64), b.arange(64)
        at, sums = row[:, None] * 64 + column[None, :], b.var(b.zeros(64))
        with b.for_(0, n) as i:
            sums.set(sums.get() + (x + (at + i * 4096)).load().sum(axis=1))
        (y + row).store(sums.get())
    module = b.module()
    assert stores_and_shuffles(module, 4) == (1, 8)
    x = np.random.default_rng(0).integers(-8, 8, (3, 64, 64)).astype(np.float32)
    y = np.zeros(64, np.float32)
    SimtExecutor().launch(module, None, 1, [3, x.reshape(-1), y], num_warps=4)
    np.testing.assert_array_equal(y, x.sum(axis=(0, 2)))


def test_results_of_one_op_are_in_one_layout():
    """The index of the largest element is stored; the element is not used."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(I32), aligned=16)) as (x, y):
        row, column = b.arange(64), b.arange(64)
        tile = (x + (row[:, None] * 64 + column[None, :])).load()
        (y + row).store(tile.argmax(axis=1))
    ptx = compile_module(b.module(), "sm_90a", options={"num_warps": 4}).ptx
    assert "st.shared" not in ptx
