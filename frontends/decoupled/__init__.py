"""Decoupled Triton (Pham 2025): algorithms as tensor expressions, with separate schedules.

    program = parse(source)
    program.function("softmax_out")(A)  # numpy in, numpy out
    program.with_schedule("softmax_out.block(x:4);")  # the same algorithm, scheduled otherwise

See `docs/reference/frontends/decoupled.md`.
"""

from __future__ import annotations

from tileir.frontends.decoupled.errors import CompilationError
from tileir.frontends.decoupled.plan import FuncPlan
from tileir.frontends.decoupled.program import Program, Wrapper, parse
from tileir.frontends.decoupled.tensors import Tensor

__all__ = ["CompilationError", "FuncPlan", "Program", "Tensor", "Wrapper", "parse"]
