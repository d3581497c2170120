"""Layouts against their definition, by listing every thread and register."""

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.backend.thread_coordinates import coordinates
from tests.sizes import for_each
from tileir import TileirError
from tileir.layout import Layout, Repeat, layout
from tileir.layout_text import parse_layout
from tileir.layout_tilings import blocked_layout

SHAPES = [(1,), (7,), (48,), (192,), (931,), (4096,), (3, 5), (64, 192), (16, 200), (16, 176),
          (4, 8, 16), (2, 3, 4, 5, 6)]  # fmt: skip


def owners_by_coordinate(it: Layout) -> dict[tuple[int, ...], list[tuple[int, int, int]]]:
    owners: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
    threads = (range(it.size(a)) for a in ("warp", "lane", "register"))
    for warp, lane, register in itertools.product(*threads):
        owners.setdefault(it.coordinate(register, lane, warp), []).append((warp, lane, register))
    return owners


@st.composite
def layouts(draw):
    rank = draw(st.integers(1, 3))
    dims = st.one_of(st.none(), st.integers(0, rank - 1))
    counts = st.sampled_from([2, 3, 4, 5, 6, 8])
    axes = st.sampled_from(["register", "lane", "warp"])
    repeats = draw(st.lists(st.builds(Repeat, axes, counts, dims), max_size=5))
    size = prod(r.count for r in repeats)
    return layout(rank, repeats=tuple(repeats if size <= 4096 else repeats[:2]))


@pytest.mark.sampled(13)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warps", [1, 4, 12])
@pytest.mark.parametrize("vector", [1, 4])
def test_blocked_covers_the_shape_once_per_replica(shape, warps, vector):
    order = tuple(reversed(range(len(shape))))
    it = blocked_layout(shape, order, vector, warps)
    owners = owners_by_coordinate(it)
    assert set(itertools.product(*map(range, shape))) <= set(owners)
    assert it.size("lane") == 32 and it.size("warp") == warps
    assert len({len(h) for h in owners.values()}) == 1


@pytest.mark.parametrize(
    ("shape", "warps"), [((64, 192), 12), ((16, 200), 1), ((32, 176), 2), ((192,), 1), ((96,), 1)]
)
def test_blocked_is_exact_where_repetitions_cover(shape, warps):
    it = blocked_layout(shape, tuple(reversed(range(len(shape)))), 4, warps)
    if shape != (16, 200):
        assert it.extents == shape


def test_neighbouring_lanes_hold_neighbouring_vectors():
    it = blocked_layout((4096,), (0,), 4, 8)
    assert [it.coordinate(0, lane)[0] for lane in range(32)] == list(range(0, 128, 4))
    assert [it.coordinate(r)[0] for r in range(4)] == [0, 1, 2, 3]


@given(layouts())
def test_text_round_trip(it):
    assert parse_layout(str(it)) == it


@pytest.mark.slow
@given(layouts(), st.data())
def test_slice_forgets_one_coordinate(it, data):
    dim = data.draw(st.integers(0, it.rank - 1))
    sliced = it.slice(dim)
    for lane, warp in itertools.product(range(it.size("lane")), range(it.size("warp"))):
        whole = {it.coordinate(r, lane, warp) for r in range(it.size("register"))}
        rest = {sliced.coordinate(r, lane, warp) for r in range(sliced.size("register"))}
        assert rest == {(*v[:dim], *v[dim + 1 :]) for v in whole}


@pytest.mark.slow
@given(layouts(), st.data())
def test_transpose_permutes_coordinates(it, data):
    order = tuple(data.draw(st.permutations(range(it.rank))))
    turned = it.transpose(order)
    for index in itertools.product(*(range(it.size(a)) for a in ("register", "lane", "warp"))):
        assert turned.coordinate(*index) == tuple(it.coordinate(*index)[d] for d in order)
    assert turned.transpose(tuple(order.index(d) for d in range(it.rank))) == it


@pytest.mark.slow
@given(layouts(), st.data())
def test_expand_dims_adds_a_zero(it, data):
    dim = data.draw(st.integers(0, it.rank))
    wide = it.expand_dims(dim)
    for index in itertools.product(*(range(it.size(a)) for a in ("register", "lane", "warp"))):
        v = it.coordinate(*index)
        assert wide.coordinate(*index) == (*v[:dim], 0, *v[dim:])
    assert wide.slice(dim) == it


@pytest.mark.parametrize(("old", "new"), [((64, 32), (2048,)), ((16, 16), (4, 8, 8))])
def test_reshape_keeps_row_major_order(old, new):
    it = blocked_layout(old, (1, 0), 4, 4)
    moved = it.reshape(old, new)
    assert moved is not None

    def flat(v, shape):
        index = 0
        for x, n in zip(v, shape, strict=True):
            index = index * n + x
        return index

    for index in itertools.product(range(it.size("register")), range(32), range(4)):
        assert flat(it.coordinate(*index), old) == flat(moved.coordinate(*index), new)


SPLIT = [((48, 32), (48, 4, 8)), ((3, 16, 8), (3, 128)), ((32, 24), (4, 8, 24)),
         ((6, 16, 5), (6, 2, 8, 5)), ((6, 8, 4, 7), (6, 32, 7)), ((12, 1), (12,)), ((6,), (6, 1)),
         ((8, 8), (8, 8)), ((64, 160), (64, 20, 8)), ((20, 8, 64), (160, 64)), ((48, 32), (1536,)),
         ((6, 24), (6, 3, 8)), ((5, 48, 7), (5, 3, 4, 4, 7)), ((1, 6), (6,)), ((4, 1, 6), (4, 6)),
         ]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("old", "new"), SPLIT)
def test_reshape_of_some_dimensions_leaves_the_others_as_they_are(old, new):
    """Of any extent, whole or padded."""
    it = blocked_layout(old, tuple(reversed(range(len(old)))), 4, 4)
    moved = it.reshape(old, new)
    assert moved is not None
    whole = [range(it.size(a)) for a in ("register", "lane", "warp")]
    tile = np.arange(prod(old)).reshape(old)
    for index in itertools.product(*whole):
        place, other = it.coordinate(*index), moved.coordinate(*index)
        inside = all(x < n for x, n in zip(place, old, strict=True))
        assert inside == all(x < n for x, n in zip(other, new, strict=True))
        assert not inside or tile[place] == tile.reshape(new)[other]


@pytest.mark.parametrize(
    ("old", "new"),
    [((6, 24), (144,)), ((6, 24), (2, 3, 24)), ((160, 8), (2, 640)), ((64, 96), (64, 2, 48))],
)
def test_reshape_is_no_layout_where_later_dimensions_repeat(old, new):
    assert blocked_layout(old, (1, 0), 4, 4).reshape(old, new) is None


def test_reshape_drops_no_dimension_that_is_padded():
    """Whose padding would count as elements."""
    assert layout(2, lane=((1, 0), (0, 1))).reshape((2, 1), (2,)) is None
    assert layout(2, lane=((1, 0), (2, 0))).reshape((4, 1), (4,)) == layout(1, lane=((1,), (2,)))


def test_canonical_form_is_unique():
    ways = [
        layout(1, repeats=(Repeat("lane", 32, 0), Repeat("warp", 4, 0), Repeat("register", 6, 0))),
        layout(1, repeats=(Repeat("lane", 32, 0), Repeat("warp", 2, 0), Repeat("warp", 2, 0),
                           Repeat("register", 2, 0), Repeat("register", 3, 0))),
    ]  # fmt: skip
    assert ways[0] == ways[1] and hash(ways[0]) == hash(ways[1])


@for_each(
    "text",
    [
        "",
        "layout",
        "layout(",
        "layout(rank = 1",
        "layout(rank = 99)",
        "layout(rank = 1, x = [])",
        "layout(rank = 1, lane = [[1, 2]])",
        "layout(rank = 1, repeat = [warp 0 @ 0])",
        "layout(rank = 1, repeat = [warp 2 @ 1])",
        "layout(rank = 1) rest",
        "layout(rank = -1)",
        "layout(rank = 1, lane = [[1]], lane = [[1]])",
        "layout(rank = 1, lane = [[1] [2]])",
    ],
)
def test_malformed_text_is_refused(text):
    with pytest.raises(TileirError) as caught:
        parse_layout(text)
    assert caught.value.code == "TIR0701"


def test_coordinates_of_all_threads_are_those_of_each():
    it = layout(
        2, [(0, 1), (3, 4)], [(1, 0), (2, 0), (0, 2), (4, 0), (8, 8)], [(16, 0)],
        repeats=(Repeat("register", 3, 1), Repeat("warp", 2, 0)),
    )  # fmt: skip
    for register in range(it.size("register")):
        for thread, coordinate in enumerate(coordinates(it, register)):
            assert coordinate == it.coordinate(register, thread % 32, thread // 32)
