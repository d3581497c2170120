"""Sums of products, apart by what moves: lanes, rounds of loops, and values within them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import TypeAlias

import attrs

from tileir.analysis.polynomial import Monomial, Polynomial, Symbol

Moving: TypeAlias = Callable[[Symbol], bool]


@attrs.frozen
class SplitForm:
    """`rest` plus the sum of `steps[s]` times s over the symbols s that move."""

    steps: Mapping[Symbol, Polynomial]
    rest: Polynomial


def split_form(form: Polynomial, moving: Moving) -> SplitForm | None:
    """`form` apart by what moves; None where two things that move are multiplied."""
    steps: dict[Symbol, dict[Monomial, int]] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in form.terms.items():
        found = [s for s in monomial if moving(s)]
        if len(found) > 1:
            return None
        if found:
            others = tuple(s for s in monomial if s is not found[0])
            steps.setdefault(found[0], {})[others] = factor
        else:
            rest[monomial] = factor
    return SplitForm({s: Polynomial(p) for s, p in steps.items()}, Polynomial(rest))


def settled(parts: SplitForm, fixed: Mapping[Symbol, int]) -> SplitForm:
    """`parts` with symbols that are always one number among what does not move."""
    steps = {s: step for s, step in parts.steps.items() if s not in fixed}
    moved = (scaled(step, fixed[s]) for s, step in parts.steps.items() if s in fixed)
    return SplitForm(steps, sum(moved, parts.rest))


def common_generators(forms: Iterable[Polynomial]) -> list[Polynomial]:
    """Of the forms that are multiples of one another, what all are multiples of; 0 is left out."""
    found: list[Polynomial] = []
    for form in forms:
        for index, other in enumerate(found):
            shared = _shared(form, other)
            if shared is not None:
                found[index] = shared
                break
        else:
            if form.terms:
                found.append(form)
    return found


def _shared(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The largest form that both are multiples of; None where neither is a multiple, in
    fractions, of the other."""
    if a.terms.keys() != b.terms.keys():
        return b if not a.terms else None
    sizes = gcd(*a.terms.values()), gcd(*b.terms.values())
    plain, other = divided(a, sizes[0]), divided(b, sizes[1])
    assert plain is not None and other is not None
    if plain not in (other, scaled(other, -1)):
        return None
    return scaled(plain, gcd(*sizes))


def divided(form: Polynomial, by: int) -> Polynomial | None:
    """`form` / `by`, where that leaves no fractions."""
    if not by or any(c % by for c in form.terms.values()):
        return None
    return Polynomial({m: c // by for m, c in form.terms.items()})


def scaled(form: Polynomial, by: int) -> Polynomial:
    """`form` times `by`."""
    return Polynomial({m: c * by for m, c in form.terms.items()} if by else {})


def multiple(form: Polynomial, of: Polynomial) -> int | None:
    """How many times `of`, which is not 0, makes `form`; None where none does."""
    if not form.terms:
        return 0
    monomial, factor = next(iter(of.terms.items()))
    times, left = divmod(form.terms.get(monomial, 0), factor)
    return None if left or scaled(of, times) != form else times


def symbols(forms: Iterable[Polynomial]) -> set[Symbol]:
    """What occurs in `forms`."""
    return {s for form in forms for monomial in form.terms for s in monomial}
