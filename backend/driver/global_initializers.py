"""Initialization of a module's globals before a launch."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.backend.driver.device import CudaDriver
from tileir.backend.launch_arguments import launch_error
from tileir.backend.nvptx.text import global_name


@attrs.frozen(eq=False)
class GlobalInitializers:
    """The contents of globals, by name."""

    _values: dict[str, Any] = attrs.field(factory=dict)

    def note(self, name: str, values: Any) -> None:
        """Record a copy of `values`, for every context."""
        import numpy as np  # only kernels with globals need it

        self._values[name] = np.array(values, order="C", copy=True)

    def into(self, cuda: CudaDriver, context: int, function: Any) -> None:
        """Copy all contents to the module of `function` in `context`, after earlier launches there.
        Raises LaunchError (TIR0710, TIR0711)."""
        if not self._values:
            return
        with _in(cuda, context):
            cuda.synchronize()
            module = cuda.check(cuda.cuda.cuFuncGetModule(function), "cuFuncGetModule")
            for name, values in self._values.items():
                _fill(cuda, module, name, values)


@contextmanager
def _in(cuda: CudaDriver, context: int) -> Generator[None, None, None]:
    """Make `context` the current context within the body."""
    if cuda.context() == context:
        yield
        return
    cuda.check(cuda.cuda.cuCtxPushCurrent(cuda.cuda.CUcontext(context)), "cuCtxPushCurrent")
    try:
        yield
    finally:
        cuda.check(cuda.cuda.cuCtxPopCurrent(), "cuCtxPopCurrent")


def _fill(cuda: CudaDriver, module: Any, name: str, values: Any) -> None:
    status, address, size = cuda.cuda.cuModuleGetGlobal(module, global_name(name).encode())
    cuda.check((status,), "cuModuleGetGlobal")
    if size != values.nbytes:
        raise launch_error(f"global {name} has {size} bytes, and is to hold {values.nbytes}")
    cuda.to_device(int(address), values.ctypes.data, values.nbytes)
