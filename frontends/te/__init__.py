"""Tensor expressions of TVM as a frontend: what is computed, and apart from it the tiles.

A, B = te.placeholder((m, k), "float16", "A"), te.placeholder((k, n), "float16", "B")
t = te.reduce_axis((0, k), "t")
C = te.compute((m, n), lambda i, j: te.sum(A[i, t] * B[t, j], axis=t), "C")
c = te.build(te.create_schedule(C), [A, B, C])(a, b, on="gpu")
"""

from __future__ import annotations

from tileir.frontends.te.build import build, lower
from tileir.frontends.te.errors import TensorExpressionError
from tileir.frontends.te.expr import IterVar, PrimExpr
from tileir.frontends.te.intrinsics import (
    FUNCTIONS,
    all_of as all,  # noqa: A004 - names of TVM
    any_of as any,  # noqa: A004
    if_then_else,
    max_ as max,  # noqa: A004
    min_ as min,  # noqa: A004
    power,
    prod_ as prod,
    sum_ as sum,  # noqa: A004
    truncdiv,
    truncmod,
)
from tileir.frontends.te.schedule import Schedule, Scheduled, create_schedule, thread_axis
from tileir.frontends.te.tensor import (
    Operation,
    Tensor,
    Var,
    compute,
    placeholder,
    reduce_axis,
    var,
)

globals().update(FUNCTIONS)

__all__ = [
    "IterVar", "Operation", "PrimExpr", "Schedule", "Scheduled", "Tensor", "TensorExpressionError",
    "Var", "all", "any", "build", "compute", "create_schedule", "if_then_else", "lower", "max",
    "min", "placeholder", "power", "prod", "reduce_axis", "sum", "thread_axis", "truncdiv",
    "truncmod", "var",
]  # fmt: skip
