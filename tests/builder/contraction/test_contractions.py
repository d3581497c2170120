"""Contractions of every kind against numpy, point by point."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.sizes import few_or_all, for_each
from tileir.builder import F16, F32, I8, I32, BuildError
from tileir.builder.contraction import (
    AffineIndex,
    Apply,
    Number,
    Reduce,
    affine,
    contraction,
    elementwise,
    ranges_of,
)

from .oracle import AffineBound, Index, Program, Tensor, at, check, indices

KINDS = ["sum", "product", "max", "min"]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m, n", [(1, 1), (7, 5), (33, 100), (3, 5000), (1000, 3)])
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_rows_and_columns_are_reduced(kind, m, n, along):
    i, j = indices("ij")
    a = Tensor("a", F32, (m, n))
    out = Tensor("out", F32, (m,) if along == "rows" else (n,))
    position = (i,) if along == "rows" else (j,)
    check(out, position, kind, [at(a, i, j)], {i: range(m), j: range(n)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (1000,), (12, 34), (3, 5, 7), (100, 100)])
def test_everything_is_reduced_to_a_scalar(kind, shape):
    names = indices("ijk"[: len(shape)])
    a, out = Tensor("a", I32, shape), Tensor("out", I32, ())
    check(out, (), kind, [at(a, *names)], dict(zip(names, map(range, shape), strict=True)))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_joined_to_what_changes_nothing_or_what_is_asked_for(kind):
    i, j = indices("ij")
    a, out = Tensor("a", F32, (6, 70000)), Tensor("out", F32, (6,))
    for count in (0, 9, 70000):  # the last one takes a loop
        box = {i: range(6), j: range(count)}
        never = [AffineBound(affine(j), count, count + 9)]
        for where in ([], [AffineBound(i - j, 2, 4)], never):
            check(out, (i,), kind, [at(a, i, j)], box, where)
            check(out, (i,), kind, [at(a, i, j)], box, where, empty=7)


def test_half_precision_is_added_in_f32():
    i = Index("i")
    a, out = Tensor("a", F16, (5000,)), Tensor("out", F32, ())
    program = check(out, (), "sum", [at(a, i)], {i: range(5000)})
    ops = [op for op in program.module.functions["k0_out"].ops if op.mnemonic == "reduce"]
    assert all("f32" in str(op.results[0].type) for op in ops)


def test_small_integers_are_added_in_i32():
    i, j = indices("ij")
    a, out = Tensor("a", I8, (4, 900)), Tensor("out", I32, (4,))
    check(out, (i,), "sum", [at(a, i, j)], {i: range(4), j: range(900)})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("taps", [3, 5])
def test_a_stencil_reads_neighbours(taps):
    x, y, i, j = indices("xyij")
    a, w = Tensor("a", F32, (40, 50)), Tensor("w", F32, (taps, taps))
    out = Tensor("out", F32, (40, 50))
    box = {x: range(40), y: range(50), i: range(taps), j: range(taps)}
    rows, columns = x + i - taps // 2, y + j - taps // 2
    where = [AffineBound(rows, 0, 40), AffineBound(columns, 0, 50)]
    reads = [at(a, rows, columns), at(w, i, j)]
    check(out, (x, y), "sum", reads, box, where, empty=0)
    check(out, (x, y), "max", reads, box, where, empty=0)


@pytest.mark.parametrize("kind", KINDS)
def test_pooling(kind):
    n, x, y, c, i, j = indices("nxycij")
    a, out = Tensor("a", F32, (2, 9, 11, 6)), Tensor("out", F32, (2, 4, 5, 6))
    sizes = (2, 4, 5, 6, 3, 3)
    box = dict(zip((n, x, y, c, i, j), map(range, sizes), strict=True))
    check(out, (n, x, y, c), kind, [at(a, n, 2 * x + i, 2 * y + j, c)], box)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_at_multiples_leave_gaps(kind):
    i, j = indices("ij")
    a = Tensor("a", F32, (6, 5))
    box = {i: range(6), j: range(5)}
    check(Tensor("o", F32, (11, 9)), (2 * i, 2 * j), kind, [at(a, i, j)], box, empty=0)
    check(Tensor("o", F32, (20,)), (3 * i + 1,), kind, [at(a, i, j)], box, empty=0)
    check(Tensor("o", F32, (30,)), (2 * i + 3 * j,), kind, [at(a, i, j)], box, empty=0)
    check(Tensor("o", F32, (60,)), (2 * i + 4 * j + 1,), kind, [at(a, i, j)], box, empty=0)
    check(Tensor("o", F32, (6, 30)), (i, 4 * j - 3 * i), kind, [at(a, i, j)], box, empty=0)


@for_each(("multiple", "start"), itertools.product((-3, -2, -1, 1, 2, 3), (-2, 0, 3)))
def test_outputs_at_any_multiple_of_an_index_are_written(multiple, start):
    """At steps up or down, from any first index, inside of the output or partly outside."""
    i, j = indices("ij")
    a, box = Tensor("a", F32, (12, 9)), {i: range(start, start + 5), j: range(2, 4)}
    for offset in {0, -min(multiple * start, multiple * (start + 4)), 4}:
        place = multiple * i + offset
        check(Tensor("o", F32, (14,)), (place,), "sum", [at(a, i + 2, j)], box, empty=7)
    check(Tensor("o", F32, (14, 5)), (4 + multiple * i, j), "max", [at(a, i + 2, j)], box, empty=7)


def test_assigned_elements_have_the_value_of_their_point():
    i, j, k = indices("ijk")
    a, box = Tensor("a", F32, (9, 9)), {i: range(2, 8), j: range(1, 6), k: range(3, 4)}
    for place in ((j, i), (2 * i - 4, j), (i - 2, 9 - j), (8 - i, j + k), (9 - 2 * j, k + i)):
        for read in (at(a, i, j), at(a, i - k + 1, j), at(a, k, i)):
            out = Tensor("o", F32, (12, 12))
            check(out, place, "assign", [read], box, empty=0)
            check(out, place, "assign", [read], box, [AffineBound(i + j - k, 2, 7)], empty=0)


@for_each("extents", [(2**31 - 1,), (2**31,), (2**16, 2**15 - 1), (2**16, 2**15), (2**11, 2**20)])
def test_a_reduction_has_fewer_than_2_31_points(extents):
    names = indices("ij"[: len(extents)])
    a, out = Tensor("a", F32, (8,)), Tensor("out", F32, ())
    box = dict(zip(names, map(range, extents), strict=True))

    def stages():
        return (
            contraction(out, (), "sum", at(a, 0 * names[0]), box),
            elementwise(out, (), Reduce("sum", tuple(box.items()), at(a, 0 * names[0]), (), None)),
        )

    if math.prod(extents) < 2**31:
        assert all(stage.output is out for stage in stages())
    else:
        with pytest.raises(BuildError, match="fewer than 2\\^31") as caught:
            stages()
        assert caught.value.code == "TIR0802"


def test_a_diagonal_is_written_and_read():
    i, j = indices("ij")
    a, v = Tensor("a", F32, (9, 9)), Tensor("v", F32, (9,))
    check(Tensor("o", F32, (9, 9)), (i, i), "sum", [at(v, i)], {i: range(9)}, empty=0)
    check(Tensor("o", F32, (9,)), (i,), "sum", [at(a, i, i)], {i: range(9)}, empty=0)
    box = {i: range(9), j: range(9)}
    check(Tensor("o", F32, (9,)), (8 - i,), "sum", [at(a, i, j)], box, empty=0)


def test_assignment_takes_one_point_each():
    i, j = indices("ij")
    a = Tensor("a", F32, (9, 9))
    for out, place in (((9, 9), (j, i)), ((20, 9), (2 * i, j)), ((12, 12), (i + 2, j + 1))):
        o = Tensor("o", F32, out)
        stage = contraction(o, place, "assign", at(a, i, j), {i: range(9), j: range(9)}, empty=0)
        assert stage.output is o
    with pytest.raises(BuildError) as caught:
        contraction(Tensor("o", F32, (9,)), (i,), "assign", at(a, i, j), {i: range(9), j: range(9)})
    assert caught.value.code == "TIR0812"


def test_ranges_follow_from_conditions():
    i, j = indices("ij")
    ranges = ranges_of([i, j], [AffineBound(i + j, 0, 10), AffineBound(affine(j), 2, 5)])
    assert ranges == {i: range(-4, 8), j: range(2, 5)}
    ranges = ranges_of([i, j], [AffineBound(i + j, 0, 10), AffineBound(i - j, 0, 10)])
    assert ranges == {i: range(10), j: range(-4, 5)}
    below = [
        AffineBound(affine(i), 0, 99),
        AffineBound(j - i, 0, None),
        AffineBound(affine(j), 0, 5),
    ]
    ranges = ranges_of([i, j], below)
    assert ranges == {i: range(5), j: range(5)}
    assert ranges_of([i], [AffineBound(affine(i), 5, 3)]) == {i: range(0)}
    assert ranges_of(
        [i], [AffineBound(AffineIndex((), 4), 0, 3), AffineBound(affine(i), 0, 3)]
    ) == {i: range(0)}
    with pytest.raises(BuildError) as caught:
        ranges_of([i, j], [AffineBound(i + j, 0, 10)])
    assert caught.value.code == "TIR0811"


@pytest.mark.parametrize("item", [1.5, "i", None, (1, 2)])
def test_what_is_no_affine_expression(item):
    with pytest.raises(TypeError, match="no affine expression"):
        affine(item)
    with pytest.raises(TypeError, match="no affine expression"):
        affine(Index("i")) + item


def test_reads_whose_guards_hold_nowhere_are_zero_and_made_nowhere():
    (i,) = indices("i")
    a, out = Tensor("a", F32, (6,)), Tensor("out", F32, (6,))
    never = at(a, i, guards=[AffineBound(affine(i), 60, 90)])
    stage = elementwise(out, (i,), Apply("add", (never, Number(2.0))))
    program = Program((stage,), (out,))
    output = program.run({a: np.full(6, np.nan, np.float32)}, "interpreter")
    assert (output[out] == 2).all()
    assert "load" not in {op.mnemonic for f in program.module.functions.values() for op in f.ops}


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_on_what_is_written_out_are_decided_then(kind):
    """Each of the nine values of a column is a step of its own, in which both indices are known."""
    i, r, s = indices("irs")
    a, out = Tensor("a", F32, (3, 3, 200)), Tensor("out", F32, (200,))
    box = {i: range(200), r: range(3), s: range(3)}
    check(out, (i,), kind, [at(a, r, s, i)], box, [AffineBound(r - s, 0, 2)])


# Generated ---------------------------------------------------------------------------------------

_small = st.integers(-2, 2)


@st.composite
def random_contractions(draw):
    """A contraction of one or two tensors over up to four indices, all of it random."""
    count = draw(st.integers(1, 4))
    names = indices("ijkl"[:count])
    box = {i: range(low := draw(_small), low + draw(st.integers(1, 6))) for i in names}

    def expression():
        terms = [i * draw(st.sampled_from([0, 1, 1, 2, -1, 3])) for i in names]
        return sum(terms, AffineIndex()) + draw(_small)

    position = [expression() for _ in range(draw(st.integers(0, 2)))]
    shape = tuple(draw(st.integers(1, 9)) for _ in position)
    out = Tensor("out", F32, shape)
    reads, where = [], []
    for name in "ab"[: draw(st.integers(1, 2))]:
        places = [expression() for _ in range(draw(st.integers(0, 2)))]
        tensor = Tensor(name, F32, tuple(draw(st.integers(1, 9)) for _ in places))
        reads.append(at(tensor, *places))
        where += [AffineBound(p, 0, n) for p, n in zip(places, tensor.shape, strict=True)]
    for _ in range(draw(st.integers(0, 1))):
        low = draw(_small)
        where.append(AffineBound(expression(), low, low + draw(st.integers(1, 9))))
    kind = draw(st.sampled_from(KINDS))
    return out, position, kind, reads, box, where, draw(st.sampled_from([0, 5]))


@pytest.mark.parametrize("examples", few_or_all(30, 150))
def test_generated_contractions(examples):
    settings(max_examples=examples)(given(random_contractions())(check_generated))()


def check_generated(case):
    check(*case)


def test_positions_of_numpy_are_those_of_kernels():
    """The oracle itself, on a case computed by hand."""
    i = Index("i")
    a, out = Tensor("a", F32, (3,)), Tensor("out", F32, (5,))
    program = check(out, (2 * i,), "sum", [at(a, i)], {i: range(3)}, empty=0)
    result = program.run({a: np.array([1, 2, 3], np.float32)}, "interpreter")[out]
    assert result.tolist() == [1, 0, 2, 0, 3]


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("shape", [(100_003,), (3, 70_000), (70_001, 2), (40, 50, 60)])
def test_reductions_of_much_to_little_are_divided(kind, shape):
    names = indices("ijk"[: len(shape)])
    a, out = Tensor("a", F32, shape), Tensor("out", F32, shape[:1] if shape[0] == 3 else ())
    position = names[:1] if shape[0] == 3 else []
    box = dict(zip(names, map(range, shape), strict=True))
    program = check(out, position, kind, [at(a, *names)], box, empty=0 if kind == "sum" else None)
    assert [s.output.name for s in program.kernels] == ["out_parts", "out"]
    assert program.launches[0].grid > 2
