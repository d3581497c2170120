"""Conversions that transpose matrices within a warp: every element arrives, with and without the
instruction, and a layout that differs in any other way has no such plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from tests.backend.test_layout_conversion import machine, numbered_tile, numbers
from tests.backend.test_shuffle_plans import elements, random_layouts
from tests.sizes import few_or_all
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.conversion import convert, transpose_tile
from tileir.backend.codegen.lowering import Fragment
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.matrix_transposes import TransposePlan, transposition
from tileir.backend.shared_memory.conversion_plan import conversion, repetitions
from tileir.builder import Builder, arg, pointer
from tileir.layout import Layout, Repeat, layout
from tileir.types import BF16, F16, F32, I8, I16, Element, Tile

PAIRS = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
"""Lanes of a fragment whose neighbours are elements of a row."""

ROWS = ((2, 0), (4, 0), (0, 1), (0, 2), (0, 4))
"""Lanes of a fragment whose neighbours are elements of a column."""

ROW_PAIRS = layout(2, ((0, 1), (0, 8), (8, 0)), PAIRS)
COLUMN_PAIRS = layout(2, ((1, 0), (8, 0), (0, 8)), ROWS)


def with_warps(it: Layout, *warps: tuple[int, int]) -> Layout:
    return layout(2, it.register, it.lane, warps)


def with_parts(it: Layout, *parts: Repeat) -> Layout:
    return layout(2, it.register, it.lane, it.warp, repeats=parts)


Case = tuple[tuple[int, int], Layout, Layout]
"""The shape of a tile, and the layouts to convert from and to."""

CASES: dict[str, Case] = {
    "one matrix": ((8, 8), layout(2, ((0, 1),), PAIRS), layout(2, ((1, 0),), ROWS)),
    "four matrices": ((16, 16), ROW_PAIRS, COLUMN_PAIRS),
    "back": ((16, 16), COLUMN_PAIRS, ROW_PAIRS),
    "neighbours last": (
        (16, 16), layout(2, ((8, 0), (0, 8), (0, 1)), PAIRS),
        layout(2, ((0, 8), (8, 0), (1, 0)), ROWS),
    ),
    "sums of registers": (
        (16, 16), layout(2, ((0, 1), (8, 8), (8, 0)), PAIRS),
        layout(2, ((1, 0), (8, 0), (0, 8)), ROWS),
    ),
    "warps": ((32, 16), with_warps(ROW_PAIRS, (16, 0)), with_warps(COLUMN_PAIRS, (16, 0))),
    "warps own the same": (
        (16, 16), with_warps(ROW_PAIRS, (0, 0)), with_warps(COLUMN_PAIRS, (0, 0))
    ),
    "parts": (
        (48, 16), with_parts(ROW_PAIRS, Repeat("register", 3, 0)),
        with_parts(COLUMN_PAIRS, Repeat("register", 3, 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("element", [F16, BF16, I16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_element_arrives(name: str, element: Element) -> None:
    shape, source, target = CASES[name]
    plan = transposition(source, target)
    assert plan is not None
    lowering, _ = machine(shape, source, element, target)
    parts = repetitions(source)

    def by_instruction(fragment: Fragment) -> Fragment:
        return transpose_tile(lowering, fragment, element, plan, parts)

    check_converted(lowering, by_instruction, (shape, source, target), element)
    assert not any(lowering.thread.counts.values())


@pytest.mark.parametrize("ldmatrix", [False, True])
@pytest.mark.parametrize("name", ["one matrix", "four matrices", "back", "warps"])
def test_it_replaces_shuffles_where_there_is_the_instruction(name: str, ldmatrix: bool) -> None:
    shape, source, target = CASES[name]
    assert isinstance(conversion(Tile(F16, shape, source), target), TransposePlan)
    lowering, op = machine(shape, source, F16, target)
    lowering.target = attrs.evolve(lowering.target, ldmatrix=ldmatrix)

    def by_conversion(fragment: Fragment) -> Fragment:
        return convert(lowering, op, fragment, op.source.type, target)

    check_converted(lowering, by_conversion, CASES[name], F16)
    assert bool(lowering.thread.counts["shuffles"]) is not ldmatrix
    assert lowering.thread.counts["stores"] == 0


def check_converted(
    lowering: Any, convert: Callable[[Fragment], Fragment], case: Case, element: Element
) -> None:
    """Convert a tile, and compare every element."""
    shape, source, target = case
    converted = convert(list(numbered_tile(lowering.thread, source, shape, element)))
    expected = list(numbered_tile(lowering.thread, target, shape, element))
    for x, y, number in zip(converted, expected, numbers(target, shape), strict=True):
        where = number >= 0
        assert x.array[where].tobytes() == y.array[where].tobytes()


def carried_out(plan: TransposePlan, owned: np.ndarray, registers: int) -> np.ndarray:
    """What the registers of one warp hold after the transpositions; -1 is nothing."""
    result = np.full((32, registers), -1)
    for read, written in zip(plan.source, plan.target, strict=True):
        result[:, list(written)] = owned[:, list(read)].reshape(8, 8).T.reshape(32, 2)
    return result


def transposed_layouts(chance: random.Random) -> tuple[Layout, Layout]:
    """A layout of any vectors, and one that a transposition makes of it, with registers in any
    order; in one of two cases one vector of it is another one."""
    more = chance.randrange(4)
    units = [1 << i for i in range(6 + more)]
    chance.shuffle(units)
    for i in range(1, len(units)):
        if chance.random() < 0.3:
            units[i] ^= units[i - 1]
    neighbour, *lanes = units[:6]
    registers, others = [neighbour, *units[6:]], [lanes[2], *units[6:]]
    chance.shuffle(registers)
    chance.shuffle(others)
    target_lanes = [*lanes[3:], neighbour, *lanes[:2]]
    if chance.random() < 0.5:
        part = chance.choice((others, target_lanes))
        part[chance.randrange(len(part))] ^= chance.choice(units)
    sides = ((registers, lanes), (others, target_lanes))
    source, target = (layout(1, *(tuple((x,) for x in y) for y in side)) for side in sides)
    return source, target


@pytest.mark.parametrize("count", few_or_all(400, 4000))
def test_a_plan_fills_every_register(count: int) -> None:
    planned = 0
    for seed in range(count):
        chance = random.Random(seed)
        draw = chance.choice((transposed_layouts, transposed_layouts, random_layouts))
        source, target = draw(chance)
        plan = transposition(source, target)
        if plan is not None:
            planned += 1
            for owned, expected in zip(elements(source), elements(target), strict=True):
                actual = carried_out(plan, owned, expected.shape[1])
                np.testing.assert_array_equal(actual, expected, err_msg=f"seed {seed}")
    assert count // 5 < planned < count * 3 // 5


OTHERS = {
    "pairs of lanes": layout(2, COLUMN_PAIRS.register, ((4, 0), (2, 0), *ROWS[2:])),
    "rows in other lanes": layout(2, COLUMN_PAIRS.register, (*ROWS[:2], (0, 2), (0, 1), (0, 4))),
    "rows are no neighbours": layout(2, ((16, 0), (8, 0), (0, 8)), ROWS),
    "another register": layout(2, ((1, 0), (8, 0), (0, 16)), ROWS),
    "fewer registers": layout(2, ((1, 0), (8, 0)), ROWS),
    "warps": with_warps(COLUMN_PAIRS, (0, 16)),
    "parts": with_parts(COLUMN_PAIRS, Repeat("register", 3, 0)),
    "fewer lanes": layout(2, (*COLUMN_PAIRS.register, (0, 4)), ROWS[:4]),
    "not transposed": ROW_PAIRS,
}


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_layout_has_no_plan(name: str) -> None:
    assert transposition(ROW_PAIRS, OTHERS[name]) is None


def test_neighbours_that_no_thread_has_cannot_be_transposed() -> None:
    alone = layout(2, ((0, 8), (8, 0), (0, 16)), PAIRS)
    assert transposition(alone, COLUMN_PAIRS) is None


def test_registers_that_hold_the_same_are_not_transposed() -> None:
    """Which of them would fill the others' place is not said."""
    same = layout(2, ((0, 1), (0, 8), (8, 0), (8, 8)), PAIRS)
    assert transposition(same, layout(2, ((1, 0), (8, 0), (0, 8), (8, 8)), ROWS)) is None


@pytest.mark.parametrize("element", [I8, F32], ids=str)
def test_matrices_have_elements_of_16_bits(element: Element) -> None:
    plan = conversion(Tile(element, (16, 16), ROW_PAIRS), COLUMN_PAIRS)
    assert not isinstance(plan, TransposePlan)


def test_the_result_of_a_dot_becomes_the_right_operand_of_the_next() -> None:
    b = Builder()
    buffers = {name: arg(pointer(F16), aligned=16) for name in "abc"}
    with b.kernel("k", **buffers) as (x, y, z):
        place = b.arange(16)[:, None] * 16 + b.arange(16)[None, :]
        left, right = (x + place).load(), (y + place).load()
        first = b.dot(left, right, b.zeros((16, 16), F32))
        second = b.dot(left, first.to(F16), b.zeros((16, 16), F32))
        (z + place).store(second.to(F16))
    module, options = b.module(), {"num_warps": 1}
    compiled = compile_kernel(module, "sm_80", options)
    assert compiled.ptx.count("movmatrix.sync.aligned.m8n8.trans.b16") == 4
    assert "shfl.sync" not in compiled.ptx and compiled.cubin
    chance = np.random.default_rng(0)
    left, right = (chance.integers(-2, 3, (16, 16)).astype(np.float16) for _ in range(2))
    result = np.zeros_like(left)
    SimtExecutor().launch(module, None, 1, [left, right, result], target="sm_80", **options)
    np.testing.assert_array_equal(result, left @ (left @ right))
