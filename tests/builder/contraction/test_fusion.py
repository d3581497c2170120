"""Stages that are computed where they are read: which, and as memory would give them back."""

import numpy as np
import pytest

from tileir.builder import F16, F32, F64, I8, I32
from tileir.builder.contraction import (
    Apply,
    Cast,
    Choose,
    Number,
    Program,
    Read,
    affine,
    contraction,
    elementwise,
)
from tileir.builder.contraction.fusion import as_read, fuse

from .oracle import AffineBound, Tensor, at, indices, times


def kinds(*stages, kept):
    return [s.output.name for s in fuse(stages, kept)]


def test_what_is_computed_where_it_is_read():
    i, j, k, m = indices("ijkm")
    a, b, c, d = (Tensor(name, F32, (40, 30)) for name in "abcd")
    twice = elementwise(b, (i, j), Apply("mul", (at(a, i, j), Number(2))))
    added = elementwise(c, (i, j), Apply("add", (at(b, i, j), Number(1))))
    assert kinds(twice, added, kept=[c]) == ["c"]
    assert kinds(twice, added, kept=[b, c]) == ["b", "c"]
    assert kinds(twice, added, kept=[]) == []
    # A reduction is read by one kernel, element by element.
    row_totals = contraction(Tensor("s", F32, (40,)), (i,), "sum", at(a, i, j),
                       {i: range(40), j: range(30)})  # fmt: skip
    rows = elementwise(
        Tensor("r", F32, (40,)), (k,), Apply("add", (at(row_totals.output, k), Number(1)))
    )
    more = elementwise(
        Tensor("t", F32, (40,)), (m,), Apply("sub", (at(row_totals.output, m), Number(1)))
    )
    turned = elementwise(Tensor("u", F32, (40,)), (k,), at(row_totals.output, 39 - k))
    spread = elementwise(d, (k, m), Apply("add", (at(row_totals.output, k), at(a, k, m))))
    both = Apply("add", (at(row_totals.output, k), at(row_totals.output, k * 0)))
    copy = elementwise(Tensor("v", F32, (40,)), (k,), both)
    part = elementwise(Tensor("w", F32, (20,)), (k,), at(row_totals.output, k))
    assert kinds(row_totals, rows, kept=[rows.output]) == ["r"]
    assert kinds(row_totals, rows, more, kept=[rows.output, more.output]) == ["s", "r", "t"]
    for other in (turned, spread, copy, part):
        assert kinds(row_totals, other, kept=[other.output]) == ["s", other.output.name]
    total = contraction(Tensor("x", F32, ()), (), "sum", at(row_totals.output, i), {i: range(40)})
    assert kinds(row_totals, total, kept=[total.output]) == ["s", "x"]


def work(count, term):
    """A term of so many functions."""
    for _ in range(count):
        term = Apply("add", (term, Number(1)))
    return term


@pytest.mark.parametrize(
    ("count", "reads", "inside"), [(16, 2, True), (17, 2, False), (32, 1, True), (33, 1, False)]
)
def test_what_is_read_at_several_places_is_recomputed_where_it_is_cheap(count, reads, inside):
    i, j = indices("ij")
    a, b, c = (Tensor(name, F32, (40,)) for name in "abc")
    kernel = elementwise(b, (i,), work(count, at(a, i)))
    places = [at(b, j), at(b, 39 - j)][:reads]
    term = places[0] if reads == 1 else Apply("add", tuple(places))
    assert kinds(kernel, elementwise(c, (j,), term), kept=[c]) == (["c"] if inside else ["b", "c"])


@pytest.mark.parametrize(("count", "inside"), [(0, True), (8, True), (9, False)])
@pytest.mark.parametrize("reader", ["reduction", "two kernels"])
def test_what_is_read_often_is_recomputed_where_it_is_cheap(count, inside, reader):
    i, j = indices("ij")
    a, b = Tensor("a", F32, (40,)), Tensor("b", F32, (40,))
    kernel = elementwise(b, (i,), work(count, at(a, i)))
    if reader == "reduction":
        rest = [contraction(Tensor("c", F32, ()), (), "sum", at(b, j), {j: range(40)})]
    else:
        rest = [elementwise(Tensor(n, F32, (40,)), (j,), at(b, j)) for n in "cd"]
    names = [s.output.name for s in rest]
    kept = [s.output for s in rest]
    assert kinds(kernel, *rest, kept=kept) == (names if inside else ["b", *names])


@pytest.mark.parametrize(("count", "inside"), [(0, True), (1, False)])
def test_operands_of_matmuls_are_not_recomputed(count, inside):
    i, j, k, m, n = indices("ijkmn")
    x, a, b, c = (Tensor(name, F32, (32, 32)) for name in "xabc")
    kernel = elementwise(a, (m, n), work(count, at(x, m, n)))
    box = {i: range(32), j: range(32), k: range(32)}
    multiplied = contraction(c, (i, j), "sum", times(at(a, i, k), at(b, k, j)), box)
    assert kinds(kernel, multiplied, kept=[c]) == (["c"] if inside else ["a", "c"])


def test_what_is_read_at_computed_places_stays_in_memory():
    i, j = indices("ij")
    a, b, c = Tensor("a", F32, (40,)), Tensor("b", F32, (40,)), Tensor("c", F32, (40,))
    where = Tensor("where", I32, (40,))
    kernel = elementwise(b, (i,), work(1, at(a, i)))
    reader = elementwise(c, (j,), Read(b, (at(where, j),)))
    assert kinds(kernel, reader, kept=[c]) == ["b", "c"]


def test_terms_are_as_memory_gives_them_back():
    i, j = indices("ij")
    half, whole, small = Tensor("h", F16, (4,)), Tensor("w", F32, (4,)), Tensor("s", I8, (4,))
    read = at(whole, i)
    assert as_read(F32, read) is read
    assert as_read(F16, at(half, i)) == at(half, i)
    assert as_read(F16, read) == Cast(F32, Cast(F16, read))
    assert as_read(I8, at(small, i)) == at(small, i)
    assert as_read(I8, at(Tensor("x", I32, (4,)), i)).element is I32
    summed = Apply("add", (read, read))
    assert as_read(F32, summed) is summed
    assert as_read(F16, summed) == Cast(F32, Cast(F16, summed))
    assert as_read(I32, summed) == Cast(I32, summed)
    assert as_read(F64, summed) == Cast(F64, summed)
    assert as_read(F32, Number(1.0)) == Cast(F32, Number(1.0))
    assert as_read(F32, Number(1.0, F32)) == Number(1.0, F32)
    assert as_read(F32, Number(1)) == Cast(F32, Number(1))
    guarded = as_read(F32, Choose((AffineBound(affine(j), 0, 2),), read, Number(0)))
    assert guarded == at(whole, i, guards=[AffineBound(affine(j), 0, 2)])


def value_at(form, index, number):
    """An affine expression of one index where that is `number`."""
    assert {i for i, _ in form.terms} <= {index}
    return form.constant + form.coefficient(index) * number


@pytest.mark.parametrize("shift", [-6, 0, 4])
@pytest.mark.parametrize("multiple", [1, -1, 2])
def test_what_is_read_under_guards_has_those_of_both_reads(shift, multiple):
    """At the index of the stage that reads: where either guard is false, the value is 0."""
    i, j = indices("ij")
    a, b, c = (Tensor(name, F32, (40,)) for name in "abc")
    place, outer = i + shift, multiple * j + 7
    inner = elementwise(b, (i,), Read(a, (place,), (AffineBound(place, 0, 20),)))
    reader = elementwise(c, (j,), Read(b, (outer,), (AffineBound(outer, 3, 30),)))
    (fused,) = fuse((inner, reader), [c])
    ((index, span),) = fused.elements
    for number in span:
        at_outer = multiple * number + 7
        expected = 3 <= at_outer < 30 and 0 <= at_outer + shift < 20
        guards = [(g, value_at(g.of, index, number)) for g in fused.term.guards]
        assert all(g.low <= v < g.high for g, v in guards) == expected
        assert value_at(fused.term.at[0], index, number) == at_outer + shift


@pytest.mark.parametrize("element", [F32, I32, F16])
@pytest.mark.parametrize("shift", [-6, 0, 4])
def test_what_is_computed_is_0_where_a_guard_of_its_reader_is_false(element, shift):
    i, j = indices("ij")
    a, b, c = (Tensor(name, element, (20,)) for name in "abc")
    outer, where = j + shift, AffineBound(j + shift, 3, 15)
    inner = elementwise(b, (i,), Apply("add", (at(a, i), Number(5))))
    reader = elementwise(c, (j,), Apply("add", (Read(b, (outer,), (where,)), Number(1))))
    x = np.arange(20).astype({F32: np.float32, I32: np.int32, F16: np.float16}[element])
    (fused,) = fuse((inner, reader), [c])
    result = Program((fused,), (c,)).run({a: x}, "interpreter")[c]
    places = np.arange(20) + shift
    inside = (places >= 3) & (places < 15)
    assert result.tolist() == (np.where(inside, places + 5, 0) + 1).tolist()
