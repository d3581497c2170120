"""Affine expressions of iteration variables, and bounds on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Index:
    """A variable over which a computation iterates. Two indices differ even if their names are
    equal."""

    name: str

    def __repr__(self) -> str:
        return self.name

    def __add__(self, other: Any) -> AffineIndex:
        return affine(self) + other

    def __radd__(self, other: Any) -> AffineIndex:
        return affine(self) + other

    def __sub__(self, other: Any) -> AffineIndex:
        return affine(self) - other

    def __rsub__(self, other: Any) -> AffineIndex:
        return affine(other) - self

    def __mul__(self, multiplier: int) -> AffineIndex:
        return affine(self) * multiplier

    def __rmul__(self, multiplier: int) -> AffineIndex:
        return affine(self) * multiplier

    def __neg__(self) -> AffineIndex:
        return affine(self) * -1


@attrs.frozen
class AffineIndex:
    """An affine expression: `constant` plus integer multiples of indices; no multiple is 0."""

    terms: tuple[tuple[Index, int], ...] = ()
    constant: int = 0

    def __eq__(self, other: object) -> bool:
        """Whether the terms are the same, in any order, and the constant."""
        return isinstance(other, AffineIndex) and self._summands() == other._summands()

    def __hash__(self) -> int:
        return hash(self._summands())

    def _summands(self) -> tuple[frozenset[tuple[Index, int]], int]:
        return frozenset(self.terms), self.constant

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices that the expression depends on."""
        return tuple(index for index, _ in self.terms)

    def coefficient(self, index: Index) -> int:
        """Return the coefficient of `index`; 0 if it does not occur."""
        return dict(self.terms).get(index, 0)

    def __add__(self, other: Any) -> AffineIndex:
        right = affine(other)
        return _collect((*self.terms, *right.terms), self.constant + right.constant)

    def __radd__(self, other: Any) -> AffineIndex:
        return self + other

    def __sub__(self, other: Any) -> AffineIndex:
        return self + affine(other) * -1

    def __rsub__(self, other: Any) -> AffineIndex:
        return affine(other) - self

    def __mul__(self, multiplier: int) -> AffineIndex:
        return _collect(((i, n * multiplier) for i, n in self.terms), self.constant * multiplier)

    def __rmul__(self, multiplier: int) -> AffineIndex:
        return self * multiplier

    def __neg__(self) -> AffineIndex:
        return self * -1

    def __str__(self) -> str:
        parts = [_term(i, n) for i, n in self.terms]
        shown = " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])
        return shown.replace("+ -", "- ")

    def substitute(self, by: Mapping[Index, AffineIndex]) -> AffineIndex:
        """Return the expression with indices replaced by expressions."""
        result = AffineIndex((), self.constant)
        for index, n in self.terms:
            result += by.get(index, affine(index)) * n
        return result

    def interval(self, ranges: Mapping[Index, range]) -> range:
        """Return the smallest range that contains the value at every point of the box `ranges`,
        which must not be empty."""
        low = high = self.constant
        for index, n in self.terms:
            ends = ranges[index].start * n, (ranges[index].stop - 1) * n
            low, high = low + min(ends), high + max(ends)
        return range(low, high + 1)


@attrs.frozen
class AffineBound:
    """The condition `low <= of < high` on an affine expression; None is no bound."""

    of: AffineIndex
    low: int | None
    high: int | None

    def substitute(self, by: Mapping[Index, AffineIndex]) -> AffineBound:
        """Return the condition with indices replaced by expressions."""
        return attrs.evolve(self, of=self.of.substitute(by))

    def holds(self, ranges: Mapping[Index, range]) -> bool:
        """Return whether the condition is true at every point of a box."""
        return self.beyond(ranges) is None

    def fails(self, ranges: Mapping[Index, range]) -> bool:
        """Return whether the condition is false at every point of a box."""
        result = self.of.interval(ranges)
        below = self.low is not None and result.stop <= self.low
        return below or (self.high is not None and result.start >= self.high)

    def beyond(self, ranges: Mapping[Index, range]) -> AffineBound | None:
        """Return the part of the condition that is not true at every point of a box; None if there
        is none."""
        result = self.of.interval(ranges)
        low = None if self.low is None or result.start >= self.low else self.low
        high = None if self.high is None or result.stop <= self.high else self.high
        return None if low is None and high is None else AffineBound(self.of, low, high)

    def normal(self) -> AffineBound:
        """Return an equivalent condition on an expression without a constant, most of whose
        coefficients are positive."""
        c = self.of.constant
        low = None if self.low is None else self.low - c
        high = None if self.high is None else self.high - c
        signs = sum(1 if n > 0 else -1 for _, n in self.of.terms)
        if signs >= 0:
            return AffineBound(self.of - c, low, high)
        turned = (None if high is None else 1 - high), (None if low is None else 1 - low)
        return AffineBound(c - self.of, *turned)

    def conjunction(self, other: AffineBound) -> AffineBound:
        """Return the conjunction with another condition on the same expression."""
        lows = [x for x in (self.low, other.low) if x is not None]
        highs = [x for x in (self.high, other.high) if x is not None]
        return AffineBound(self.of, max(lows, default=None), min(highs, default=None))

    def implies(self, other: AffineBound) -> bool:
        """Return whether `other`, a condition on the same expression, is true wherever this one
        is."""
        return self.of == other.of and self.conjunction(other) == self

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low} <= "
        return f"{low}{self.of}" + ("" if self.high is None else f" < {self.high}")


def affine(item: Any) -> AffineIndex:
    """Convert an index or an integer to an affine expression; an affine expression is returned as
    it is. Raises TypeError."""
    if isinstance(item, AffineIndex):
        return item
    if isinstance(item, Index):
        return AffineIndex(((item, 1),))
    if isinstance(item, int):
        return AffineIndex((), item)
    raise TypeError(f"no affine expression: {item!r}")


def _collect(terms: Iterable[tuple[Index, int]], constant: int) -> AffineIndex:
    result: dict[Index, int] = {}
    for index, n in terms:
        result[index] = result.get(index, 0) + n
    return AffineIndex(tuple((i, n) for i, n in result.items() if n), constant)


def _term(index: Index, n: int) -> str:
    return index.name if n == 1 else f"-{index.name}" if n == -1 else f"{n}*{index.name}"
