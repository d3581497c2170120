"""tileir as a backend of unmodified Triton, 3.3 to 3.9: for GPUs within Triton's CUDA
backend (TILEIR_IN_TRITON), and on the CPU (the backend `cpu`, TILEIR_TRITON_CPU).

    import tileir.frontends.triton_backend as backend

    print(backend.report())             which compiler built each kernel, and why
    backend.compiled_by(compiled)       the same of one CompiledKernel
    backend.install("strict"), backend.uninstall()
    backend.use_cpu()                   kernels run on the CPU from now on

Triton loads the entry points in `tileir_triton`, which import this package when the first kernel
is compiled.
"""

from __future__ import annotations

from typing import Any

from tileir_triton.reporting import KernelRecord, KernelReport, compiled_by, report
from tileir_triton.settings import Settings

__all__ = [
    "KernelRecord", "KernelReport", "Settings", "compiled_by", "install", "register", "report",
    "uninstall", "use_cpu",
]  # fmt: skip


def install(settings: Settings | str = "1") -> bool:
    """Let tileir compile kernels of Triton's CUDA backend from now on, as TILEIR_IN_TRITON =
    `settings` does when Triton is imported. Whether it does: False, with a warning, for a release
    of Triton that is not known."""
    from importlib import import_module

    from tileir_triton.hook import install as install_hook

    import_module("triton")  # whose backend is changed
    return install_hook(settings)


def uninstall() -> None:
    """Let Triton compile by itself again."""
    from tileir_triton.hook import uninstall as uninstall_hook

    uninstall_hook()


def register() -> None:
    """Put `tileir` and `cpu` among Triton's backends where it has not found them by itself: Triton
    3.3 and TRITON_BACKENDS_IN_TREE=1 know no entry points."""
    from triton.backends import Backend, backends

    from tileir_triton import compiler, driver
    from tileir_triton.cpu import compiler as cpu_compiler, driver as cpu_driver

    registry: dict[str, Any] = backends
    registry.setdefault("tileir", Backend(compiler.TileirBackend, driver.TileirDriver))
    registry.setdefault("cpu", Backend(cpu_compiler.CPUBackend, cpu_driver.CPUDriver))


def use_cpu() -> None:
    """Run kernels on the CPU from now on, whatever else is there."""
    register()
    from triton.runtime.driver import driver

    from tileir_triton.cpu.driver import CPUDriver

    driver.set_active(CPUDriver())
