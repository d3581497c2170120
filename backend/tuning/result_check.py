"""Checks of the results of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import attrs
import ml_dtypes
import numpy as np

from tileir.backend.measurement.errors import tune_error

Within: TypeAlias = float | Mapping[str, float] | None

_SPACINGS = 32
"""The default tolerance in spacings of the type: the order of additions may differ."""

_CHUNK = 1 << 18
"""Elements that are compared at once, to fit a processor's cache."""

_THREADS = 8


@attrs.define(eq=False)
class Reference:
    """The expected contents of arrays, and the tolerance: up to `within` of the largest of 1, the
    value, and the root mean square of all values of the array."""

    expected: Mapping[str, Any]
    within: Within = None
    _bounds: dict[str, Any] = attrs.field(init=False, factory=dict)
    _right: dict[str, Any] = attrs.field(init=False, factory=dict)
    """Results that passed: most candidates yield the same bits."""

    def __attrs_post_init__(self) -> None:
        self._bounds = {name: self._bound(name, array) for name, array in self.expected.items()}

    def check(self, results: Mapping[str, Any]) -> None:
        """Raise `TuneError` (TIR1107) unless every array is right."""
        for name, right in self.expected.items():
            array = results[name]
            if _same_bits(array, right) or _same_bits(array, self._right.get(name)):
                continue
            if not self._is_near(name, array, right):
                off, allowed = difference(array, right), self._tolerance(name, right.dtype)
                message = f"{name} is off by {off:.3g}, more than {allowed:.3g}"
                raise tune_error(message, "TIR1107")
            self._right[name] = array

    def _tolerance(self, name: str, dtype: Any) -> float:
        tolerance = self.within.get(name) if isinstance(self.within, Mapping) else self.within
        return _SPACINGS * spacing(dtype) if tolerance is None else tolerance

    def _bound(self, name: str, right: Any) -> Any:
        """The largest error of each element, in the type of the comparison."""
        kind = _working(right.dtype)
        return (self._tolerance(name, right.dtype) * _scale(right)).astype(kind).ravel()

    def _is_near(self, name: str, array: Any, right: Any) -> bool:
        """Whether every element is within its bound; checked by parts, in parallel."""
        a, b, bound = np.ravel(array), np.ravel(right), self._bounds[name]
        starts = range(0, a.size, _CHUNK)
        with ThreadPoolExecutor(_THREADS) as threads:
            return all(threads.map(lambda i: _near(a, b, bound, slice(i, i + _CHUNK)), starts))


def _near(a: Any, b: Any, bound: Any, part: slice) -> bool:
    kind = bound.dtype
    x, y = a[part].astype(kind), b[part].astype(kind)
    with np.errstate(invalid="ignore"):
        good = np.abs(x - y) <= bound[part]
        if good.all():
            return True
        return bool((good | (x == y) | (np.isnan(x) & np.isnan(y))).all())


def difference(result: Any, expected: Any) -> float:
    """The largest difference, relative to the largest of 1, the expected value and the root mean
    square of the expected values; NaN if exactly one of the two is NaN."""
    a, b = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    if a.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) / _scale(expected)
    off[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return float(off.max())


def _scale(expected: Any) -> Any:
    """The scale of the error of each element; 1 for infinities, which are exact."""
    values = np.abs(np.asarray(expected, np.float64))
    finite = np.isfinite(values)
    values = np.where(finite, values, 0.0)
    root = np.sqrt(np.sum(values * values) / max(1, np.count_nonzero(finite)))
    return np.maximum(values, max(1.0, root))


def _same_bits(a: Any, b: Any) -> bool:
    if b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = f"u{a.dtype.itemsize}"
    return bool(
        np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits))
    )


def _working(dtype: Any) -> Any:
    """The type that represents all numbers of `dtype` and the differences of 32-bit integers."""
    small = spacing(dtype) >= spacing(np.float32) or np.dtype(dtype).itemsize == 1
    return np.float32 if small else np.float64


def spacing(dtype: Any) -> float:
    """Spacing of the numbers of a type at 1; 0 for integers, which are exact."""
    try:
        return float(ml_dtypes.finfo(dtype).eps)
    except ValueError:
        return 0.0
