"""PlaidML's Tile as a frontend: tensors defined by contractions and elementwise expressions.

    multiply = parse("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    c = multiply(a, b, on="gpu")

See `docs/reference/frontends/tile.md`.
"""

from __future__ import annotations

from tileir.frontends.sources import CompilationError
from tileir.frontends.tile.program import TileFunction, parse

__all__ = ["CompilationError", "TileFunction", "parse"]
