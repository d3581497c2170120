"""Tensor maps that there are at every launch."""

from __future__ import annotations

from typing import Any

from tileir.backend.tma.delinearize import TensorAccess
from tileir.ir import Function
from tileir.refusal import Refusal

_CHUNK = 16
"""Bytes that addresses and strides are multiples of (CUDA driver API, "Tensor Map")."""


def is_always_mappable(function: Function, op: Any, found: TensorAccess | Refusal) -> bool:
    """Whether `found` describes what `op` reads, and its address and strides are known to be such
    as a tensor map has: a single row is not worth that a launch goes without maps."""
    if isinstance(found, Refusal):
        return False
    width = op.pointer.type.element.pointee.bytes
    base = next((p for p in function.parameters if p.value is found.base), None)
    if base is None or base.attributes.aligned % _CHUNK or not base.attributes.aligned:
        return False
    forms = (found.offset, *(d.stride for d in found.dimensions[:-1]))
    return all(factor * width % _CHUNK == 0 for form in forms for factor in form.terms.values())
