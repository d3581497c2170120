"""Polynomials split by the symbols that vary: lanes, iterations of loops, and values in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import TypeAlias

import attrs

from tileir.analysis.polynomial import Monomial, Polynomial, Symbol

Varies: TypeAlias = Callable[[Symbol], bool]


@attrs.frozen
class SplitForm:
    """`rest` plus the sum of `steps[s]` * s over the varying symbols s."""

    steps: Mapping[Symbol, Polynomial]
    rest: Polynomial


def split_form(form: Polynomial, varies: Varies) -> SplitForm | None:
    """`form` split by its varying symbols; None where two of them are multiplied."""
    steps: dict[Symbol, dict[Monomial, int]] = {}
    invariant: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        variables = [s for s in monomial if varies(s)]
        if len(variables) > 1:
            return None
        if variables:
            cofactor = tuple(s for s in monomial if s is not variables[0])
            steps.setdefault(variables[0], {})[cofactor] = coefficient
        else:
            invariant[monomial] = coefficient
    return SplitForm({s: Polynomial(p) for s, p in steps.items()}, Polynomial(invariant))


def fold_fixed(form: SplitForm, fixed: Mapping[Symbol, int]) -> SplitForm:
    """`form` with the symbols of `fixed`, each of which has a single value, folded into the
    rest."""
    steps = {s: step for s, step in form.steps.items() if s not in fixed}
    constants = (scale(step, fixed[s]) for s, step in form.steps.items() if s in fixed)
    return SplitForm(steps, sum(constants, form.rest))


def common_generators(forms: Iterable[Polynomial]) -> list[Polynomial]:
    """A common divisor for each group of forms that are rational multiples of one another. Zero
    forms are ignored."""
    generators: list[Polynomial] = []
    for form in forms:
        for index, other in enumerate(generators):
            generator = _common_generator(form, other)
            if generator is not None:
                generators[index] = generator
                break
        else:
            if form.terms:
                generators.append(form)
    return generators


def _common_generator(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The largest form that divides both; None if they are not rational multiples of each other."""
    if a.terms.keys() != b.terms.keys():
        return b if not a.terms else None
    sizes = gcd(*a.terms.values()), gcd(*b.terms.values())
    plain, other = divide_exactly(a, sizes[0]), divide_exactly(b, sizes[1])
    assert plain is not None and other is not None
    if plain not in (other, scale(other, -1)):
        return None
    return scale(plain, gcd(*sizes))


def divide_exactly(form: Polynomial, divisor: int) -> Polynomial | None:
    """`form` / `divisor`; None where a coefficient is not a multiple of `divisor`."""
    if not divisor or any(c % divisor for c in form.terms.values()):
        return None
    return Polynomial({m: c // divisor for m, c in form.terms.items()})


def scale(form: Polynomial, times: int) -> Polynomial:
    """`form` * `times`."""
    return Polynomial({m: c * times for m, c in form.terms.items()} if times else {})


def quotient_by(form: Polynomial, of: Polynomial) -> int | None:
    """The integer n with n * `of` = `form`, or None. `of` is not 0."""
    if not form.terms:
        return 0
    monomial, coefficient = next(iter(of.terms.items()))
    times, remainder = divmod(form.terms.get(monomial, 0), coefficient)
    return None if remainder or scale(of, times) != form else times


def symbols(forms: Iterable[Polynomial]) -> set[Symbol]:
    """The symbols of `forms`."""
    return {s for form in forms for monomial in form.terms for s in monomial}
