"""Arrays by the DLPack protocol: capsules are read by the layout that DLPack's C header defines."""

from __future__ import annotations

import ctypes
from typing import Any

import attrs

_CUDA, _CUDA_MANAGED = 2, 13
"""kDLCUDA, kDLCUDAManaged (dlpack.h, DLDeviceType)."""

_LEGACY_STREAM = 1
"""The legacy default stream of CUDA, in the protocol's words."""

_CODES = {0: "i", 1: "i", 2: "f", 4: "bf", 6: "i"}
"""DLDataTypeCode: int, uint, float, bfloat, bool."""


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor, the first field of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", _Device), ("rank", ctypes.c_int32), ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


@attrs.frozen
class Exported:
    """The tensor that a capsule describes. Strides are in elements, None for contiguous rows."""

    address: int
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...] | None
    device_type: int
    device: int
    stream: int = 0

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can read it."""
        return self.device_type in (_CUDA, _CUDA_MANAGED)


def export(value: Any) -> Exported:
    """Describe the array `value`, ready on the legacy default stream. The capsule is released
    immediately, so `value` must stay alive while the result is used. Exceptions of the library of
    `value` pass through."""
    kind, number = value.__dlpack_device__()
    if kind not in (_CUDA, _CUDA_MANAGED):
        return Exported(0, "", (), None, int(kind), int(number))
    capsule = value.__dlpack__(stream=_LEGACY_STREAM)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    extents = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.offset
    return Exported(
        address,
        _element_name(tensor.type),
        extents,
        strides,
        tensor.device.type,
        tensor.device.number,
    )


def _element_name(kind: _Type) -> str:
    if kind.lanes != 1 or kind.code not in _CODES:
        return f"{kind.bits * kind.lanes} bits"
    return "i1" if kind.code == 6 else f"{_CODES[kind.code]}{kind.bits}"
