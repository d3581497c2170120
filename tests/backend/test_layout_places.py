"""Products, quotients and movements of small layouts, by listing every one of them."""

from __future__ import annotations

import itertools

import pytest

from tests.sizes import for_each
from tileir.layout import AXES, Layout, Repeat, Vector, layout
from tileir.layout_algebra import HardwareCoordinate, divide, invert, pack, product, unpack
from tileir.layout_fragments import wgmma_operand, wgmma_result
from tileir.types import F16, F32, I8, Scalar

STEPS: list[Vector] = [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (3, 0)]
COUNTED = [
    layout(2, repeats=repeats)
    for repeats in (
        (Repeat("register", 3, 0),),
        (Repeat("lane", 3, 1),),
        (Repeat("warp", 5, None),),
        (Repeat("register", 6, 0),),
        (Repeat("register", 3, 0), Repeat("lane", 5, 0)),
        (Repeat("lane", 5, 0), Repeat("register", 3, 0)),
        (Repeat("lane", 3, 0), Repeat("lane", 3, 1)),
        (Repeat("lane", 3, 1), Repeat("lane", 3, 0)),
        (Repeat("register", 3, 0), Repeat("warp", 3, None), Repeat("register", 3, 1)),
    )
]
BITS = [
    layout(
        2, *[(one,) if axis == "register" else (other,) if axis == "lane" else () for axis in AXES]
    )
    for one, other in itertools.product(STEPS, STEPS)
] + [layout(2, (), (one, other)) for one, other in itertools.product(STEPS, STEPS)]


def places(it: Layout) -> list[tuple[Vector, Vector]]:
    """Every place, and what it holds."""
    indices = itertools.product(*(range(it.size(axis)) for axis in AXES))
    return [(index, it.coordinate(*index)) for index in indices]


@pytest.mark.parametrize("inner", COUNTED, ids=str)
def test_a_layout_product_puts_the_inner_one_at_every_place_of_the_outer(inner: Layout) -> None:
    count = 0
    for outer in [*BITS, *COUNTED]:
        whole = product(inner, outer)
        if whole is None:
            continue
        count += 1
        for (where, v), (index, w) in itertools.product(places(inner), places(outer)):
            at = [i + n * inner.size(a) for a, i, n in zip(AXES, where, index, strict=True)]
            expected = tuple(x + y * n for x, y, n in zip(v, w, inner.extents, strict=True))
            assert whole.coordinate(*at) == expected, (str(outer), at)
        quotient = divide(whole, inner)
        assert quotient is not None and product(inner, quotient) == whole, str(outer)
    assert count > 20


def test_a_quotient_of_layouts_of_which_none_begins_the_other_is_none() -> None:
    refused = 0
    for whole, inner in itertools.product(COUNTED, COUNTED):
        quotient = divide(whole, inner)
        refused += quotient is None
        assert quotient is None or product(inner, quotient) == whole
        assert (whole == inner) <= (quotient is not None)
    assert refused > 40


@for_each("it", [*COUNTED, *BITS[::7]])
@for_each("dim", [0, 1, 2])
def test_a_new_dimension_has_one_place(it: Layout, dim: int) -> None:
    wide = it.expand_dims(dim)
    for index, v in places(it):
        assert wide.coordinate(*index) == (*v[:dim], 0, *v[dim:])
    assert wide.slice(dim) == it


def test_the_first_element_is_at_the_first_place() -> None:
    assert HardwareCoordinate() == HardwareCoordinate(0, 0, 0, 0)
    for it in [*COUNTED, *BITS]:
        assert invert(it).place((0, 0)) == HardwareCoordinate()


@pytest.mark.parametrize("widths", [(0,), (3,), (1, 2), (2, 0, 1), (1, 1, 1, 2)])
def test_a_packed_vector_is_unpacked(widths: Vector) -> None:
    vectors = list(itertools.product(*(range(1 << w) for w in widths)))
    packed = [pack(v, widths) for v in vectors]
    assert [unpack(p, widths) for p in packed] == vectors
    assert sorted(packed) == list(range(1 << sum(widths)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [(4, 1), (8, 1), (4, 2), (12, 1)])
@pytest.mark.parametrize(("element", "word"), [(F32, 1), (F16, 2), (I8, 4)])
def test_operands_in_registers_have_the_rows_of_their_result(
    element: Scalar, word: int, warps: Vector
) -> None:
    """PTX ISA, wgmma: a warpgroup of 4 warps has 64 rows, each warp 16 of them."""
    for m in (64, 256):
        operand = wgmma_operand(element, (m, 8 * word), warps)
        result = wgmma_result((m, 8 * warps[1]), warps)
        assert operand.extents[0] == result.extents[0] >= m
        for warp in range(warps[0] * warps[1]):
            rows, others = (
                {
                    it.coordinate(r, lane, warp)[0]
                    for r in range(it.size("register"))
                    for lane in range(32)
                }
                for it in (operand, result)
            )
            assert rows == others
