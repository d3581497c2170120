"""The ranges that conditions leave, against the vertices of the polyhedron that they describe."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, floor
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.builder import BuildError
from tileir.builder.contraction import AffineBound, AffineIndex, Index
from tileir.builder.contraction.affine import affine
from tileir.builder.contraction.ranges import ranges_of

Row = tuple[list[int], int]
"""Coefficients and a constant: a form that is at least 0."""


def rows_of(bounds: list[AffineBound], indices: list[Index]) -> list[Row]:
    rows: list[Row] = []
    for bound in bounds:
        coefficients = [bound.of.coefficient(i) for i in indices]
        if bound.low is not None:
            rows.append((coefficients, bound.of.constant - bound.low))
        if bound.high is not None:
            rows.append(([-n for n in coefficients], bound.high - 1 - bound.of.constant))
    return rows


def determinant(rows: list[list[int]]) -> int:
    if not rows:
        return 1
    (first, *rest) = rows
    minors = ([r[:k] + r[k + 1 :] for r in rest] for k in range(len(first)))
    return sum(
        (-1) ** k * n * determinant(m) for k, (n, m) in enumerate(zip(first, minors, strict=True))
    )


def vertices(rows: list[Row], count: int) -> Iterator[list[Fraction]]:
    """The points where `count` of the forms are 0 and none is negative."""
    for chosen in combinations(rows, count):
        matrix = [coefficients for coefficients, _ in chosen]
        scale = determinant(matrix)
        if not scale:
            continue
        point = [
            Fraction(
                determinant(
                    [[*m[:k], -c, *m[k + 1 :]] for m, (_, c) in zip(matrix, chosen, strict=True)]
                ),
                scale,
            )
            for k in range(count)
        ]
        if all(sum(map(Fraction.__mul__, map(Fraction, f), point)) + c >= 0 for f, c in rows):
            yield point


def form(choose: random.Random, indices: list[Index], terms: int) -> AffineIndex:
    """A form of so many of the indices."""
    result = AffineIndex((), choose.randint(-3, 3))
    for index in choose.sample(indices, terms):
        result += index * choose.choice((-3, -2, -1, 1, 2, 3))
    return result


def between(choose: random.Random, of: AffineIndex, at: int) -> AffineBound:
    """A bound that holds where `of` is `at`, on one side or both."""
    bound = around(choose, of, at)
    low, high = choose.choice(((True, False), (False, True), (True, True)))
    return AffineBound(of, bound.low if low else None, bound.high if high else None)


def around(choose: random.Random, of: AffineIndex, at: int) -> AffineBound:
    """A bound that holds where `of` is `at`, on both sides."""
    return AffineBound(of, at - choose.randint(0, 5), at + choose.randint(1, 6))


def value(of: AffineIndex, point: dict[Index, int]) -> int:
    return of.constant + sum(n * point[i] for i, n in of.terms)


@pytest.mark.parametrize("count", [2, 3])
@for_each("seed", range(60))
def test_elimination_leaves_the_shadow_of_the_polyhedron(count: int, seed: int) -> None:
    """Where every condition is of several indices none has a limit of its own: all are eliminated,
    and what is left is exact."""
    choose = random.Random(seed)
    indices = [Index(n) for n in "ijk"[:count]]
    point = {i: choose.randint(-4, 4) for i in indices}
    forms: list[AffineIndex] = []
    while len(forms) < count:
        more = form(choose, indices, choose.randint(2, count))
        rank = [*forms, more]
        matrix = [[f.coefficient(i) for i in indices] for f in rank]
        columns = combinations(range(count), len(rank))
        if any(determinant([[r[c] for c in chosen] for r in matrix]) for chosen in columns):
            forms.append(more)
    bounds = [around(choose, f, value(f, point)) for f in forms]
    more = form(choose, indices, choose.randint(2, count))
    bounds.append(AffineBound(more, value(more, point) - choose.randint(0, 3), None))
    corners = list(vertices(rows_of(bounds, indices), count))
    expected = {
        i: range(ceil(min(c[k] for c in corners)), floor(max(c[k] for c in corners)) + 1)
        for k, i in enumerate(indices)
    }
    assert ranges_of(indices, bounds) == expected


@for_each("seed", range(60))
def test_limits_of_some_indices_and_of_forms_are_put_together(seed: int) -> None:
    """Where the conditions describe a polytope every index has a range, which contains its points,
    whether an index has no limit of its own, or one on a side, or both."""
    choose = random.Random(seed)
    indices = [Index(n) for n in "ij"]
    point = {i: choose.randint(-4, 4) for i in indices}
    forms = [form(choose, indices, 2) for _ in range(3)]
    bounds = [between(choose, f, value(f, point)) for f in forms]
    bounds += [between(choose, i + 0, point[i]) for i in indices if choose.random() < 0.7]
    choose.shuffle(bounds)
    rows = rows_of(bounds, indices)
    corners = list(vertices(rows, 2))
    directions = [(x, y) for x, y in product(range(-9, 10), repeat=2) if x or y]
    if any(all(f[0] * x + f[1] * y >= 0 for f, _ in rows) for x, y in directions):
        return  # it may be unbounded
    ranges = ranges_of(indices, bounds)
    box = [range(ceil(min(c)), floor(max(c)) + 1) for c in zip(*corners, strict=True)]
    for p in product(*box):
        if all(f[0] * p[0] + f[1] * p[1] + c >= 0 for f, c in rows):
            assert all(x in ranges[i] for i, x in zip(indices, p, strict=True))


@for_each("seed", range(100))
def test_every_point_where_the_conditions_hold_is_in_range(seed: int) -> None:
    choose = random.Random(seed)
    indices = [Index(n) for n in "ijk"]
    terms = choose.choice(((0, 3), (1, 1), (1, 2)))
    bounds = [
        between(choose, form(choose, indices, choose.randint(*terms)), choose.randint(-5, 5))
        for _ in range(choose.randint(2, 8))
    ]
    rows, reach = rows_of(bounds, indices), range(-5, 6)
    points = [
        p for p in product(reach, repeat=3)
        if all(sum(n * x for n, x in zip(f, p, strict=True)) + c >= 0 for f, c in rows)
    ]  # fmt: skip
    try:
        ranges = ranges_of(indices, bounds)
    except BuildError as error:
        assert error.diagnostics[0].code == "TIR0811"
        return
    assert list(ranges) == indices
    for point in points:
        assert all(x in ranges[i] for i, x in zip(indices, point, strict=True))
    assert all(ranges.values()) or not any(ranges.values())
    if any(not any(f) and c < 0 for f, c in rows):
        assert set(ranges.values()) == {range(0)}


@for_each("seed", range(40))
def test_ends_of_ranges_satisfy_each_condition_for_some_values_of_the_others(seed: int) -> None:
    """Ranges shrink until nothing changes, by whole numbers: an index with a single value narrows
    others, which narrow the next ones, in any order of the conditions."""
    choose = random.Random(seed)
    indices = [Index(n) for n in "ijkl"]
    point = {i: choose.randint(-4, 4) for i in indices}
    bounds = [
        AffineBound(i + 0, point[i] - choose.choice((0, 6)), point[i] + choose.choice((1, 7)))
        for i in indices
    ]
    for first, second in pairwise(indices):
        of = first * choose.choice((-3, -2, 2, 3)) + second * choose.choice((-5, -3, 3, 5))
        at = value(of, point)
        bounds.append(AffineBound(of, at - choose.randint(0, 4), at + choose.randint(1, 5)))
    if choose.random() < 0.2:
        of = indices[0] + indices[3] * 2
        bounds.append(AffineBound(of, None, value(of, point) - 40))
    choose.shuffle(bounds)
    ranges = ranges_of(indices, bounds)
    assert list(ranges) == indices
    if not all(ranges.values()):
        assert not any(ranges.values())
        return
    for coefficients, constant in rows_of(bounds, indices):
        for end in product(*((r[0], r[-1]) for r in ranges.values())):
            for k in range(len(indices)):
                best = sum(
                    n * end[k] if j == k else max(n * r[0], n * r[-1])
                    for j, (n, r) in enumerate(zip(coefficients, ranges.values(), strict=True))
                )
                assert best + constant >= 0


def test_an_index_that_grows_with_another_is_not_bounded() -> None:
    i, j, k = Index("i"), Index("j"), Index("k")
    with pytest.raises(BuildError, match="nothing bounds"):
        ranges_of(
            [i, j, k],
            [AffineBound(i - j, 0, 4), AffineBound(j - k, 0, 4), AffineBound(i + j, 0, None)],
        )


@for_each("seed", range(60))
def test_operators_of_indices_and_forms(seed: int) -> None:
    choose = random.Random(seed)
    indices = [Index(n) for n in "ijk"]
    point = {i: choose.randint(-9, 9) for i in indices}
    items: list[Any] = [*indices, choose.randint(-3, 3), form(choose, indices, 2)]
    at = {id(x): value(affine(x), point) for x in items}
    for x, y in product(items, repeat=2):
        if isinstance(x, int) and isinstance(y, int):
            continue
        assert value(x + y, point) == at[id(x)] + at[id(y)]
        assert value(x - y, point) == at[id(x)] - at[id(y)]
        if isinstance(x, int) or isinstance(y, int):
            assert value(x * y, point) == at[id(x)] * at[id(y)]
        assert (affine(x) == affine(y)) == (x is y)
    for x in (*indices, items[-1]):
        assert value(-x, point) == -at[id(x)] and affine(x) != "i"


@for_each("seed", range(100))
def test_a_form_of_forms_has_the_value_of_both(seed: int) -> None:
    """Some of the indices are replaced, by forms that may contain them."""
    choose = random.Random(seed)
    indices = [Index(n) for n in "ijk"]
    of = form(choose, indices, choose.randint(0, 3))
    by = {
        i: form(choose, indices, choose.randint(0, 3))
        for i in choose.sample(indices, choose.randint(0, 3))
    }
    point = {i: choose.randint(-9, 9) for i in indices}
    inner = point | {i: value(f, point) for i, f in by.items()}
    assert value(of.substitute(by), point) == value(of, inner)
    bound = around(choose, of, 0).substitute(by)
    assert bound.of == of.substitute(by)


@for_each("seed", range(300))
def test_conditions_against_every_point_of_a_box(seed: int) -> None:
    """Intervals are the smallest, and what holds, fails, is left or is equal is so everywhere."""
    rng = random.Random(seed)
    i, j = Index("i"), Index("j")
    ranges = {x: range(low := rng.randint(-3, 2), low + rng.randint(1, 4)) for x in (i, j)}
    form = i * rng.randint(-3, 3) + j * rng.randint(-3, 3) + rng.randint(-4, 4)
    points = [dict(zip(ranges, p, strict=True)) for p in product(*ranges.values())]

    def bound() -> AffineBound:
        low, high = rng.randint(-9, 6), rng.randint(-6, 9)
        return AffineBound(form, rng.choice([low, None]), rng.choice([high, None]))

    def at(condition: AffineBound | None) -> list[bool]:
        """Where it holds; everywhere if there is none."""
        if condition is None:
            return [True] * len(points)
        values = [
            condition.of.constant + sum(n * p[x] for x, n in condition.of.terms) for p in points
        ]
        low = -(10**9) if condition.low is None else condition.low
        high = 10**9 if condition.high is None else condition.high
        return [low <= v < high for v in values]

    values = [form.constant + sum(n * p[x] for x, n in form.terms) for p in points]
    assert form.interval(ranges) == range(min(values), max(values) + 1)
    one, other = bound(), bound()
    assert one.holds(ranges) == all(at(one))
    below = one.low is not None and max(values) < one.low
    assert one.fails(ranges) == (below or (one.high is not None and min(values) >= one.high))
    assert at(one.beyond(ranges)) == at(one) == at(one.normal())
    signs = [n > 0 for _, n in one.normal().of.terms]
    assert signs.count(True) >= signs.count(False)
    both = [x and y for x, y in zip(at(one), at(other), strict=True)]
    assert at(one.conjunction(other)) == both
    assert not one.implies(other) or at(one) == both
    assert one.conjunction(other).implies(one) and not one.normal().of.constant
