"""Machine code for `tileir-opt --emit llvm|ptx|cubin`."""

from __future__ import annotations

from tileir import backend
from tileir.ir import Module


def emitted(module: Module, target: str, form: str) -> bytes:
    """`module` compiled for `target`, as `form`. Raises CompileError."""
    compiled = backend.compile(module, target=target)
    found = getattr(compiled, form)
    return found if isinstance(found, bytes) else str(found).encode()
