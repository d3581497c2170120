"""The stage `tir` of the backend `cpu`: from TTIR text to the text of a module."""

from __future__ import annotations

from typing import Any

from tileir.frontends import ttir
from tileir.frontends.triton_backend.stages import kernel_name
from tileir.textual import print_module
from tileir_triton.settings import cpu_mode


def module_text(text: str, metadata: dict[str, Any], num_warps: int) -> bytes:
    """The module of a TTIR text, as text; in `metadata` what Triton's launchers read.

    Where the interpreter is to run it, lanes of loads that are masked off are undefined. Raises
    CompilationError."""
    name = kernel_name(text)
    masked_off = "undefined" if cpu_mode() == "interpreter" else "zero"
    module = ttir.read(text, f"{name}.ttir", masked_off=masked_off, num_warps=num_warps)
    metadata.update(
        name=name, shared=1, tmem_size=0, global_scratch_size=0, global_scratch_align=1,
        profile_scratch_size=0, profile_scratch_align=1,
    )  # fmt: skip
    return print_module(module).encode()
