"""Tensor maps, as the driver encodes them (CUDA driver API, "Tensor Map Object Management")."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tileir.backend.codegen.tma_boxes import box_of
from tileir.backend.driver.device import CudaDriver
from tileir.backend.tma.host_plan import MapValues

_SIZE, _ALIGNMENT = 128, 64
_KINDS = {
    "i8": "UINT8", "i16": "UINT16", "i32": "INT32", "i64": "INT64", "f8e4m3": "UINT8",
    "f8e5m2": "UINT8", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
}  # fmt: skip
_SWIZZLES = ("NONE", "32B", "64B", "128B")


def encode_tensor_map(cuda: CudaDriver, values: MapValues) -> Any:
    """The 128 bytes of a map, at an address with the alignment of a kernel parameter. Raises
    `LaunchError` (TIR0711) if the driver rejects the map.

    For a map of one dimension, the driver reads no stride but rejects an empty array.
    """
    api, recipe = cuda.cuda, values.recipe
    box = box_of(recipe.block, recipe.size, recipe.swizzle)
    wide, narrow = api.cuuint64_t, api.cuuint32_t
    status = api.cuTensorMapEncodeTiled(
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_KINDS[recipe.element]}"),
        len(box),
        values.address,
        _innermost_first(wide, values.extents),
        _innermost_first(wide, values.strides or (_ALIGNMENT,)),
        _innermost_first(narrow, box),
        [narrow(1)] * len(box),
        api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[recipe.swizzle]}"),
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        _outside(api, recipe.padding),
    )
    return _aligned_copy(cuda.check(status, f"cuTensorMapEncodeTiled of {values}"))


def _innermost_first(kind: Any, numbers: Sequence[int]) -> list[Any]:
    """The numbers as a C array, innermost dimension first, as the driver expects."""
    return [kind(n) for n in reversed(numbers)]


def _outside(api: Any, padding: str) -> Any:
    word = "NONE" if padding == "zero" else "NAN_REQUEST_ZERO_FMA"
    return getattr(api.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{word}")


def _aligned_copy(address: Any) -> Any:
    """A copy of the driver's map in an aligned buffer, as a C array that owns the buffer."""
    buffer = ctypes.create_string_buffer(_SIZE + _ALIGNMENT)
    start = -ctypes.addressof(buffer) % _ALIGNMENT
    ctypes.memmove(ctypes.addressof(buffer) + start, int(address.getPtr()), _SIZE)
    return (ctypes.c_uint8 * _SIZE).from_buffer(buffer, start)
