"""Triton's Python as a frontend: kernels written for Triton run with their import line changed.

    import tileir.frontends.triton as triton
    import tileir.frontends.triton.language as tl

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = i < n
        tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)

    add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)

See `docs/reference/frontends/triton.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.frontends.triton.errors import CompilationError, TritonError

if TYPE_CHECKING:
    from tileir.frontends.triton import language, runtime, testing, tools
    from tileir.frontends.triton.python_functions import constexpr_function
    from tileir.frontends.triton.runtime import (
        Autotuner,
        Config,
        InterpreterError,
        JITFunction,
        KernelInterface,
        OutOfResources,
        TensorWrapper,
        autotune,
        heuristics,
        reinterpret,
    )
    from tileir.frontends.triton.runtime.jit import jit

__all__ = [
    "Autotuner",
    "CompilationError",
    "Config",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "autotune",
    "cdiv",
    "constexpr_function",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
    "tools",
]

_MODULES = ("language", "runtime", "testing", "tools")
_SUBMODULES = {
    "constexpr_function": "python_functions",
    "jit": "runtime.jit",
    **dict.fromkeys(
        ("Autotuner", "Config", "InterpreterError", "JITFunction", "KernelInterface",
         "OutOfResources", "TensorWrapper", "autotune", "heuristics", "reinterpret"),
        "runtime",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the language and the launches on first use: readers of TTIR need neither."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"tileir.frontends.triton.{name}")
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'tileir.frontends.triton' has no attribute {name!r}")
    return getattr(import_module(f"tileir.frontends.triton.{_SUBMODULES[name]}"), name)


__version__ = "3.8.0"
"""The version of Triton whose language is implemented; source files of kernels query it."""


def set_allocator(allocator: Any) -> None:
    """Accept an allocator for Triton's sake; kernels of tileir need no scratch memory, so it is not
    called."""


def cdiv(x: int, y: int) -> int:
    """Return the quotient, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least `n`."""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()
