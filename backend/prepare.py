"""What is done to a module before layouts: calls of functions on tiles inlined, ops that are
others in disguise expanded, predicates lowered to masks and selects."""

from __future__ import annotations

from tileir.backend.expand.ops import expand
from tileir.ir import Module
from tileir.linker import link
from tileir.passmanager import run


def prepare(module: Module, kernel: str) -> Module:
    """`module` with nothing in `kernel` that lowering rules do not know, library functions that
    it declares linked in.

    Raises LinkError, PassError and `CompileError`.
    """
    declared = any(function.is_declaration for function in module.functions.values())
    whole = run(link(module) if declared else module, "inline", verify=False).module
    return run(expand(whole, kernel), "lower-predicates", verify=False).module
