"""Where `tileir run` can run a kernel: each executor fills the arrays it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module
from tileir.tools.inputs import Recipe

Executor: TypeAlias = Callable[[Module, Recipe, dict[str, Any]], None]


def interpreter(module: Module, plan: Recipe, arguments: dict[str, Any]) -> None:
    """The reference interpreter. Raises InterpretError."""
    from tileir.interp import interpret

    interpret(module, plan.kernel.name, plan.grid, arguments)


def gpu(module: Module, plan: Recipe, arguments: dict[str, Any]) -> None:
    """The first GPU: arrays are copied there and back. Raises CompileError and LaunchError."""
    from tileir.backend import compile as compile_kernel
    from tileir.backend.device import driver
    from tileir.backend.launch import Kernel

    cuda = driver()
    compiled = compile_kernel(module, target=gpu_target(), kernel=plan.kernel.name)
    addresses: dict[str, int] = {}
    try:
        for name, value in arguments.items():
            if isinstance(value, np.ndarray):
                addresses[name] = _upload(cuda, value)
        values = [addresses.get(name, value) for name, value in arguments.items()]
        Kernel(compiled)[plan.grid](*values)
        cuda.synchronize()
        for name, address in addresses.items():
            array = arguments[name]
            copied = cuda.cuda.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes)
            cuda.check(copied, "cuMemcpyDtoH")
    finally:
        for address in addresses.values():
            cuda.cuda.cuMemFree(address)


EXECUTORS: dict[str, Executor] = {"interpreter": interpreter, "gpu": gpu}
"""Every executor by the name `--on` takes."""


def choose(wanted: str) -> str:
    """The executor for `wanted`; for `auto` a GPU where there is one, else the interpreter.

    Raises ToolError (TIR0907) where a GPU is asked for and there is none.
    """
    if wanted not in ("auto", "gpu"):
        return wanted
    missing = _no_gpu()
    if missing is None:
        return "gpu"
    if wanted == "gpu":
        raise ToolError(Diagnostic("TIR0907", f"cannot run on a GPU: {missing}"))
    return "interpreter"


def gpu_target() -> str:
    """The newest target the first GPU runs code of. Raises LaunchError without a GPU."""
    from tileir.backend.device import driver
    from tileir.backend.target import TARGETS

    major, minor = driver().capability()
    exact = f"sm_{major}{minor}"
    if exact + "a" in TARGETS:
        return exact + "a"
    older = [
        name for name in TARGETS if name[3:].isdecimal() and int(name[3:]) <= 10 * major + minor
    ]
    return exact if exact in TARGETS else max(older, key=lambda name: int(name[3:]))


def _no_gpu() -> str | None:
    """Why nothing can be launched on a GPU here; None where it can."""
    from tileir.backend.device import available

    return available()


def _upload(cuda: Any, array: Any) -> int:
    address = cuda.check(cuda.cuda.cuMemAlloc(max(1, array.nbytes)), "cuMemAlloc")
    copied = cuda.cuda.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes)
    cuda.check(copied, "cuMemcpyHtoD")
    return int(address)
