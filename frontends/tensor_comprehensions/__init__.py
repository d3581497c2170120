"""Tensor Comprehensions as a frontend: Einstein's notation with inferred ranges.

    program = parse("def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")
    c = program.mm(a, b, on="gpu")

See `docs/reference/frontends/tensor_comprehensions.md`.
"""

from __future__ import annotations

from tileir.frontends.sources import CompilationError
from tileir.frontends.tensor_comprehensions.program import Comprehension, Comprehensions, parse

__all__ = ["CompilationError", "Comprehension", "Comprehensions", "parse"]
