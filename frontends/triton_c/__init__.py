"""Triton-C (Tillet, Kung and Cox, MAPL 2019, section 3) as a frontend.

    program = parse(source)
    program.tunables  # {"TM": (16, 32, 64, 128), ...}
    program.kernel("matmul")[(4, 4)](a, b, c, 128, 128, 64, TM=32, TN=32)

See `docs/reference/frontends/triton_c.md`.
"""

from __future__ import annotations

from tileir.frontends.triton_c.errors import CompilationError
from tileir.frontends.triton_c.program import Program, ProgramKernel, parse

__all__ = ["CompilationError", "Program", "ProgramKernel", "parse"]
