"""What is done to a module before layouts: calls of functions on tiles inlined, predicates
lowered to masks and selects."""

from __future__ import annotations

from tileir.ir import Module
from tileir.linker import link
from tileir.passmanager import run

PIPELINE = "inline,lower-predicates"
"""Passes without which a module may hold what no lowering rule knows."""


def prepare(module: Module, kernel: str) -> Module:
    """`module` with nothing in `kernel` that lowering rules do not know, library functions that
    it declares linked in.

    Raises LinkError and PassError.
    """
    declared = any(function.is_declaration for function in module.functions.values())
    return run(link(module) if declared else module, PIPELINE, verify=False).module
