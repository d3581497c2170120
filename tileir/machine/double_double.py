"""Double-double arithmetic in f64: numbers as unevaluated sums of two, good for 100 bits."""

from __future__ import annotations

from tileir.machine.error_free import Pair, two_product, two_sum
from tileir.machine.tensor import Array


def fast_sum(a: Array, b: Array) -> Pair:
    """Sum and error where `a` is zero or the larger (Dekker)."""
    near = a + b
    return near, b - (near - a)


def plus(a: Pair, b: Pair) -> Pair:
    """Sum of two pairs."""
    high, low = two_sum(a[0], b[0])
    return fast_sum(high, low + (a[1] + b[1]))


def times(a: Pair, b: Pair) -> Pair:
    """Product of two pairs."""
    high, low = two_product(a[0], b[0])
    return fast_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def over(a: Pair, b: Pair) -> Pair:
    """Quotient of two pairs."""
    high = a[0] / b[0]
    product, error = two_product(high, b[0])
    remainder = ((a[0] - product) - error + a[1]) - high * b[1]
    return fast_sum(high, remainder / b[0])
