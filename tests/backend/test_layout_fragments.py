"""Fragments against the formulas of the PTX ISA, element by element."""

import itertools

import pytest

from tests.sizes import for_each
from tileir.layout_fragments import mma_operand, mma_result, wgmma_operand, wgmma_result
from tileir.layout_text import parse_layout
from tileir.types import BF16, F8E4M3, F16, F32, F64, I8


def group(lane):
    return lane // 4, lane % 4


def check(it, count, formula):
    """`formula(lane, i)` is row and column of element `i` of one instruction's fragment."""
    assert it.size("register") == count
    for lane, i in itertools.product(range(32), range(count)):
        assert it.coordinate(i, lane) == formula(lane, i), (lane, i)
    assert parse_layout(str(it)) == it


# Matrix Fragments for mma.m16n8k*, A: rows groupID and groupID + 8, alternating by word.
@for_each(
    ("element", "k", "word"),
    [
        (F32, 4, 1),
        (F32, 8, 1),
        (F64, 4, 1),
        (F64, 8, 1),
        (F64, 16, 1),
        (F16, 8, 2),
        (BF16, 16, 2),
        (I8, 16, 4),
        (F8E4M3, 32, 4),
    ],
)
def test_operands_of_m16n8(element, k, word):
    def a(lane, i):
        g, t = group(lane)
        return g + 8 * (i // word % 2), t * word + i % word + 4 * word * (i // (2 * word))

    def b(lane, i):
        g, t = group(lane)
        return t * word + i % word + 4 * word * (i // word), g

    check(mma_operand("a", element, (16, k), (1, 1)), 16 * k // 32, a)
    check(mma_operand("b", element, (k, 8), (1, 1)), 8 * k // 32, b)


def test_result_of_m16n8():
    check(mma_result((16, 8), (1, 1)), 4,
          lambda lane, i: (group(lane)[0] + 8 * (i // 2), group(lane)[1] * 2 + i % 2))  # fmt: skip


def test_m8n8k4():
    check(mma_operand("a", F64, (8, 4), (1, 1), rows=8), 1, lambda lane, _: group(lane))
    check(mma_operand("b", F64, (4, 8), (1, 1), rows=8), 1, lambda lane, _: group(lane)[::-1])
    check(mma_result((8, 8), (1, 1), rows=8), 2,
          lambda lane, i: (group(lane)[0], group(lane)[1] * 2 + i))  # fmt: skip


@pytest.mark.parametrize("n", [8, 16, 176, 256])
def test_wgmma_accumulator(n):
    it = wgmma_result((64, n), (4, 1))
    assert it.extents == (64, n) and it.size("register") == n // 2
    for warp, lane, i in itertools.product(range(4), range(32), range(n // 2)):
        g, t = group(lane)
        row, column = 16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2
        assert it.coordinate(i, lane, warp) == (row, column)
    assert parse_layout(str(it)) == it


@pytest.mark.parametrize(("element", "word"), [(F32, 1), (F16, 2), (I8, 4)])
def test_wgmma_operand_from_registers(element, word):
    it = wgmma_operand(element, (64, 8 * word), (4, 2))
    assert it.size("warp") == 8
    for warp, lane, i in itertools.product(range(8), range(32), range(4 * word)):
        g, t = group(lane)
        row = 16 * (warp % 4) + g + 8 * (i // word % 2)
        assert it.coordinate(i, lane, warp) == (
            row,
            t * word + i % word + 4 * word * (i // (2 * word)),
        )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(64, 48), (2, 32, 64), (48, 200)])
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 3)])
def test_warps_of_operands_follow_the_result(shape, warps):
    """A warp holds the rows of A and the columns of B that its part of the result needs."""
    *batch, m, n = shape
    counts = (*(1 for _ in batch), *warps)
    result = mma_result(shape, counts)
    a = mma_operand("a", F16, (*batch, m, 32), counts)
    b = mma_operand("b", F16, (*batch, 32, n), counts)
    for warp in range(warps[0] * warps[1]):
        coordinates = [
            {it.coordinate(r, lane, warp) for r in range(it.size("register")) for lane in range(32)}
            for it in (result, a, b)
        ]
        assert {v[-2] for v in coordinates[0]} == {v[-2] for v in coordinates[1]}
        assert {v[-1] for v in coordinates[0]} == {v[-1] for v in coordinates[2]}
        assert (
            {v[:-2] for v in coordinates[0]}
            == {v[:-2] for v in coordinates[1]}
            == {v[:-2] for v in coordinates[2]}
        )
        assert {v[-1] for v in coordinates[1]} == set(range(32)) == {v[-2] for v in coordinates[2]}


@pytest.mark.parametrize(("batch", "counts"), [((), ()), ((6,), (2,)), ((2, 3), (1, 3))])
def test_warpgroups_hold_the_rows_of_their_result(batch, counts):
    """Every row of each matrix, in whole, where the result has it."""
    result = wgmma_result((*batch, 64, 8), (*counts, 4, 1))
    a = wgmma_operand(F16, (*batch, 64, 16), (*counts, 4, 1))
    assert a.extents == (*batch, 64, 16) and a.size("warp") == result.size("warp")
    for warp in range(a.size("warp")):
        rows, coordinates = (
            {it.coordinate(r, lane, warp) for r in range(it.size("register")) for lane in range(32)}
            for it in (result, a)
        )
        assert {v[:-1] for v in rows} == {v[:-1] for v in coordinates}
        assert coordinates == {(*v[:-1], k) for v in rows for k in range(16)}


def test_what_does_not_fit_is_refused():
    for make in (lambda: mma_result((16,), (1,)), lambda: mma_result((16, 8), (1,)),
                 lambda: mma_operand("c", F16, (16, 8), (1, 1)),
                 lambda: wgmma_result((64, 8), (2, 1)),
                 lambda: mma_result((2, 16, 8), (-1, -1, 4)),
                 lambda: wgmma_operand(F16, (64, 8), (1, 1))):  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            make()
