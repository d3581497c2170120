"""Where the PTX of a kernel that was run goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tileir.ir import Module
from tileir.tools.executors import gpu_target
from tileir.tools.files import file_name, write_file

if TYPE_CHECKING:
    from tileir.backend import Compiled

DEFAULT_TARGET = "sm_80"
"""What is compiled for where there is no GPU to ask."""


def write_ptx(
    module: Module, kernel: str, target: str | None, path: str | None
) -> tuple[Compiled, str]:
    """Compile `kernel` and write its PTX to `path`, or to the user's cache; the compiled kernel
    and where its PTX went.

    Raises CompileError, ToolError (TIR0905), and ModuleNotFoundError without llvmlite.
    """
    from tileir.backend import compile as compile_kernel

    chosen = target or gpu_target() or DEFAULT_TARGET
    compiled = compile_kernel(module, target=chosen, kernel=kernel)
    where = path or str(cache_folder() / "ptx" / f"{file_name(kernel)}.{chosen}.ptx")
    write_file(where, compiled.ptx.encode())
    return compiled, where


def cache_folder() -> Path:
    """The user's cache folder of tileir, as each system wants it."""
    stated = os.environ.get("XDG_CACHE_HOME")
    if stated:
        return Path(stated) / "tileir"
    parts = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return Path.home().joinpath(*parts, "tileir")
