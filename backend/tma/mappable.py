"""Accesses whose tensor map is valid at every launch."""

from __future__ import annotations

from typing import Any

from tileir.backend.tma.delinearize import TensorAccess
from tileir.ir import Function
from tileir.refusal import Refusal

_CHUNK = 16
"""Alignment in bytes of the addresses and strides of a tensor map (CUDA driver API, "Tensor
Map")."""


def is_always_mappable(function: Function, op: Any, access: TensorAccess | Refusal) -> bool:
    """Whether `op` has a tensor `access` whose address and strides are known to be aligned as a
    tensor map needs. A load of a single row is not worth a guard at launch, which might fail."""
    if isinstance(access, Refusal):
        return False
    width = op.pointer.type.element.pointee.bytes
    base = next((p for p in function.parameters if p.value is access.base), None)
    if base is None or base.attributes.aligned % _CHUNK or not base.attributes.aligned:
        return False
    forms = (access.offset, *(d.stride for d in access.dimensions[:-1]))
    return all(
        coefficient * width % _CHUNK == 0 for form in forms for coefficient in form.terms.values()
    )
