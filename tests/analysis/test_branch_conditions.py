"""Narrowing by a comparison, against all pairs of small numbers; polynomials."""

from __future__ import annotations

import pytest

from tileir.analysis.branch_conditions import restrict_range
from tileir.analysis.polynomial import Lane, number, symbol

RELATIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a % 256 < b % 256, "ule": lambda a, b: a % 256 <= b % 256,
    "ugt": lambda a, b: a % 256 > b % 256, "uge": lambda a, b: a % 256 >= b % 256,
}  # fmt: skip
RANGES = [(-3, -1), (-2, 2), (0, 0), (0, 3), (1, 4), (2, 2), (-128, 127), (-128, -127), (126, 127)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_bound_keeps_every_number_that_may_satisfy_it(relation: str) -> None:
    narrowed = 0
    for fact in RANGES:
        for other in RANGES:
            low, high = restrict_range(fact, relation, other)
            assert fact[0] <= low <= high <= fact[1]
            kept = [
                a for a in range(fact[0], fact[1] + 1)
                if any(RELATIONS[relation](a, b) for b in range(other[0], other[1] + 1))
            ]  # fmt: skip
            if kept:
                assert low <= kept[0] and kept[-1] <= high, (fact, other)
                narrowed += (low, high) != fact
                if min(fact[0], other[0]) >= 0 and relation != "ne":
                    assert (low, high) == (kept[0], kept[-1]), (fact, other)
    assert narrowed


def test_polynomials() -> None:
    lane = symbol(Lane(0))
    assert number(0).constant == 0 and number(7).constant == 7 and lane.constant is None
    square = (lane + number(1)) * (lane - number(1))
    assert square.evaluate(lambda _: 5) == 24 and square.coefficient(Lane(0)) is None
    assert (lane * number(3) + number(2)).coefficient(Lane(0)) == number(3)
    assert (lane * number(3) + number(2)).without(Lane(0)) == number(2)
    assert square.map_lanes(lambda _: None) == number(-1)
    assert lane.map_lanes(lambda d: d + 1) == symbol(Lane(1))
    assert (lane - lane).constant == 0
