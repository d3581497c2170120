"""Whether a candidate's result is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tileir.backend.tuning.errors import refused

Within: TypeAlias = float | Mapping[str, float] | None

_SPACINGS = 32
"""Spacings of its type that a result may be off, where nobody says how far: sums that are made in
another order differ."""


def check(found: Mapping[str, Any], wanted: Mapping[str, Any], within: Within) -> None:
    """Raise `TuneError` (TIR1107) unless every array of `wanted` is as in `found`, up to `within`
    of the larger of 1, the value, and the root mean square of all; None for 32 spacings of the
    type. `within` may be different for each."""
    for name, right in wanted.items():
        given = within.get(name) if isinstance(within, Mapping) else within
        allowed = _SPACINGS * spacing(right.dtype) if given is None else given
        off = difference(found[name], right)
        if not off <= allowed:
            raise refused(f"{name} is off by {off:.3g}, more than {allowed:.3g}", "TIR1107")


def difference(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the larger of 1, the value wanted and the root mean
    square of the values wanted; NaN where only one of the two is."""
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if a.size == 0:
        return 0.0
    finite = b[np.isfinite(b)]
    scale = np.sqrt(np.mean(finite * finite)) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) / np.maximum(np.maximum(1.0, scale), np.abs(b))
    off[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return float(off.max())


def spacing(dtype: Any) -> float:
    """Spacing of the numbers of a type at 1; 0 for integers, which are exact."""
    try:
        return float(ml_dtypes.finfo(dtype).eps)
    except ValueError:
        return 0.0
