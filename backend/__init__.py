"""From modules to machine code: layouts, lowering, targets, assembly and launch.

    compiled = tileir.backend.compile(module, target="sm_90a")
    compiled.ptx, compiled.cubin, compiled.metadata

llvmlite is imported when something is compiled, the CUDA bindings when something is launched.
"""

from __future__ import annotations

if __name__ != "tileir.backend":
    raise ImportError(f"import this package as tileir.backend, not as {__name__}")

from tileir.backend.collector import collector_paused

with collector_paused():
    from tileir.backend.compile import Compiled, Metadata, Options, compile  # noqa: A004
    from tileir.backend.metadata import Argument, HostStep
    from tileir.backend.support import How, Support, supports
    from tileir.backend.target import TARGETS, Target, target

__all__ = [
    "TARGETS", "Argument", "Compiled", "HostStep", "How", "Metadata", "Options", "Support",
    "Target", "compile", "supports", "target",
]  # fmt: skip
