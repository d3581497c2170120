"""Integer polynomials over lanes, iterations and scalars: what addresses are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from tileir.values import Value


@attrs.frozen(weakref_slot=False)
class Lane:
    """The index of an element along a dimension of its tile."""

    dimension: int


@attrs.frozen(weakref_slot=False)
class Iteration:
    """The iteration number of the loop with `header`, from 0."""

    header: str


@attrs.frozen(weakref_slot=False)
class ProgramIndex:
    """`program_id` along `axis`."""

    axis: int


Symbol: TypeAlias = Lane | Iteration | ProgramIndex | Value
"""A variable of polynomials; a `Value` is a scalar integer without further analysis."""

Monomial: TypeAlias = tuple[Symbol, ...]
"""A product of symbols, in a fixed order; () is 1."""

_MOST_TERMS = 32


@attrs.frozen(weakref_slot=False)
class Polynomial:
    """A sum of products of symbols with integer coefficients, none of them 0."""

    terms: Mapping[Monomial, int]

    def __add__(self, other: Polynomial) -> Polynomial:
        return _add(self, other, 1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return _add(self, other, -1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        result: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                product = tuple(sorted((*left, *right), key=_order))
                result[product] = result.get(product, 0) + a * b
        return _normal(result)

    @property
    def constant(self) -> int | None:
        """The number it always is, if it has no symbols."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def too_large(self) -> bool:
        """Whether it has too many terms to be of use."""
        return len(self.terms) > _MOST_TERMS

    def coefficient(self, symbol: Symbol) -> Polynomial | None:
        """The coefficient of `symbol`, or None if it does not occur linearly."""
        result: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            count = monomial.count(symbol)
            if count > 1:
                return None
            if count:
                cofactor = tuple(s for s in monomial if s != symbol)
                result[cofactor] = factor
        return Polynomial(result)

    def without(self, symbol: Symbol) -> Polynomial:
        """The terms in which `symbol` does not occur."""
        return Polynomial({m: c for m, c in self.terms.items() if symbol not in m})

    def map_lanes(self, place: Callable[[int], int | None]) -> Polynomial:
        """Lanes of dimension d become those of `place(d)`, or 0 where that is None."""
        result: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            moved = _map_lanes(monomial, place)
            if moved is not None:
                result[moved] = result.get(moved, 0) + factor
        return _normal(result)

    def evaluate(self, of: Callable[[Symbol], int]) -> int:
        """The value of the polynomial, given the value of each symbol."""
        total = 0
        for monomial, factor in self.terms.items():
            for symbol in monomial:
                factor *= of(symbol)
            total += factor
        return total


def number(value: int) -> Polynomial:
    """The constant `value`."""
    return Polynomial({(): value} if value else {})


def symbol(variable: Symbol) -> Polynomial:
    """One symbol."""
    return Polynomial({(variable,): 1})


def _order(item: Symbol) -> tuple[int, str, int]:
    """The place of a symbol in a monomial. It decides the order of generated multiplications, so
    addresses in memory count only for values of one name."""
    match item:
        case Lane(dimension):
            return (0, "", dimension)
        case Iteration(header):
            return (1, header, 0)
        case ProgramIndex(axis):
            return (2, "", axis)
        case _:
            return (3, item.name or "", id(item))


def _normal(terms: Mapping[Monomial, int]) -> Polynomial:
    return Polynomial({m: c for m, c in terms.items() if c})


def _add(left: Polynomial, right: Polynomial, sign: int) -> Polynomial:
    result = dict(left.terms)
    for monomial, factor in right.terms.items():
        result[monomial] = result.get(monomial, 0) + sign * factor
    return _normal(result)


def _map_lanes(monomial: Monomial, place: Callable[[int], int | None]) -> Monomial | None:
    symbols: list[Symbol] = []
    for item in monomial:
        if isinstance(item, Lane):
            to = place(item.dimension)
            if to is None:
                return None
            item = Lane(to)
        symbols.append(item)
    return tuple(sorted(symbols, key=_order))
