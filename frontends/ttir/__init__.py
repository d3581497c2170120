"""Triton's TTIR (the stage `ttir` of its compiler, MLIR text) as a frontend.

    module = read(Path("kernel.ttir").read_text())
    interpret(module, "add_kernel", (4,), arguments)

See `docs/reference/frontends/ttir.md`.
"""

from __future__ import annotations

from tileir.frontends.ttir.errors import CompilationError
from tileir.frontends.ttir.program import read

__all__ = ["CompilationError", "read"]
