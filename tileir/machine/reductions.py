"""Named combiners along a dimension by numpy's own loops, in a defined order.

Integers and extremes have one result in any order. A float sum of n elements is formed in L
lanes, L being the power of two next above the square root of n: lane l adds elements l, l + L,
l + 2L, ... one after the other, and the lanes are folded by halves, the upper onto the lower, as
`folds.fold` does. f16 and bf16 are added in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine.float_formats import BF16, F16, F32, canonical, quiet_nans
from tileir.machine.integers import as_unsigned
from tileir.machine.tensor import Array

Reduction = Callable[[Array, int], Array | None]
"""Data and axis to the reduced data, or None where the type needs another way."""


def _plain(ufunc: np.ufunc, *, bools: bool = False) -> Reduction:
    def reduce(data: Array, axis: int) -> Array | None:
        if data.dtype == np.bool_ and not bools:
            return None
        return np.asarray(ufunc.reduce(data, axis=axis, dtype=data.dtype))

    return reduce


def _unsigned_reduction(ufunc: np.ufunc) -> Reduction:
    return lambda data, axis: np.asarray(ufunc.reduce(as_unsigned(data), axis=axis)).view(
        data.dtype
    )


def _extreme(ufunc: np.ufunc) -> Reduction:
    """Minimum or maximum; left to the fold where a zero, whose sign matters, comes out."""

    def reduce(data: Array, axis: int) -> Array | None:
        narrow = data.dtype in (F16, BF16)
        wide = data.astype(F32) if narrow else data
        result = np.asarray(ufunc.reduce(quiet_nans(wide), axis=axis))
        if np.count_nonzero(result) < result.size:
            return None
        return _round_to(result, data.dtype)

    return reduce


def _lanes(ufunc: np.ufunc) -> Reduction:
    def reduce(data: Array, axis: int) -> Array | None:
        narrow = data.dtype in (F16, BF16)
        rows = data.astype(F32) if narrow else data
        total = in_lanes(np.moveaxis(rows, axis, 0) if rows.ndim > 1 else rows, ufunc)
        return _round_to(np.asarray(total), data.dtype)

    return reduce


def _round_to(array: Array, dtype: np.dtype[Any]) -> Array:
    """NaNs canonical, rounded to `dtype`."""
    if np.count_nonzero(array != array):
        array = canonical(array)
    return array if array.dtype == dtype else array.astype(dtype)


def in_lanes(rows: Array, ufunc: np.ufunc) -> Array:
    """Rows combined in the order this module defines."""
    count = rows.shape[0]
    lanes = 1 << ((max(count - 1, 1).bit_length() + 1) // 2)
    aligned = count - count % lanes
    if aligned > lanes:
        stacked = np.ascontiguousarray(rows[:aligned]).reshape(-1, lanes, *rows.shape[1:])
        head = ufunc.reduce(stacked, axis=0, initial=None)  # else from 0.0, and -0.0 + 0.0 is 0.0
    else:
        head = rows[:aligned]
    tail = rows[aligned:]
    if len(head) and len(tail):
        head = np.concatenate((ufunc(head[: len(tail)], tail), head[len(tail) :]))
    return _halves(head if len(head) else tail, ufunc)


def _halves(rows: Array, ufunc: np.ufunc) -> Any:
    while (extent := len(rows)) > 1:
        half = (extent + 1) // 2
        if not extent & 1:
            rows = ufunc(rows[:half], rows[half:])
            continue
        folded = ufunc(rows[: extent - half], rows[half:])
        rows = np.concatenate((folded, rows[extent - half : half]))
    return rows[0]


INTEGERS: dict[str, Reduction] = {
    "add": _plain(np.add),
    "mul": _plain(np.multiply),
    "and": _plain(np.bitwise_and, bools=True),
    "or": _plain(np.bitwise_or, bools=True),
    "xor": _plain(np.bitwise_xor, bools=True),
    "smin": _plain(np.minimum),
    "smax": _plain(np.maximum),
    "umin": _unsigned_reduction(np.minimum),
    "umax": _unsigned_reduction(np.maximum),
}
"""Integer combiners by name."""

FLOATS: dict[str, Reduction] = {
    "fadd": _lanes(np.add),
    "fmul": _lanes(np.multiply),
    "fminimum": _extreme(np.minimum),
    "fmaximum": _extreme(np.maximum),
    "fminnum": _extreme(np.fmin),
    "fmaxnum": _extreme(np.fmax),
}
"""Float combiners by name."""

IDENTITIES: dict[str, float] = {"fadd": -0.0, "fmul": 1.0}
"""The identities of combiners whose order of operands matters."""
