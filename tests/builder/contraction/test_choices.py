"""How contractions are computed: tiles, reductions in two steps, loops, and what elements there
are of outputs."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import BF16, F16, F32, F64, I8, I32
from tileir.builder.contraction import (
    Apply,
    Choose,
    Number,
    Program,
    Read,
    Reduce,
    Tiling,
    affine,
    contraction,
    elementwise,
)
from tileir.builder.contraction.axes import TiledAxis
from tileir.builder.contraction.kernel import _grouped_tile
from tileir.builder.contraction.solve_outputs import solve
from tileir.builder.contraction.terms import as_guarded_read
from tileir.builder.contraction.tile_sizes import tiling, walk_of
from tileir.builder.contraction.two_step_reduction import split_reduction
from tileir.textual import print_module

from .oracle import AffineBound, Tensor, at, check, indices, points_of, times, values_of


@for_each("number", (0, 1, -1, 0.5))
def test_a_choice_between_an_element_and_0_is_a_guarded_read(number):
    (i,) = indices("i")
    within = AffineBound(affine(i), 0, 5)
    element = at(Tensor("a", F32, (9,)), i)
    choice = Choose((within,), element, Number(number))
    guarded = Read(element.tensor, element.at, (within,))
    assert as_guarded_read(choice) == (choice if number else guarded)


# Tiles ------------------------------------------------------------------------------------------


def axes_and_walks(stage):
    """Indices, points and kind of every axis, and the tiles that reductions go in."""
    tiles = tiling(stage)
    axes = [("".join(map(repr, x.indices)), x.tile, x.flat) for x in tiles.axes]
    walks = [("".join(map(repr, x.indices)), x.tile, x.flat) for x in tiles.walks.values()]
    return axes, walks


def product(kind, m, n, k, batch=None):
    i, j, t, n0 = indices("ijtn")
    lead, first = ((batch,), (n0,)) if batch else ((), ())
    a, b = Tensor("a", kind, (*lead, m, k)), Tensor("b", kind, (*lead, k, n))
    c = Tensor("c", F32, (*lead, m, n))
    box = {i: range(m), j: range(n), t: range(k)} | ({n0: range(batch)} if batch else {})
    return contraction(c, (*first, i, j), "sum", times(at(a, *first, i, t), at(b, *first, t, j)),
                       box)  # fmt: skip


@for_each(("kind", "sizes", "tiles", "warps"), [
        (F16, (4096, 4096, 4096), (128, 256, 64), 8), (F16, (512, 512, 512), (64, 64, 64), 4),
        (F16, (2048, 2048, 64), (128, 256, 64), 8), (F16, (4096, 24, 4096), (64, 32, 64), 2),
        (F16, (40, 4096, 100), (64, 64, 64), 4), (F16, (20, 20, 20), (32, 32, 32), 2),
        (F32, (4096, 4096, 4096), (128, 128, 32), 8), (F32, (700, 700, 700), (64, 64, 32), 4),
        (F32, (64, 64, 64), (32, 32, 32), 2), (F64, (2048, 2048, 2048), (64, 64, 16), 4),
        (F64, (64, 64, 64), (32, 32, 16), 2), (I8, (4096, 4096, 4096), (128, 128, 64), 4),
        (I8, (512, 512, 512), (64, 64, 64), 4),
        (BF16, (9, 9, 9), (16, 16, 16), 2), (F16, (128, 256, 64, 200), (128, 256, 64), 8),
    ])  # fmt: skip
def test_tiles_of_matmuls(kind, sizes, tiles, warps):
    stage = product(kind, *sizes)
    tiling_of_stage = tiling(stage)
    (walk,) = tiling_of_stage.walks.values()
    assert (*(axis.tile for axis in tiling_of_stage.axes[-2:]), walk.tile) == tiles
    assert (tiling_of_stage.num_warps, tiling_of_stage.group, tiling_of_stage.stages) == (
        warps,
        8,
        3,
    )
    assert len(tiling_of_stage.axes) == len(sizes) - 1 and all(
        x.tile == 1 for x in tiling_of_stage.axes[:-2]
    )


@pytest.mark.parametrize("turned", [False, True])
def test_columns_are_what_the_last_index_is_of(turned):
    """Whichever operand comes first."""
    i, j, t = indices("ijt")
    a, b = Tensor("a", F16, (4096, 512)), Tensor("b", F16, (512, 24))
    operands = at(a, i, t), at(b, t, j)
    term = times(*(operands[::-1] if turned else operands))
    box = {i: range(4096), j: range(24), t: range(512)}
    stage = contraction(Tensor("c", F32, (4096, 24)), (i, j), "sum", term, box)
    assert axes_and_walks(stage)[0] == [("i", 64, False), ("j", 32, False)]


@pytest.mark.parametrize(
    ("sizes", "is_one"),
    [((8, 8, 8), True), ((7, 8, 8), False), ((8, 7, 8), False), ((8, 8, 7), False)],
)
def test_when_a_reduction_is_a_matmul(sizes, is_one):
    assert bool(tiling(product(F32, *sizes)).walks) == is_one


def convolution(size, channels, outputs, padding=1, batch=2):
    """A convolution of images by 3 x 3 taps."""
    n, x, y, o, r, s, c = indices("nxyorsc")
    image = Tensor("image", F16, (batch, size, size, channels))
    weights = Tensor("weights", F16, (3, 3, channels, outputs))
    wide = size + 2 * padding - 2
    out = Tensor("out", F16, (batch, wide, wide, outputs))
    i, j = x + r - padding, y + s - padding
    sizes = (batch, wide, wide, outputs, 3, 3, channels)
    box = dict(zip((n, x, y, o, r, s, c), map(range, sizes), strict=True))
    where = [AffineBound(i, 0, size), AffineBound(j, 0, size)]
    return contraction(out, (n, x, y, o), "sum", times(at(image, n, i, j, c),
                       at(weights, r, s, c, o)), box, where, 0)  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "axes", "walk"),
    [
        # Boxes of pixels, which waste nothing; 32 channels after the other.
        (convolution(8, 32, 64), [("n", 1), ("x", 8), ("y", 8), ("o", 64)], ("rsc", 32, False)),
        (convolution(56, 128, 256, batch=4), [("n", 2), ("x", 8), ("y", 8), ("o", 256)],
         ("rsc", 64, False)),
        # Boxes of 9 x 9 pixels would waste too much: along all as one number.
        (convolution(9, 32, 64), [("nxy", 64), ("o", 64)], ("rsc", 32, False)),
        (convolution(8, 32, 64, padding=0), [("nxy", 64), ("o", 64)], ("rsc", 32, False)),
        # 16 divides 48 channels, nothing that is worth it 18, which go with the taps as one.
        (convolution(8, 48, 64), [("n", 1), ("x", 8), ("y", 8), ("o", 64)], ("rsc", 16, False)),
        (convolution(8, 18, 64), [("n", 1), ("x", 8), ("y", 8), ("o", 64)], ("rsc", 64, True)),
    ],
)  # fmt: skip
def test_tiles_of_convolutions(stage, axes, walk):
    tiles, walks = axes_and_walks(stage)
    assert [(names, tile) for names, tile, _ in tiles] == axes
    assert [flat for _, _, flat in tiles] == [len(names) > 1 for names, _ in axes]
    assert walks == [walk]


def test_what_is_read_elsewhere_does_not_part_rows():
    """Rows of two indices go as one, whatever place of the other operand is read."""
    n, i, j, k = indices("nijk")
    a, b, where = Tensor("a", F32, (4, 8, 24)), Tensor("b", F32, (24, 18)), Tensor("w", I32, (18,))
    out = Tensor("out", F32, (4, 8, 18))
    other = Read(b, (affine(k), at(where, j)))
    box = {n: range(4), i: range(8), j: range(18), k: range(24)}
    stage = contraction(out, (n, i, j), "sum", times(at(a, n, i, k), other), box)
    assert axes_and_walks(stage)[0] == [("ni", 32, True), ("j", 32, False)]
    turned = contraction(out, (n, i, j), "sum", times(at(Tensor("t", F32, (8, 4, 24)), i, n, k),
                         other), box)  # fmt: skip
    assert axes_and_walks(turned)[0] == [("n", 4, False), ("i", 8, False), ("j", 32, False)]


@for_each("group", [1, 2, 3, 8])
@for_each(("rows", "columns"), [(1, 5), (8, 4), (9, 3), (17, 2), (7, 7)])
def test_tiles_in_groups_are_all_tiles_once(rows, columns, group):
    class Number(int):
        """A value of the builder, as far as it counts here."""

        def udiv(self, other):
            return Number(self // other)

        def urem(self, other):
            return Number(self % other)

    class Builder:
        def minimum(self, x, y):
            return min(x, y)

    tiles = [tuple(_grouped_tile(Builder(), Number(i), rows, columns, group))
             for i in range(rows * columns)]  # fmt: skip
    assert sorted(tiles) == [(r, c) for r in range(rows) for c in range(columns)]
    first = tiles[: min(group, rows) * columns]
    assert {row for row, _ in first} == set(range(min(group, rows)))
    assert [column for _, column in first] == sorted(column for _, column in first)


@pytest.mark.parametrize("batch", [None, 2])
def test_matmuls_of_many_tiles_in_groups(batch):
    i, j, t, n0 = indices("ijtn")
    lead, first = ((batch,), (n0,)) if batch else ((), ())
    a, b = Tensor("a", F32, (*lead, 40, 8)), Tensor("b", F32, (*lead, 8, 24))
    c = Tensor("c", F32, (*lead, 40, 24))
    box = {i: range(40), j: range(24), t: range(8)}
    box = ({n0: range(batch)} if batch else {}) | box
    term = times(at(a, *first, i, t), at(b, *first, t, j))
    stage = contraction(c, (*first, i, j), "sum", term, box)
    axes = [TiledAxis((e,), 8 if e[0].name in "ij" else 1) for e in stage.elements]
    program = Program((stage,), (c,), {c: Tiling(tuple(axes), group=3)})
    x = np.arange(np.prod(a.shape), dtype=np.float32).reshape(a.shape) % 5
    y = np.arange(np.prod(b.shape), dtype=np.float32).reshape(b.shape) % 7
    assert (program.run({a: x, b: y}, "interpreter")[c] == x @ y).all()


def test_tiles_of_elements():
    i, j = indices("ij")
    a, b = Tensor("a", F32, (500, 300)), Tensor("b", F32, (300, 500))
    out = Tensor("out", F32, (500, 300))
    assert axes_and_walks(elementwise(out, (i, j), at(a, i, j)))[0] == [("ij", 1024, True)]
    assert axes_and_walks(elementwise(out, (i, j), at(b, j, i)))[0] == [
        ("i", 32, False),
        ("j", 32, False),
    ]
    corner, one = Tensor("corner", F32, (5, 3)), Tensor("one", F32, ())
    assert axes_and_walks(elementwise(corner, (i, j), at(a, i, j)))[0] == [
        ("i", 8, False),
        ("j", 4, False),
    ]
    assert axes_and_walks(elementwise(one, (), Number(1.0)))[0] == [("", 1, True)]
    inner = Tensor("inner", F32, (499, 299))
    near = Apply("add", (at(a, i, j), at(a, i + 1, j + 1)))
    assert axes_and_walks(elementwise(inner, (i, j), near))[0] == [
        ("i", 8, False),
        ("j", 128, False),
    ]
    other = Apply("add", (at(a, i, j), at(b, i, j)))
    wide = Tensor("wide", F32, (300, 300))
    assert axes_and_walks(elementwise(wide, (i, j), other))[0] == [
        ("i", 2, False),
        ("j", 512, False),
    ]


def rows(m, n, columns=False):
    """Sums of rows, or columns, of a matrix."""
    i, j = indices("ij")
    a, out = Tensor("a", F32, (m, n)), Tensor("out", F32, (n if columns else m,))
    return contraction(out, (j if columns else i,), "sum", at(a, i, j), {i: range(m), j: range(n)})


@pytest.mark.parametrize(
    ("stage", "axes", "walk"),
    [
        # Lanes go along rows: of few instances each has few of them.
        (rows(64, 4096), [("i", 1, True)], ("j", 4096, False)),
        (rows(1024, 4096), [("i", 4, True)], ("j", 1024, False)),
        (rows(1 << 14, 100), [("i", 8, True)], ("j", 128, False)),
        # Along columns they go next to each other, fewer where there is much to join.
        (rows(100, 5000, columns=True), [("j", 256, True)], ("i", 16, False)),
        (rows(16, 5000, columns=True), [("j", 1024, True)], ("i", 1, False)),
        (rows(17, 5000, columns=True), [("j", 256, True)], ("i", 16, False)),
    ],
)  # fmt: skip
def test_tiles_of_reductions(stage, axes, walk):
    tiles = tiling(stage)
    assert axes_and_walks(stage) == (axes, [])
    built_walk = walk_of(stage.term, tuple(axis.tile for axis in tiles.axes))
    assert ("".join(map(repr, built_walk.indices)), built_walk.tile, built_walk.flat) == walk


def along(first, last):
    """A sum over the last two indices of `first` and `last` points, which memory goes along."""
    i, j, k = indices("ijk")
    a, out = Tensor("a", F32, (4096, first, last)), Tensor("out", F32, (4096,))
    box = {i: range(4096), j: range(first), k: range(last)}
    return contraction(out, (i,), "sum", at(a, i, j, k), box)


@pytest.mark.parametrize(
    ("last", "outputs", "tile", "flat"),
    [
        (63, 1, 4096, True), (64, 1, 64, False), (65, 1, 128, False), (15, 256, 16, True),
        (16, 256, 16, False), (40, 256, 16, False), (40, 64, 64, True),
    ],
)  # fmt: skip
def test_short_rows_go_as_one_where_lanes_are_left(last, outputs, tile, flat):
    """Below 64 points, and below the lanes that there are for each of the outputs."""
    walk = walk_of(along(100, last).term, (outputs,))
    assert (walk.tile, walk.flat) == (tile, flat)


# Reductions in two steps -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind", "empty", "parts"),
    [
        (1 << 15, "sum", None, 2), ((1 << 15) - 1, "sum", None, 1), (3 << 14, "max", None, 3),
        (1 << 23, "sum", None, 256), (1 << 15, "sum", 0, 2), (1 << 15, "sum", 1, 1),
        (1 << 15, "max", 0, 1),
    ],
)  # fmt: skip
def test_reductions_are_divided_where_each_part_joins_enough(values, kind, empty, parts):
    (i,) = indices("i")
    a, out = Tensor("a", F32, (values,)), Tensor("out", F32, ())
    stages = split_reduction(contraction(out, (), kind, at(a, i), {i: range(values)}, (), empty))
    assert len(stages) == 1 + (parts > 1)
    if parts > 1:
        assert stages[0].output.shape == (parts,)
        assert stages[1].output is out


@pytest.mark.parametrize(("rows", "is_divided"), [(8, True), (63, True), (64, False)])
def test_reductions_of_many_instances_are_not_divided(rows, is_divided):
    i, j = indices("ij")
    a, out = Tensor("a", F32, (rows, 1 << 20)), Tensor("out", F32, (rows,))
    stage = contraction(out, (i,), "sum", at(a, i, j), {i: range(rows), j: range(1 << 20)})
    assert (len(split_reduction(stage)) == 2) == is_divided


@pytest.mark.parametrize(("rows", "parts"), [(1, 256), (8, 32), (40, 6), (63, 4)])
def test_as_many_parts_as_there_should_be_instances(rows, parts):
    i, j = indices("ij")
    a, out = Tensor("a", F32, (rows, 1 << 23)), Tensor("out", F32, (rows,))
    stage = contraction(out, (i,), "sum", at(a, i, j), {i: range(rows), j: range(1 << 23)})
    assert split_reduction(stage)[0].output.shape == (rows, parts)


def values_at(position, values):
    """An affine expression where its indices have `values`, which may be arrays."""
    return sum(n * values[i] for i, n in position.terms) + position.constant


@for_each("first", (0, 5, -7))
@for_each("count", (40001, 65536))
def test_parts_join_every_point_once(first, count):
    """Ranges that begin elsewhere, and that parts do not divide."""
    (i,) = indices("i")
    a, out = Tensor("a", F32, (1 << 17,)), Tensor("out", F32, ())
    stage = contraction(out, (), "sum", at(a, i + 10), {i: range(first, first + count)})
    part, _ = split_reduction(stage)
    ((number, parts),) = part.elements
    ((inner, length),) = part.term.over
    values = dict(zip((number, inner), np.meshgrid(parts, length, indexing="ij"), strict=True))
    joined = np.full((len(parts), len(length)), True)
    for bound in part.term.where:
        place = values_at(bound.of, values)
        joined &= (bound.low <= place) & (place < bound.high)
    points = values_at(part.term.of.at[0], values)[joined] - 10
    assert sorted(points.tolist()) == list(range(first, first + count))


# What loops there are ----------------------------------------------------------------------------


def mnemonics(program):
    return [op.mnemonic for f in program.module.functions.values() for op in f.ops]


def test_what_joins_nothing_anywhere_has_no_loop():
    i, j = indices("ij")
    a, out = Tensor("a", F32, (6, 9)), Tensor("out", F32, (6,))
    box = {i: range(6), j: range(9)}
    for never in (
        AffineBound(affine(j), 9, 20),
        AffineBound(affine(j), -5, 0),
        AffineBound(i + j, 14, 20),
    ):
        for empty in (None, 7):
            program = check(out, (i,), "sum", [at(a, i, j)], box, [never], empty)
            assert not {"reduce", "load"} & set(mnemonics(program))
    program = check(out, (i,), "sum", [at(a, i, j)], box, [AffineBound(i + j, 13, 20)], 7)
    assert {"reduce", "load"} & set(mnemonics(program))


@pytest.mark.parametrize("columns", [9, 9000])
def test_whether_anything_was_joined_is_only_asked_where_nothing_may_be(columns):
    i, j = indices("ij")
    a, out = Tensor("a", F32, (6, columns)), Tensor("out", F32, (6,))
    box = {i: range(6), j: range(columns)}

    def asks(where, empty):
        program = check(out, (i,), "sum", [at(a, i, j)], box, where, empty)
        text = print_module(program.module)
        return " or " in text or "combiner = or}" in text

    assert not asks([], 7)
    assert not asks([AffineBound(i - j, -columns, 6)], 7)
    assert not asks([AffineBound(i - j, 2, 4)], None)
    assert not asks([AffineBound(i - j, 2, 4)], 0)
    assert asks([AffineBound(i - j, 2, 4)], 7)


# Outputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "extent", "steps"),
    [
        (lambda i, j: 2 * i, 11, 6), (lambda i, j: 3 * i + 1, 20, 7),
        (lambda i, j: -3 * i + 8, 20, 8), (lambda i, j: 4 * i + 2 * j, 30, 15),
        (lambda i, j: 2 * i + 1, 2, 1),
    ],
)  # fmt: skip
def test_elements_with_gaps_are_all_elements_once(place, extent, steps):
    """Each element of the output is written by one point, and few others are looked at."""
    i, j = indices("ij")
    solution = solve((affine(place(i, j)),), (extent,), {i: range(5), j: range(4)})
    points = points_of(solution.elements)
    (position,) = (values_of(e, points) for e in solution.at)
    inside = position[(0 <= position) & (position < extent)]
    assert sorted(inside.tolist()) == list(range(extent))
    step, offset = solution.elements.values()
    assert len(position) < extent + 2 * len(offset)
    assert abs(len(step) - steps) <= 1


def test_reductions_are_terms():
    i, j = indices("ij")
    a, out = Tensor("a", F32, (6, 9)), Tensor("out", F32, (6,))
    stage = contraction(out, (i,), "sum", at(a, i, j), {i: range(6), j: range(9)})
    assert isinstance(stage.term, Reduce) and len(stage.term.over) == 1


@for_each("shape", [(40,), (6, 9), (9, 6), (3, 5, 7), (2, 64), (64, 2)])
@for_each("value", ("read", "number"))
def test_choices_by_an_index_are_made_for_every_element(shape, value):
    """Along each dimension, from below and from above, at each number: the lanes of a tile may
    follow several indices."""
    names = indices("ijk"[: len(shape)])
    a, out = Tensor("a", F32, shape), Tensor("out", F32, shape)
    content = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    chosen = at(a, *names) if value == "read" else Number(3)
    for dim, extent in enumerate(shape):
        ends = ((None, 1), (None, extent // 2), (1, None), (1, extent - 1), (0, extent))
        for low, high in ends:
            bound = AffineBound(affine(names[dim]), low, high)
            stage = elementwise(out, names, Choose((bound,), chosen, Number(7)))
            result = Program((stage,), (out,)).run({a: content}, on="interpreter")[out]
            place = np.indices(shape)[dim]
            holds = (place >= (low or 0)) & (place < (extent if high is None else high))
            assert (result == np.where(holds, content if value == "read" else 3, 7)).all()


@for_each("step", (1, 2, 3, -3))
def test_parts_are_of_the_elements_there_are(step):
    """Of outputs between which other elements have no points."""
    i, j = indices("ij")
    a, out = Tensor("a", F32, (3, 40000)), Tensor("out", F32, (9,))
    box, place = {i: range(3), j: range(40000)}, step * i + (1 if step > 0 else 7)
    stage = contraction(out, (place,), "max", at(a, i, j), box, empty=None)
    assert len(split_reduction(stage)) == 2
    check(out, (place,), "max", [at(a, i, j)], box)
