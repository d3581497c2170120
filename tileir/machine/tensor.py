"""Values at run time: a numpy array and the lanes that are undefined."""

from __future__ import annotations

from typing import Any

import attrs
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileir.types import Pointer, Type, element_of, shape_of
from tileir.values import Constant

Array = NDArray[Any]
Lanes = NDArray[np.bool_]

_DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i4": np.dtype(ml_dtypes.int4),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f4e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_ADDRESS = np.dtype(np.uint64)
RAW = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
"""Unsigned integer dtype by bytes."""


@attrs.define(eq=False, weakref_slot=False)
class Tensor:
    """A value: `data` has the shape of the tile (rank 0 for a scalar); `undef` marks undefined
    lanes.

    `undef` is None if no lane is undefined. The arrays are never written.
    """

    data: Array
    undef: Lanes | None = None


def dtype_of(type: Type) -> np.dtype[Any]:
    """Return the dtype of a type's elements: signed integers, bool for i1, uint64 for addresses."""
    element = element_of(type)
    return _ADDRESS if isinstance(element, Pointer) else _DTYPES[str(element)]


def fits_dtype(dtype: np.dtype[Any], element: Type) -> bool:
    """Whether arrays of `dtype` hold elements: the element's own dtype, the unsigned integer of its
    size, or bool for bytes."""
    own = dtype_of(element)
    if isinstance(element, Pointer):
        return dtype == own
    unsigned = dtype.kind == "u" and dtype.itemsize == own.itemsize
    return bool(dtype == own or unsigned or (dtype == np.bool_ and own.itemsize == 1))


def raw(data: Array) -> Array:
    """The bits of `data` as unsigned integers; one byte for i1, i4 and f4e2m1."""
    return data.view(RAW[data.dtype.itemsize])


def from_raw(bits: Array, dtype: np.dtype[Any]) -> Array:
    """Inverse of `raw`."""
    return bits.astype(RAW[dtype.itemsize], copy=False).view(dtype)


def constant(literal: Constant) -> Tensor:
    """Return the value of a literal, filled to the shape of its tile."""
    dtype, bits = dtype_of(literal.type), literal.bits
    if dtype == _DTYPES["i4"]:
        bits -= (bits >> 3) << 4
        one = np.array(bits, np.int8).astype(dtype)
    else:
        one = np.array(bits, np.uint64).astype(RAW[dtype.itemsize]).view(dtype)
    return Tensor(np.broadcast_to(one, shape_of(literal.type)))


def undef(type: Type) -> Tensor:
    """Return an undefined value: zeros, with every lane marked."""
    shape = shape_of(type)
    nothing = np.broadcast_to(np.zeros((), dtype_of(type)), shape)
    return Tensor(nothing, np.broadcast_to(np.True_, shape))


def either(*tensors: Tensor | None) -> Lanes | None:
    """Lanes undefined in any of `tensors`, all of one shape."""
    lanes: Lanes | None = None
    for tensor in tensors:
        if tensor is not None and tensor.undef is not None:
            lanes = tensor.undef if lanes is None else lanes | tensor.undef
    return lanes
