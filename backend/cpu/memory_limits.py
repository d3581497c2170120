"""Check that this process can allocate the memory of a module's globals."""

from __future__ import annotations

import mmap

from tileir.errors import InfeasibleError
from tileir.ir import Module
from tileir.limits import limit_diagnostic, size_of

_LARGE = 1 << 24
"""Bytes of globals that any process can allocate."""


def check_memory(module: Module) -> None:
    """Raise `InfeasibleError` (TIR1601) if this process cannot allocate the globals of `module`.
    LLVM would end the process."""
    total = sum(size_of(g) for g in module.globals.values() if not g.external)
    if total < _LARGE:
        return
    try:
        mmap.mmap(-1, total).close()
    except (OSError, OverflowError, ValueError):
        last = list(module.globals.values())[-1]
        what = f"there is no memory for {total} bytes of globals"
        raise InfeasibleError(limit_diagnostic("global_bytes", what, last.location)) from None
