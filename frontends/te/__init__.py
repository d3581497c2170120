"""Tensor expressions of TVM as a frontend: computations, and schedules that choose tiles.

    A, B = te.placeholder((m, k), "float16", "A"), te.placeholder((k, n), "float16", "B")
    t = te.reduce_axis((0, k), "t")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, t] * B[t, j], axis=t), "C")
    c = te.build(te.create_schedule(C), [A, B, C])(a, b, on="gpu")

See `docs/reference/frontends/te.md`.
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
    power,
    reduce_add as sum,  # noqa: A004
    reduce_max as max,  # noqa: A004
    reduce_min as min,  # noqa: A004
    reduce_multiply as prod,
    truncdiv,
    truncmod,
)
from tileir.frontends.te.schedule import Schedule, TensorSchedule, create_schedule, thread_axis
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
    "IterVar",
    "Operation",
    "PrimExpr",
    "Schedule",
    "Tensor",
    "TensorExpressionError",
    "TensorSchedule",
    "Var",
    "all",
    "any",
    "build",
    "compute",
    "create_schedule",
    "if_then_else",
    "lower",
    "max",
    "min",
    "placeholder",
    "power",
    "prod",
    "reduce_axis",
    "sum",
    "thread_axis",
    "truncdiv",
    "truncmod",
    "var",
]  # fmt: skip
