"""The backend: from modules to machine code, by layouts, lowering, assembly and launch.

    compiled = tileir.backend.compile(module, target="sm_90a")
    compiled.ptx, compiled.cubin, compiled.metadata

    kernel = tileir.backend.jit(module)
    kernel[(blocks,)](x, y, n)

llvmlite is imported by the first compilation, the CUDA bindings by the first launch.
"""

from __future__ import annotations

if __name__ != "tileir.backend":
    raise ImportError(f"import this package as tileir.backend, not as {__name__}")

from typing import TYPE_CHECKING, Any

from tileir.process import collector_paused

with collector_paused():  # objects of an import stay alive
    from tileir.backend.compile import CompiledKernel, Metadata, Options, compile  # noqa: A004
    from tileir.backend.metadata import HostStep, KernelParameter
    from tileir.backend.target import TARGETS, Target, target

if TYPE_CHECKING:
    from tileir.backend.executors import jit
    from tileir.backend.op_support import Support, SupportLevel, supports
    from tileir.backend.runtime.cache import Cache
    from tileir.backend.runtime.jit import Jit

__all__ = [
    "TARGETS",
    "Cache",
    "CompiledKernel",
    "HostStep",
    "Jit",
    "KernelParameter",
    "Metadata",
    "Options",
    "Support",
    "SupportLevel",
    "Target",
    "compile",
    "jit",
    "supports",
    "target",
]

_MODULES = {
    "Cache": "runtime.cache", "Jit": "runtime.jit", "jit": "executors",
    **dict.fromkeys(("SupportLevel", "Support", "supports"), "op_support"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import, on first use, what compilation does not need."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tileir.backend' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tileir.backend.{_MODULES[name]}"), name)
