"""Components of values that cost less to compute where they are used than to move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tileir.analysis.uses import uses
from tileir.backend.layouts.shape_ops import HALVES, tile_type_of
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.values import Value

_FEW_INDICES = 8
"""Indices that a thread may carry through a loop to save a conversion."""

_UNPACKED = frozenset({*HALVES, "reshape", "gpu.local_load"})
"""Ops whose results are words, or elements that are unpacked of them."""


def most_registers(
    function: Function,
    definitions: Mapping[Value, Op],
    values: Sequence[Value],
    is_reshaped: bool,
    default: Layout,
) -> float:
    """The most registers of a thread that a component of `values` may take where its users need it.
    Any number for words that are unpacked, and for transposed values: shifting, joining or
    repeating them in several threads costs less than moving them. No more than in the `default`
    layout for short vectors that are computed element by element: the same instructions compute
    them. 0 if the component is no such one, nor has indices, masks or loaded values that a loop
    carries. `is_reshaped` states whether a reshape or join reads it."""
    computed = [op for v in values if (op := definitions.get(v)) is not None]
    tiles = [cast(Any, tile_type_of(v.type)) for v in values]
    carries, has_floats = len(computed) < len(values), any(t.element.is_float for t in tiles)
    is_unpacked = any(op.mnemonic in _UNPACKED for op in computed)
    if is_reshaped or is_unpacked or _is_transposed(function, values):
        return math.inf
    if carries and not (computed and has_floats):
        return _FEW_INDICES if computed else math.inf
    is_short = tiles[0].size <= default.size("lane") * default.size("warp")
    is_elementwise = not carries and all(op.elementwise for op in computed)
    return default.size("register") if is_short and is_elementwise else 0


def _is_transposed(function: Function, values: Sequence[Value]) -> bool:
    """Whether a transpose reads any of `values`."""
    users = uses(function)
    return any(op.mnemonic == "trans" for v in values for op in users.get(v, ()))
