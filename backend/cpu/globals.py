"""The globals of a kernel that have memory on the CPU."""

from __future__ import annotations

from tileir.backend.legal import within
from tileir.ir import Global, Module


def globals_of(module: Module, kernel: str) -> list[Global]:
    """The globals with memory that `kernel` uses, in the order of `list_globals`."""
    return [g for g in within(module, kernel).globals.values() if not g.external]
