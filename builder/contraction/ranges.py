"""The ranges of indices that conditions leave: propagation, then elimination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import TypeAlias

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index
from tileir.builder.errors import mistake

_MOST_ITERATIONS = 64
"""The most propagations per condition: ranges may shrink by ever smaller steps."""

_Limits: TypeAlias = dict[Index, tuple[float, float]]


def ranges_of(indices: Sequence[Index], where: Iterable[AffineBound]) -> dict[Index, range]:
    """Return the range of each index: a box that contains all points that satisfy the conditions.

    The box is tight if the conditions bound indices one by one. All ranges are empty if there is no
    such point. Raises BuildError (TIR0811) for an index without bounds.
    """
    sides = [side for bound in where for side in _sides(bound)]
    if any(not side.terms and side.constant < 0 for side in sides):
        return dict.fromkeys(indices, range(0))
    limits = _propagate(indices, sides)
    for index in indices:
        if float("-inf") == limits[index][0] or limits[index][1] == float("inf"):
            limits[index] = _eliminate(index, indices, sides)
    ranges: dict[Index, range] = {}
    for index, (low, high) in limits.items():
        if float("-inf") == low or high == float("inf"):
            raise mistake("TIR0811", f"nothing bounds the index {index}")
        ranges[index] = range(int(low), int(high) + 1)
    if any(not r for r in ranges.values()):
        return dict.fromkeys(indices, range(0))
    return ranges


def _sides(bound: AffineBound) -> Iterator[AffineIndex]:
    """Expressions that are at least 0."""
    if bound.low is not None:
        yield bound.of - bound.low
    if bound.high is not None:
        yield bound.of * -1 + (bound.high - 1)


def _propagate(indices: Sequence[Index], sides: Sequence[AffineIndex]) -> _Limits:
    """Limits of each index from those of all others, until nothing changes."""
    limits: _Limits = dict.fromkeys(indices, (float("-inf"), float("inf")))
    for _ in range(_MOST_ITERATIONS):
        before = dict(limits)
        for side in sides:
            for index, n in side.terms:
                limits[index] = _narrow(limits, side, index, n)
        if limits == before or any(low > high for low, high in limits.values()):
            break
    return limits


def _narrow(limits: _Limits, side: AffineIndex, index: Index, n: int) -> tuple[float, float]:
    """Limits of `index` so that `side`, in which it has the coefficient `n`, can be at least 0."""
    bound: float = side.constant
    for other, m in side.terms:
        if other is not index:
            bound += m * limits[other][m > 0]
    low, high = limits[index]
    if bound == float("inf"):
        return low, high
    edge = -int(bound) / Fraction(n)
    return (max(low, ceil(edge)), high) if n > 0 else (low, min(high, floor(edge)))


def _eliminate(
    required: Index, indices: Sequence[Index], sides: Sequence[AffineIndex]
) -> tuple[float, float]:
    """Limits of `required` by Fourier and Motzkin: all other indices eliminated."""
    remaining = list(sides)
    for index in indices:
        if index is not required:
            remaining = _without(index, remaining)
    limits: _Limits = {required: (float("-inf"), float("inf"))}
    for side in remaining:
        for index, n in side.terms:
            limits[required] = _narrow(limits, side, index, n)
    return limits[required]


def _without(index: Index, sides: Sequence[AffineIndex]) -> list[AffineIndex]:
    combined = {side for side in sides if not side.coefficient(index)}
    up = [side for side in sides if side.coefficient(index) > 0]
    down = [side for side in sides if side.coefficient(index) < 0]
    for x in up:
        for y in down:
            combined.add(x * -y.coefficient(index) + y * x.coefficient(index))
    return list(combined)
