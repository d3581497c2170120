"""The choice of the executor of `tileir run`."""

from __future__ import annotations

import importlib.util

from tileir.errors import Diagnostic, ToolError
from tileir.executor import on_host
from tileir.ir import Module


def choose(required: str, module: Module, kernel: str) -> str:
    """The executor for `required`. `auto` is a GPU if there is one, else this machine's CPU if it
    supports the kernel, else the interpreter. Raises ToolError (TIR0907) if a GPU is required and
    there is none."""
    if required not in ("auto", "gpu"):
        return required
    missing = no_gpu()
    if missing is None:
        return "gpu"
    if required == "gpu":
        raise ToolError(Diagnostic("TIR0907", f"cannot run on a GPU: {missing}"))
    return on_host(module, kernel)


def no_gpu() -> str | None:
    """The reason why this machine cannot launch on a GPU; None if it can."""
    from tileir.backend.driver.device import available

    if importlib.util.find_spec("llvmlite") is None:
        return "llvmlite is not installed"
    return available()


DEFAULT_TARGET = "sm_90a"
"""The default target of all commands on a machine without a GPU."""


def target_of(stated: str | None) -> str:
    """The target to compile for: `stated` if it is not None, else that of this machine's GPU, else
    the default."""
    return stated or gpu_target() or DEFAULT_TARGET


def gpu_target() -> str | None:
    """The target of this machine's GPU; None if there is no GPU."""
    if no_gpu() is not None:
        return None
    from tileir.backend import executors

    return executors.gpu_target()
