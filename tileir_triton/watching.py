"""Kernels that Triton loads: those from its cache belong in the report too."""

from __future__ import annotations

from typing import Any

from tileir_triton.reporting import compiled_by, note


def watch_loading() -> None:
    """Note every `CompiledKernel` from now on."""
    from triton.compiler.compiler import CompiledKernel

    kind: Any = CompiledKernel
    begin = kind.__init__
    if hasattr(begin, "tileir_watches"):
        return

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        begin(self, *arguments, **named)
        record = compiled_by(self)
        if record is not None:
            note(record)

    __init__.tileir_watches = True  # type: ignore[attr-defined]
    kind.__init__ = __init__
