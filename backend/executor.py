"""The executor `gpu`: kernels on the first GPU, with arrays copied there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tileir.backend.compile import Compiled, compile as compile_kernel
from tileir.backend.device import Driver, driver
from tileir.backend.launch import Kernel
from tileir.backend.target import TARGETS
from tileir.errors import Diagnostic, LaunchError
from tileir.ir import Function, Module


@attrs.frozen
class GpuExecutor:
    """Compiles and launches; an entry point of `tileir.executors`."""

    name: str = "gpu"

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> Compiled:
        """Run `kernel` (None: the only one) once per instance of `grid` and wait for its end.

        Host arrays (C-contiguous, anything with `__array_interface__`) are copied to the GPU and
        back; numbers, addresses and GPU arrays are passed on. `options` are those of `compile`.
        Raises CompileError and LaunchError.
        """
        cuda = driver()
        compiled = compile_kernel(module, gpu_target(), options or None, kernel)
        values = _ordered(compiled.stages["input"].kernel(kernel), arguments)
        copies: list[tuple[Any, int]] = []
        try:
            passed = [_device_value(cuda, value, copies) for value in values]
            Kernel(compiled)[grid](*passed)
            cuda.synchronize()
            for array, address in copies:
                copied = cuda.cuda.cuMemcpyDtoH(_address(array), address, array.nbytes)
                cuda.check(copied, "cuMemcpyDtoH")
        finally:
            for _, address in copies:
                cuda.cuda.cuMemFree(address)
        return compiled


def gpu_target() -> str:
    """The newest target that the first GPU runs code of. Raises LaunchError without a GPU."""
    major, minor = driver().capability()
    exact = f"sm_{major}{minor}"
    if f"{exact}a" in TARGETS:
        return f"{exact}a"
    numbers = [int(name[3:]) for name in TARGETS if name[3:].isdecimal()]
    fitting = [n for n in numbers if n // 10 == major and n <= 10 * major + minor]
    if not fitting:
        raise LaunchError(Diagnostic("TIR0711", f"no target fits a GPU of {exact}"))
    return f"sm_{max(fitting)}"


def _ordered(function: Function, arguments: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters. Raises LaunchError (TIR0710)."""
    if not isinstance(arguments, Mapping):
        return list(arguments)
    names = [p.name or "" for p in function.parameters]
    if set(names) != set(arguments):
        wrong = ", ".join(sorted(set(names) ^ set(arguments)))
        message = f"arguments and parameters of @{function.name} differ: {wrong}"
        raise LaunchError(Diagnostic("TIR0710", message))
    return [arguments[name] for name in names]


def _device_value(cuda: Driver, value: Any, copies: list[tuple[Any, int]]) -> Any:
    """A host array's copy on the GPU, noted in `copies`; anything else as it is."""
    interface = getattr(value, "__array_interface__", None)
    if interface is None or not interface["shape"]:
        return value
    if interface.get("strides") is not None:
        raise LaunchError(Diagnostic("TIR0710", "a host array must be C-contiguous"))
    address = cuda.check(cuda.cuda.cuMemAlloc(max(1, value.nbytes)), "cuMemAlloc")
    copies.append((value, int(address)))
    copied = cuda.cuda.cuMemcpyHtoD(address, _address(value), value.nbytes)
    cuda.check(copied, "cuMemcpyHtoD")
    return int(address)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]
