"""Results with their rounding error: error-free transformations in f64.

Every function returns `(near, error)`: the f64 nearest to the real result and a number of the
sign of what is missing (exactly what is missing, for sums and products). Operands near the ends
of f64's range, where splitting overflows or errors underflow, are left to `fractions`.
Sources: Knuth (two-sum), Dekker 1971 and Veltkamp (product), Boldo and Melquiond 2008 (fma).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tileir.machine.tensor import Array

Pair = tuple[Array, Array]
_SPLIT = 134217729.0  # 2^27 + 1


def two_sum(a: Array, b: Array) -> Pair:
    """Sum and its error (Knuth)."""
    near = a + b
    part = near - a
    return near, (a - (near - part)) + (b - part)


def two_product(a: Array, b: Array) -> Pair:
    """Product and its error (Dekker)."""
    near = a * b
    ah, al = _halves(a)
    bh, bl = _halves(b)
    return near, ((ah * bh - near) + ah * bl + al * bh) + al * bl


def quotient(a: Array, b: Array) -> Pair:
    """Quotient, and a number of the sign of its error."""
    near = a / b
    product, error = two_product(near, b)
    return near, ((a - product) - error) * np.sign(b)


def root(a: Array) -> Pair:
    """Square root, and a number of the sign of its error."""
    near = np.sqrt(a)
    product, error = two_product(near, near)
    return near, (a - product) - error


def fma(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` in f64, rounded once to nearest even (Boldo and Melquiond's algorithm)."""
    high, low = two_product(a, b)
    top, bottom = two_sum(c, low)
    near, error = two_sum(high, top)
    return near + odd(*two_sum(bottom, error))


def odd(near: Array, error: Array) -> Array:
    """`near` rounded to odd: where `error` is not zero, the neighbour on its side, of the two
    that enclose the real result, whose last bit is one."""
    bits = near.view(np.int64)
    even = (bits & 1) == 0
    wrong = even & (error != 0) & np.isfinite(near)
    outwards = (error > 0) == (near > 0)
    return np.where(wrong, np.where(outwards, bits + 1, bits - 1), bits).view(np.float64)


def _halves(a: Array) -> Pair:
    spread = a * _SPLIT
    high = spread - (spread - a)
    return high, a - high


def tame(*values: Array) -> Array:
    """Lanes where the transformations hold: every number is zero or well within f64's range."""
    fine = np.True_
    for value in values:
        size = np.abs(value)
        fine = fine & ((size == 0) | ((size > 1e-140) & (size < 1e140)))
    return np.asarray(fine)


def fractions(real: Callable[..., Fraction], near: Array, lanes: Array, *operands: Array) -> Array:
    """`near` with `lanes` (finite) replaced by the nearest f64 to `real(*operands)`."""
    result = np.array(near)
    for lane in map(tuple, np.argwhere(lanes)):
        exact = real(*[Fraction(float(x[lane])) for x in operands])
        if exact != 0:
            result[lane] = nearest(exact)
    return result


def nearest(exact: Fraction) -> float:
    """The f64 nearest to a fraction, infinite beyond the range."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def correct_direction(near: Array, exact_sign: Array, mode: str) -> Array:
    """Correct the f64 `near` for the rounding mode `mode`; `exact_sign` is the sign of its
    error."""
    down = np.nextafter(near, -np.inf)
    up = np.nextafter(near, np.inf)
    towards_zero = (
        np.where(near > 0, exact_sign < 0, False),
        np.where(near < 0, exact_sign > 0, False),
    )
    lower = {"rm": exact_sign < 0, "rp": np.False_, "rz": towards_zero[0]}[mode]
    upper = {"rp": exact_sign > 0, "rm": np.False_, "rz": towards_zero[1]}[mode]
    return np.where(lower, down, np.where(upper, up, near))
