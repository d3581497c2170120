"""The numpy types that represent elements of the IR's types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tileir.types import Scalar

_DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def dtype_of(element: Scalar) -> np.dtype[Any]:
    """The numpy type of `element` in memory. Raises KeyError for packed types."""
    return np.dtype(_DTYPES[element.name])


def spacing_of(element: Scalar) -> float:
    """The distance from 1 to the next number of a float type; 0 for integers."""
    return float(ml_dtypes.finfo(dtype_of(element)).eps) if element.is_float else 0.0
