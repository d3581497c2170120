"""Conversions by matrix loads and stores: every element arrives, without bank conflicts, with and
without the instructions, and dots outside of loops read their operands so."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import product
from operator import lt
from typing import Any

import attrs
import pytest

from tests.backend.test_layout_conversion import Counting, numbered_tile, numbers
from tests.sizes import few_or_all
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.conversion import pass_through
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory import conversion_staging
from tileir.backend.shared_memory.bank_conflicts import wavefronts
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.shared_memory.conversion_staging import ConversionStaging, staging
from tileir.backend.shared_memory.matrix_staging import matrix_stagings
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import Builder, arg, pointer
from tileir.layout import Layout, layout
from tileir.layout_fragments import mma_operand, mma_result
from tileir.layout_tilings import blocked_layout
from tileir.ops.gpu import ConvertLayout
from tileir.types import BF16, F16, F32, I8, Element, Tile
from tileir.values import Value

SHAPE = (64, 64)


def cases() -> dict[str, tuple[Any, Element, Layout, Layout]]:
    """Tiles from and to fragments; of one warp and of several, some of which own the same."""
    by_name: dict[str, tuple[Any, Element, Layout, Layout]] = {}
    for element, width in ((BF16, 8), (F32, 4), (I8, 16)):
        for warps in ((1, 1), (2, 2), (4, 1)):
            result = mma_result(SHAPE, warps)
            operands = {n: mma_operand(n, element, SHAPE, warps) for n in ("a", "b")}
            for order in ((1, 0), (0, 1)):
                blocked = blocked_layout(SHAPE, order, width, warps[0] * warps[1])
                name = f"{element} {warps} {order}"
                by_name[f"{name} result"] = SHAPE, element, result, blocked
                for n, operand in operands.items():
                    by_name[f"{name} {n}"] = SHAPE, element, blocked, operand
            for n, operand in operands.items():
                by_name[f"{element} {warps} result {n}"] = SHAPE, element, result, operand
    odd = 48, 96
    by_name["repeated"] = (
        odd, F16, blocked_layout(odd, (1, 0), 8, 3), mma_operand("a", F16, odd, (3, 1))
    )  # fmt: skip
    small = 16, 16
    by_name["one matrix at a time"] = (
        (8, 8), F16, layout(2, ((0, 1),), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))),
        layout(2, ((1, 0),), ((2, 0), (4, 0), (0, 1), (0, 2), (0, 4))),
    )  # fmt: skip
    by_name["two matrices at a time"] = (
        (16, 8), F16, blocked_layout((16, 8), (1, 0), 4, 1), mma_operand("b", F16, (16, 8), (1, 1))
    )  # fmt: skip
    for element, width in ((F16, 8), (F32, 4), (I8, 16)):
        for shape, warps in (((128, 64), 4), ((32, 128), 2), ((64, 64), 1)):
            rows, columns = (blocked_layout(shape, o, width, warps) for o in ((1, 0), (0, 1)))
            by_name[f"{element} {shape} transposed"] = shape, element, rows, columns
    for seed in range(12):
        shape, source, target = drawn_layouts(random.Random(seed))
        by_name[f"drawn {seed}"] = shape, (F16, F32, I8)[seed % 3], source, target
    by_name["warps own the same"] = (
        small, F16, blocked_layout(small, (1, 0), 2, 4), mma_operand("b", F16, small, (4, 1))
    )  # fmt: skip
    return by_name


def drawn_layouts(choose: random.Random) -> tuple[tuple[int, int], Layout, Layout]:
    """Two layouts of a tile, whose bits move registers, lanes and warps in any order."""
    bits = [choose.randint(3, 6) for _ in range(2)]
    bits[1] = max(bits[1], 9 - bits[0])
    units = [(1 << i, 0) for i in range(bits[0])] + [(0, 1 << i) for i in range(bits[1])]
    warps = choose.randint(0, 2)
    drawn = []
    for _ in range(2):
        choose.shuffle(units)
        drawn.append(layout(2, units[5 + warps :], units[:5], units[5 : 5 + warps]))
    return (1 << bits[0], 1 << bits[1]), drawn[0], drawn[1]


def lowering_of(
    shape: Any, element: Element, source: Layout, target: Layout, machine: str, need: int
) -> Lowering:
    b = Builder()
    with b.kernel("k"):
        pass
    module = b.module()
    op = ConvertLayout(Value(Tile(element, shape, source)), layout=target)
    warps = source.size("warp")
    thread, function = Counting(32 * warps, SimtMemory(need)), module.functions["k"]
    target_machine = target_named(machine.partition(" ")[0])
    if machine.endswith("without"):
        target_machine = attrs.evolve(target_machine, ldmatrix=False, stmatrix=False)
    return Lowering(module, function, target_machine, thread, AccessWidths(function),
                    {op: 0}, {}, warps)  # fmt: skip


CASES = cases()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("machine", ["sm_90", "sm_80", "sm_90 without"])
@pytest.mark.parametrize("name", CASES)
def test_every_element_arrives(name: str, machine: str) -> None:
    """By matrix loads and stores, and by ordinary ones of the same addresses where there are no
    such instructions."""
    shape, element, source, target = CASES[name]
    for staged in matrix_stagings(source, target, shape, element.bytes):
        lowering = lowering_of(shape, element, source, target, machine, staged.bytes_at_once)
        source_values = list(numbered_tile(lowering.thread, source, shape, element))
        actual = pass_through(lowering, source_values, element, staged, 0)
        expected = numbered_tile(lowering.thread, target, shape, element)
        for x, y, number in zip(actual, expected, numbers(target, shape), strict=True):
            where = number >= 0
            assert x.array[where].tobytes() == y.array[where].tobytes()


@pytest.mark.parametrize("step", few_or_all(4, 1))
def test_offsets_of_lanes_are_those_of_their_elements(step: int) -> None:
    """Where the bits of a lane contribute by exclusive or, and where lanes repeat, are in several
    boxes, or own padding: the last tile is smaller than what its source covers."""
    shape, wide = (64, 64), blocked_layout((64, 128), (1, 0), 4, 4)
    tiles = [*[*CASES.values()][::step], (shape, F16, wide, blocked_layout(shape, (1, 0), 8, 4))]
    linear: Counter[bool] = Counter()
    for shape, element, source, target in tiles:
        size = element.bytes
        ways = staging(source, target, shape, size), *matrix_stagings(source, target, shape, size)
        for staged, side in product(ways, (source, target)):
            linear[conversion_staging._lane_columns(staged, side) is not None] += 1
            for register in range(0, side.size("register"), 3):
                at = [side.coordinate(register, lane) for lane in range(side.size("lane"))]
                expected = [
                    staged.offset(v) if all(map(lt, v, staged.covered)) else None for v in at
                ]
                assert conversion_staging._offsets(staged, side, register, len(at)) == expected
    assert linear[True] and linear[False]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_matrix_are_in_different_banks(name: str) -> None:
    shape, element, source, target = CASES[name]
    for staged in matrix_stagings(source, target, shape, element.bytes):
        for side in (staged.source, staged.target):
            if (access := side.matrices) is None:
                continue
            moved = sorted(r for _, registers in access.accesses for r in registers)
            assert moved == list(range(side.layout.size("register")))
            for start, _ in access.accesses:
                at = [
                    staged.offset(access.rows.coordinate(start, i)) for i in range(8 * access.count)
                ]
                assert not any(x % 16 for x in at)
                assert wavefronts(at, 16) == access.count


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_operands_of_16_bits_are_loaded_as_matrices(operand: str, order: tuple[int, int]) -> None:
    """Four at a time, contiguous along K or not, after stores of 16 bytes."""
    source = blocked_layout(SHAPE, order, 8, 4)
    target = mma_operand(operand, BF16, SHAPE, (2, 2))
    plan = conversion(Tile(BF16, SHAPE, source), target)
    assert isinstance(plan, ConversionStaging)
    assert plan.target.matrices is not None
    assert plan.target.matrices.count == 4
    assert plan.source.vector == 8
    assert plan.target.matrices.transposed == (order != ((1, 0) if operand == "a" else (0, 1)))


def test_transposed_tiles_of_16_bits_are_loaded_as_matrices() -> None:
    """Both sides access 16 bytes at once. Without matrices, one of them accesses single
    elements."""
    shape = 128, 128
    source, target = (blocked_layout(shape, order, 8, 4) for order in ((1, 0), (0, 1)))
    plan = conversion(Tile(F16, shape, source), target)
    assert isinstance(plan, ConversionStaging)
    assert plan.target.matrices is not None
    assert plan.target.matrices.count == 4
    assert plan.source.vector == 8


@pytest.mark.parametrize(
    ("rows", "size", "matrices"), [(16, 2, True), (8, 2, False), (16, 4, False)]
)
def test_transposed_matrices_are_four_and_of_16_bits(rows: int, size: int, matrices: bool) -> None:
    """Lanes of fewer rows own fewer words; an element of 32 bits is a word."""
    shape = rows, 16
    source, target = (blocked_layout(shape, order, 8, 1) for order in ((1, 0), (0, 1)))
    ways = list(matrix_stagings(source, target, shape, size))
    assert bool(ways) == matrices
    assert all(way.source.matrices is None for way in ways)


def test_lanes_that_own_the_same_name_no_rows() -> None:
    """Not all rows would be read."""
    lanes = [(0,), *((8 << i,) for i in range(4))]
    source = layout(1, ((1,), (2,), (4,)), lanes)
    target = layout(1, ((64,), (32,), (1,)), [(0,), (2,), (4,), (8,), (16,)])
    assert not list(matrix_stagings(source, target, (128,), 2))


def test_results_of_16_bits_are_stored_as_matrices() -> None:
    source, target = mma_result(SHAPE, (2, 2)), blocked_layout(SHAPE, (1, 0), 8, 4)
    plan = conversion(Tile(BF16, SHAPE, source), target)
    assert isinstance(plan, ConversionStaging)
    assert plan.source.matrices is not None
    assert plan.target.vector == 8


def test_dots_outside_of_loops_read_operands_as_matrices() -> None:
    """Both orders of both operands; the result is stored as matrices and written 16 bytes wide."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=kind, y=kind, z=kind) as (x, y, z):
        rows, columns = b.arange(64)[:, None], b.arange(64)[None, :]
        p = (x + (rows * 64 + columns)).load()
        q = (y + (columns * 64 + rows)).load()
        total = b.dot(p, q, b.full((64, 64), 0.0, F32))
        (z + (rows * 64 + columns)).store(total.to(F16))
    text = compile_kernel(b.module(), "sm_90", options={"num_warps": 2}).ptx
    assert "ldmatrix" in text and "stmatrix" in text
    assert not re.search(r"ld\.shared(\.v2)?\.[bus](16|32)", text)


def test_the_tile_of_eight_warps_is_converted_at_once() -> None:
    """128 x 256 elements of 16 bits, a usual tile of two warpgroups, are stored and loaded as
    matrices. In several steps, matrix instructions are not used, and each step reads all
    registers."""
    shape = 128, 256
    rows, result = blocked_layout(shape, (1, 0), 8, 8), mma_result(shape, (8, 1))
    for source, target in ((rows, result), (result, rows)):
        plan = conversion(Tile(BF16, shape, source), target)
        assert isinstance(plan, ConversionStaging) and plan.iterations == 1
        assert plan.bytes_at_once == 65536
        fragment = plan.source if source is result else plan.target
        assert fragment.matrices is not None and fragment.matrices.count == 4


@pytest.mark.parametrize("shape", [(8, 16), (24, 32), (8, 32)])
def test_fragments_with_padding_are_not_accessed_by_matrices(shape: tuple[int, int]) -> None:
    """Their rows would begin outside of the bytes of the tile."""
    fragment, it = mma_operand("a", F16, shape, (1, 1)), blocked_layout(shape, (1, 0), 8, 1)
    assert fragment.extents != shape == it.extents
    assert list(matrix_stagings(it, fragment, shape, 2)) == []
    assert list(matrix_stagings(fragment, it, shape, 2)) == []
