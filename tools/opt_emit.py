"""Machine code for `tileir-opt --emit llvm|ptx|cubin`."""

from __future__ import annotations

import sys

from tileir import backend
from tileir.ir import Module
from tileir.tools.remarks import rendered


def emitted(module: Module, target: str, form: str, *, remarks: bool, lines: bool = False) -> bytes:
    """`module` compiled for `target`, as `form`; with `remarks`, what the compiler remarked goes
    to standard error; with `lines`, code says what it comes from. Raises CompileError."""
    compiled = backend.compile(module, target=target, options={"lines": lines})
    if remarks:
        sys.stderr.write(rendered(compiled.remarks))
    found = getattr(compiled, form)
    return found if isinstance(found, bytes) else str(found).encode()
