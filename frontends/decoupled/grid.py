"""The launch grid of a schedule: levels of loops over blocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.builder import Expr
from tileir.frontends.decoupled.schedule import Schedule

Number: TypeAlias = Any
"""A count or a position: an int, an array of them, or an `Expr` of a kernel."""
Places: TypeAlias = dict[str, Number]


@attrs.frozen
class Level:
    """A level of the launch grid: a loop of `count` over `label`, of which `inner`, a level of its
    own, counts `factor` positions each. `total` is how many positions there are in all, `of` the
    dimension they are blocks of."""

    label: str
    inner: str | None
    factor: int
    total: int
    of: str

    @property
    def count(self) -> int:
        """Iterations of the loop."""
        return -(-self.total // self.factor)


def levels(schedule: Schedule, sizes: Mapping[str, int]) -> tuple[Level, ...]:
    """The levels of a kernel's grid, the outermost first: what `map` does not name is outside, what
    `block` names last outermost."""
    totals = {n: -(-sizes[n] // min(block, sizes[n])) for n, block in schedule.blocks.items()}
    mapped, of = {split.label for split in schedule.order}, {n: n for n in totals}
    result = [Level(n, None, 1, totals[n], n) for n in reversed(list(totals)) if n not in mapped]
    for split in schedule.order:
        own = of[split.label]
        result.append(Level(split.label, split.inner, split.factor, totals[split.label], own))
        if split.inner is not None:
            totals[split.inner], of[split.inner] = split.factor, own
    return tuple(result)


def instances(levels: Sequence[Level]) -> int:
    """Program instances of a grid: one for every combination of blocks."""
    return math.prod(_totals(levels).values())


def _totals(levels: Sequence[Level]) -> dict[str, int]:
    """Blocks of each dimension."""
    return {level.label: level.total for level in levels if level.label == level.of}


def places(levels: Sequence[Level], number: Number, reverse: Collection[str] = ()) -> Places:
    """The block of each dimension that program instance `number` of a grid computes; `number` may
    be an array.

    Dimensions of one block are omitted. `reverse` are the dimensions whose last block comes first.
    """
    ragged = any(level.total % level.factor for level in levels)
    digits = _outermost_first(levels, number) if ragged else _innermost_first(levels, number)
    for level in reversed(levels):
        _join(digits, level)
    totals = _totals(levels)
    for label in sorted(digits.keys() & set(reverse)):
        digits[label] = totals[label] - 1 - digits[label]
    return digits


def _innermost_first(levels: Sequence[Level], number: Number) -> Places:
    """`number` decomposed into iterations of loops, each with one trip count in all iterations."""
    digits: Places = {}
    index, several = number, [level for level in levels if level.count > 1]
    for i, level in reversed(list(enumerate(several))):
        digits[level.label] = _remainder(index, level.count) if i else index
        index = _quotient(index, level.count) if i else index
    return digits


def _outermost_first(levels: Sequence[Level], number: Number) -> Places:
    """The same where the last iteration of a loop may have fewer positions for the inner loop:
    `left` counts the positions of all dimensions that are still to be told apart."""
    digits: Places = {}
    index = number
    left: dict[str, Number] = _totals(levels)
    for level in levels:
        mine = left.pop(level.label)
        step = functools.reduce(_total_count, left.values(), level.factor)
        digit: Number = 0
        if level.count > 1 and not _is_one(mine):
            digit = digits[level.label] = _quotient(index, step)
            index = index if _is_one(step) else index - _total_count(digit, step)
        if level.inner is not None:
            exact = isinstance(mine, int) and mine % level.factor == 0
            beyond = mine - _total_count(digit, level.factor)
            left[level.inner] = level.factor if exact else _least(beyond, level.factor)
    return digits


def _join(digits: Places, level: Level) -> None:
    """Put a label together from both levels it is split into."""
    if level.inner is None:
        return
    outer, inner = digits.get(level.label), digits.pop(level.inner, None)
    scaled = None if outer is None else outer * level.factor
    combined = inner if scaled is None else scaled if inner is None else scaled + inner
    if combined is not None:
        digits[level.label] = combined


def _is_one(number: Number) -> bool:
    return isinstance(number, int) and number == 1


def _total_count(one: Number, other: Number) -> Number:
    if _is_one(other):
        return one
    return other if _is_one(one) else one * other


def _quotient(number: Number, by: Number) -> Number:
    if _is_one(by):
        return number
    return number.udiv(by) if isinstance(number, Expr) else number // by


def _remainder(number: Number, by: int) -> Number:
    return number.urem(by) if isinstance(number, Expr) else number % by


def _least(number: Number, most: int) -> Number:
    if isinstance(number, Expr):
        return number.builder.minimum(number, most)
    return np.minimum(number, most) if isinstance(number, np.ndarray) else min(number, most)
