"""Numbers below which no element of a float is, as far as the ops before it tell."""

from __future__ import annotations

import math
from collections.abc import Callable

from tileir.op import Op
from tileir.ops.floats import FAbs, FAdd, FMaximum, FMaxNum
from tileir.ops.math import Exp, Exp2
from tileir.values import Constant, Operand, Value

_DEEPEST = 4
"""Ops in a row that are looked at."""
_NEVER_NEGATIVE = (Exp, Exp2, FAbs)


def least(value: Operand, definition: Callable[[Operand], Op | None], depth: int = 0) -> float:
    """A number that no element of the float `value` is below, unless it is NaN. Additions are
    rounded monotonically: two bounds added, less a rounding error, are a bound of the result."""
    if isinstance(value, Constant):
        return -math.inf if math.isnan(value.value) else float(value.value)
    op = definition(value) if isinstance(value, Value) and depth < _DEEPEST else None
    if op is None or op.predicate is not None:
        return -math.inf
    if isinstance(op, _NEVER_NEGATIVE):
        return 0.0
    if isinstance(op, FMaxNum | FMaximum):
        return max(least(v, definition, depth + 1) for v in op.inputs)
    if isinstance(op, FAdd):
        total = sum(least(v, definition, depth + 1) for v in op.inputs)
        return total * 0.999 if total > 0 else -math.inf
    if op.moves_elements and len(op.inputs) == 1:
        return least(op.inputs[0], definition, depth + 1)
    return -math.inf
