"""The PTX file of a kernel that `tileir run` ran."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileir.ir import Module
from tileir.tools.executors import target_of
from tileir.tools.files import file_name

if TYPE_CHECKING:
    from tileir.backend import CompiledKernel


def compiled_for(
    module: Module, kernel: str, target: str | None, options: Mapping[str, Any]
) -> CompiledKernel:
    """`kernel` compiled with `options` for `target`, or for the GPU of this machine.

    Raises CompileError, and ModuleNotFoundError if llvmlite is not installed.
    """
    from tileir.backend import compile as compile_kernel

    return compile_kernel(module, target_of(target), options, kernel)


def usual_path(compiled: CompiledKernel) -> str:
    """The default path of the PTX file, in the user's cache."""
    plan = compiled.plan
    return str(cache_folder() / "ptx" / f"{file_name(plan.kernel)}.{plan.target}.ptx")


def cache_folder() -> Path:
    """The user's cache folder of tileir, by the conventions of the system."""
    stated = os.environ.get("XDG_CACHE_HOME")
    if stated:
        return Path(stated) / "tileir"
    parts = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return Path("~", *parts, "tileir").expanduser()
