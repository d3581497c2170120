"""Components of values that cost less to compute where they are used than to move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tileir.analysis.uses import uses
from tileir.backend.layouts.shape_ops import HALVES, tile_type_of
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Value

_FEW_INDICES = 8
"""Indices that a thread may carry through a loop to save a conversion."""

_UNPACKED = frozenset({*HALVES, "reshape", "gpu.local_load"})
"""Ops whose results are words, or elements that are unpacked of them."""


def most_registers(
    function: Function, definitions: Mapping[Value, Op], values: Sequence[Value], is_reshaped: bool
) -> float:
    """The most registers of a thread that a component of `values` may take where its users need it.
    Any number for words that are unpacked, and for transposed values: shifting, joining or
    repeating them in several threads costs less than moving them. 0 if the component is no such
    one, nor has indices, masks or loaded values that a loop carries. `is_reshaped` states whether a
    reshape or join reads it."""
    computed = [op.mnemonic for v in values if (op := definitions.get(v)) is not None]
    has_floats = any(cast(Any, tile_type_of(v.type)).element.is_float for v in values)
    carried = len(computed) < len(values) and not (computed and has_floats)
    if is_reshaped or not _UNPACKED.isdisjoint(computed) or _is_transposed(function, values):
        return math.inf
    if not carried:
        return 0
    return _FEW_INDICES if computed else math.inf


def _is_transposed(function: Function, values: Sequence[Value]) -> bool:
    """Whether a transpose reads any of `values`."""
    users = uses(function)
    return any(op.mnemonic == "trans" for v in values for op in users.get(v, ()))
