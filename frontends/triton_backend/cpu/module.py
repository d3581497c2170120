"""The stage `tir` of the backend `cpu`: from TTIR text to the text of a module."""

from __future__ import annotations

from typing import Any

from tileir.backend.permission import library_calls
from tileir.errors import Diagnostic, UnsupportedError
from tileir.frontends import ttir
from tileir.frontends.triton_backend.stages import kernel_name
from tileir.ir import Module
from tileir.textual import print_module
from tileir_triton.settings import cpu_mode


def module_text(text: str, metadata: dict[str, Any], num_warps: int) -> bytes:
    """The module of a TTIR text, as text; in `metadata` what Triton's launchers read.

    Where the interpreter is to run it, lanes of loads that are masked off are undefined. Raises
    CompilationError, and UnsupportedError (TIR0706) for functions of libraries of bitcode."""
    name = kernel_name(text)
    masked_off = "undefined" if cpu_mode() == "interpreter" else "zero"
    module = ttir.read(text, f"{name}.ttir", masked_off=masked_off, num_warps=num_warps)
    _refuse_library_calls(module)
    metadata.update(
        name=name, shared=1, tmem_size=0, global_scratch_size=0, global_scratch_align=1,
        profile_scratch_size=0, profile_scratch_align=1,
    )  # fmt: skip
    return print_module(module).encode()


def _refuse_library_calls(module: Module) -> None:
    """Raises UnsupportedError at each function of a library of bitcode, which is code of a GPU."""
    calls: Any = library_calls(module).values()
    refused = [
        Diagnostic(
            "TIR0706",
            f"{call.symbol} of the library {call.library} is code of a GPU, and tileir has no "
            f"formula for it: on the CPU, write it as a function of Triton (@triton.jit)",
            call.location,
        )
        for call in calls
    ]
    if refused:
        raise UnsupportedError(*refused)
