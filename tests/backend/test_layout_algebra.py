"""The algebra of layouts against what listing every place says."""

import itertools
from math import prod

import pytest
from hypothesis import given, settings, strategies as st

from tileir.layout import AXES, Layout, Repeat, layout
from tileir.layout_algebra import (
    HardwareCoordinate,
    compose,
    covers,
    divide,
    equal_up_to_registers,
    invert,
    product,
    register_order,
    replication,
)
from tileir.layout_bits import (
    Subspace,
    apply,
    common_complement,
    complement,
    intersection,
    inverse,
    kernel,
    multiply,
    solve,
)
from tileir.layout_shared import dense, elements, offset, padded_layout, swizzled_layout
from tileir.layout_text import parse_layout
from tileir.layout_tilings import blocked_layout, hierarchical

VECTORS = st.lists(st.integers(0, 31), max_size=6)


def span_of(vectors):
    span = {0}
    for v in vectors:
        span |= {v ^ x for x in span}
    return span


@given(VECTORS, VECTORS)
def test_intersection_is_what_both_span(a, b):
    basis = intersection(a, b)
    assert span_of(basis) == span_of(a) & span_of(b)
    assert len(Subspace.of(basis)) == len(basis)


@given(VECTORS, VECTORS)
def test_common_complement_is_disjoint_from_both(a, b):
    complement = common_complement(a, b, 5)
    assert span_of(complement) & span_of(a) == {0} == span_of(complement) & span_of(b)
    assert (
        len(complement)
        == 5 - max(len(Subspace.of(a)), len(Subspace.of(b)))
        == len(Subspace.of(complement))
    )


@given(VECTORS)
def test_complement_and_kernel_count_dimensions(a):
    rank = len(Subspace.of(a))
    assert len(Subspace.of([*a, *complement(a, 5)])) == 5
    assert len(complement(a, 5)) == 5 - rank
    zeros = kernel(a)
    assert len(zeros) == len(a) - rank and all(apply(a, z) == 0 for z in zeros)
    assert len(Subspace.of(zeros)) == len(zeros)


@given(VECTORS, st.integers(0, 31))
def test_solve_finds_a_combination_where_there_is_one(a, v):
    solution = solve(a, v)
    assert (solution is not None) == (v in span_of(a))
    if solution is not None:
        assert apply(a, solution) == v


@given(VECTORS)
def test_inverse_undoes(a):
    for bit, image in enumerate(inverse(a, 5)):
        if image is None:
            assert 1 << bit not in span_of(a)
        else:
            assert multiply(a, [image]) == (1 << bit,)


@st.composite
def layouts(draw, axes=("register", "lane", "warp"), rank=None):
    """Atoms with swizzles and replicas, repetitions in any order."""
    rank = draw(st.integers(1, 3)) if rank is None else rank
    atoms = {axis: [] for axis in AXES}
    for _ in range(draw(st.integers(0, 5))):
        vector = tuple(draw(st.integers(0, 7)) for _ in range(rank))
        atoms[draw(st.sampled_from(axes))].append(vector)
    dims = st.one_of(st.none(), st.integers(0, rank - 1))
    repeats = draw(st.lists(st.builds(Repeat, st.sampled_from(axes), st.integers(2, 6), dims),
                            max_size=3))  # fmt: skip
    return layout(rank, *(tuple(atoms[a]) for a in AXES), repeats=tuple(repeats))


def places(it: Layout):
    for index in itertools.product(*(range(it.size(axis)) for axis in AXES)):
        yield HardwareCoordinate(*index), it.coordinate(*index)


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_inverse_names_an_owner_exactly_where_there_is_one(it):
    owners = {}
    for place, coordinate in places(it):
        owners.setdefault(coordinate, []).append(place)
    inverse = invert(it)
    for coordinate in itertools.product(*(range(n) for n in it.extents)):
        place = inverse.place(coordinate)
        assert (place is not None) == (coordinate in owners), coordinate
        assert place is None or place in owners[coordinate]
    assert {len(v) for v in owners.values()} == {replication(it)}
    shape = tuple(max(1, n - 1) for n in it.extents)
    expected = set(itertools.product(*map(range, shape)))
    assert covers(it, shape) == (expected <= set(owners))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(layouts(rank=2), layouts(rank=2))
def test_layout_product_tiles_and_divide_undoes(inner, outer):
    whole = product(inner, outer)
    if whole is None:
        assert inner.repeats
        return
    scale = inner.extents
    assert whole.extents == tuple(a * b for a, b in zip(scale, outer.extents, strict=True))
    for axis in AXES:
        assert whole.size(axis) == inner.size(axis) * outer.size(axis)
    expected = sorted(
        tuple(a + b * n for a, b, n in zip(v, w, scale, strict=True))
        for _, v in places(inner)
        for _, w in places(outer)
    )
    assert sorted(v for _, v in places(whole)) == expected
    quotient = divide(whole, inner)
    assert quotient is not None and product(inner, quotient) == whole


@settings(max_examples=60, deadline=None)
@given(layouts(rank=2), layouts(rank=2))
def test_divide_refuses_what_does_not_divide(whole, inner):
    quotient = divide(whole, inner)
    assert quotient is None or product(inner, quotient) == whole


@settings(max_examples=80, deadline=None)
@given(layouts(("register",), rank=2), layouts(rank=1))
def test_composition_is_one_after_the_other(outer, inner):
    composition = compose(outer, inner)
    if composition is None:
        return
    for place, (index,) in places(inner):
        expected = outer.coordinate(index)
        assert (
            composition.coordinate(place.register, place.lane, place.warp, place.block) == expected
        )


def test_composition_of_a_walk_and_shared_memory():
    tile = swizzled_layout((64, 64), 8, 1, 8)
    walk = blocked_layout((4096,), (0,), 8, 4)
    composition = compose(tile, walk)
    assert composition is not None and parse_layout(str(composition)) == composition
    for lane, register in itertools.product(range(32), range(8)):
        assert (
            offset(tile, composition.coordinate(register, lane))
            == walk.coordinate(register, lane)[0]
        )


@pytest.mark.parametrize(
    ("walk", "expected"),
    [
        ((("register", 6), ("lane", 5)), (("register", 6, 1), ("lane", 5, 0))),
        ((("lane", 2), ("register", 3), ("lane", 5)),
         (("lane", 2, 1), ("register", 3, 1), ("lane", 5, 0))),
        ((("lane", 3), ("register", 2), ("lane", 5)), None),
    ],
)  # fmt: skip
def test_walks_over_rows_of_six_go_along_whole_digits(walk, expected):
    tile = layout(2, repeats=(Repeat("register", 6, 1), Repeat("register", 5, 0)))
    line = layout(1, repeats=tuple(Repeat(axis, count, 0) for axis, count in walk))
    composition = compose(tile, line)
    if expected is None:
        assert composition is None
    else:
        assert composition == layout(2, repeats=tuple(Repeat(*step) for step in expected))


@given(st.permutations(range(3)))
def test_registers_in_any_order_are_equal(order):
    vectors = [(0, 1), (0, 2), (8, 0)]
    lanes = ((0, 4), (0, 8), (1, 0), (2, 0), (4, 0))
    a = layout(2, tuple(vectors), lanes)
    b = layout(2, tuple(vectors[i] for i in order), lanes)
    permutation = register_order(a, b)
    assert equal_up_to_registers(a, b) and permutation is not None
    assert [a.registers[r] for r in permutation] == list(b.registers)
    assert not equal_up_to_registers(a, layout(2, tuple(vectors), lanes[::-1]))
    assert not equal_up_to_registers(a, layout(2, tuple(vectors[:2]), lanes))


# Shared memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (16, 33), (3, 5, 8), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("pad", [0, 3])
def test_padded_rows_are_contiguous(shape, pad):
    it, order = padded_layout(shape, pad), tuple(range(len(shape)))
    stride = shape[-1] + (pad if len(shape) > 1 else 0)
    for place, v in enumerate(itertools.product(*map(range, shape))):
        row, column = divmod(place, shape[-1])
        assert offset(it, v) == row * stride + column
    turned = padded_layout(shape, pad, order)
    assert elements(turned) >= prod(shape)
    assert offset(turned, (1,) + (0,) * (len(shape) - 1)) == 1
    assert parse_layout(str(it)) == it


@pytest.mark.parametrize(("vector", "per_phase", "phases"), [(8, 1, 8), (8, 2, 4), (4, 1, 4)])
def test_swizzled_vectors_move_within_their_row(vector, per_phase, phases):
    it = swizzled_layout((32, 64), vector, per_phase, phases)
    for row, column in itertools.product(range(32), range(64)):
        moved = column // vector ^ row // per_phase % phases
        assert offset(it, (row, column)) == row * 64 + moved * vector + column % vector
    assert parse_layout(str(it)) == it and elements(it) == 32 * 64


def test_dense_is_padding_of_nothing():
    assert dense((4, 8)) == padded_layout((4, 8), 0)


@pytest.mark.parametrize("arguments", [(3, 1, 8), (8, 1, 16), (8, 0, 8)])
def test_no_swizzle_of_odd_numbers(arguments):
    with pytest.raises(ValueError, match="no swizzle"):
        swizzled_layout((64, 64), *arguments)


# Tilings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_hierarchical_tiles_nest(order):
    nano, lanes, warps, shape = (2, 4), (4, 8), (2, 2), (32, 192)
    it = hierarchical(shape, nano, lanes, warps, order)
    assert it.extents == shape and it.size("lane") == 32 and it.size("warp") == 4
    coordinates = {it.coordinate(r) for r in range(8)}
    assert coordinates == set(itertools.product(range(2), range(4)))
    micro = {it.coordinate(r, lane) for r in range(8) for lane in range(32)}
    assert micro == set(itertools.product(range(8), range(32)))
    assert parse_layout(str(it)) == it


@pytest.mark.parametrize(
    ("nano", "lanes", "order"),
    [((2,), (4, 8), None), ((2, 0), (4, 8), None), ((1, 1), (4, 8), (0, 0))],
)
def test_hierarchical_refuses_what_does_not_match(nano, lanes, order):
    with pytest.raises(ValueError, match="expected"):
        hierarchical((8, 8), nano, lanes, (1, 1), order)


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_threads_without_free_bits_hold_everything_once(it):
    """Of threads whose free bits, and digits that move nothing, are zero, no two hold an element,
    and together they hold what all do."""
    free = {axis: it.free_bits(axis) for axis in AXES}
    seen, first = set(), {}
    for place, coordinate in places(it):
        seen.add(coordinate)
        idle = any(getattr(place, a) & free[a] for a in AXES[1:]) or any(
            getattr(place, a) // d.weight % d.count
            for a in AXES
            for d in it.digits(a)
            if not any(d.step)
        )
        thread = (place.lane, place.warp, place.block)
        if not idle:
            first.setdefault(coordinate, set()).add(thread)
    assert seen == set(first) and all(len(threads) == 1 for threads in first.values())
