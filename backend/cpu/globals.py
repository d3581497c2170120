"""The globals of a kernel, and those among them that have memory on the CPU."""

from __future__ import annotations

from tileir.analysis import memoize
from tileir.backend.legal import within
from tileir.ir import Global, Module


def used_globals(module: Module, kernel: str) -> tuple[Global, ...]:
    """The globals that `kernel` and the functions it reaches use."""
    by_kernel = _by_kernel(module)
    if kernel not in by_kernel:
        by_kernel[kernel] = tuple(within(module, kernel).globals.values())
    return by_kernel[kernel]


def globals_of(module: Module, kernel: str) -> list[Global]:
    """The globals with memory that `kernel` uses, in the order of `list_globals`."""
    return [g for g in used_globals(module, kernel) if not g.external]


@memoize
def _by_kernel(module: Module) -> dict[str, tuple[Global, ...]]:
    """The results of `used_globals` for `module`, by kernel."""
    return {}
