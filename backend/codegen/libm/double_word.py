"""Double-word arithmetic with fused multiply-add: numbers are unevaluated sums of two floats
(Dekker 1971; Knuth)."""

from __future__ import annotations

from typing import TypeAlias

from tileir.backend.codegen.libm.expression import Term, fma

Pair: TypeAlias = tuple[Term, Term]
"""A float and what it misses."""


def fast_sum(a: Term, b: Term) -> Pair:
    """The rounded sum and its error, where `a` is zero or has at least the magnitude of `b`
    (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Term, b: Term) -> Pair:
    """The rounded sum and its error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Term, b: Term) -> Pair:
    """The rounded product and its error."""
    product = a * b
    return product, fma(a, b, -product)


def plus(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs."""
    high, low = two_sum(a[0], b[0])
    return fast_sum(high, low + (a[1] + b[1]))


def times(a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    high, low = two_product(a[0], b[0])
    return fast_sum(high, low + fma(a[0], b[1], a[1] * b[0]))


def constant(like: Term, pair: tuple[float, float]) -> Pair:
    """A pair of numbers as terms of the type of `like`."""
    return like.like(pair[0]), like.like(pair[1])
