"""What is done to a module before layouts: calls of functions on tiles inlined, ops that are
others in disguise expanded, predicates lowered to masks and selects."""

from __future__ import annotations

from typing import Any, cast

from tileir.backend.expand.ops import expand, expand_role
from tileir.ir import Function, Module


def prepare(module: Module, kernel: str) -> Module:
    """`module` with nothing in `kernel` that lowering rules do not know, library functions that
    it declares linked in.

    Raises LinkError, PassError and `CompileError`.
    """
    expanded = expand(whole(module), kernel)
    for name in roles_of(expanded.functions[kernel]):
        expanded = expand_role(expanded, name)
    return _unpredicated(expanded)


def whole(module: Module) -> Module:
    """`module` with library functions linked in and calls inlined. Raises LinkError and
    PassError."""
    declared = any(function.is_declaration for function in module.functions.values())
    return _inlined(_linked(module) if declared else module)


def roles_of(kernel: Function) -> list[str]:
    """Names of the functions that `kernel` starts as roles."""
    return [cast(Any, op).callee for op in kernel.ops if op.mnemonic == "gpu.role"]


# What follows is loaded for the modules that need it: most kernels have none of it.


def _linked(module: Module) -> Module:
    from tileir.linker import link

    return link(module)


def _inlined(module: Module) -> Module:
    if not any(op.mnemonic == "call" for f in module.functions.values() for op in f.ops):
        return module
    from tileir.passmanager import run

    return run(module, "inline", verify=False).module


def _unpredicated(module: Module) -> Module:
    ops = (op for function in module.functions.values() for op in function.ops)
    if all(op.predicate is None and op.mnemonic != "psi" for op in ops):
        return module
    from tileir.passmanager import run

    return run(module, "lower-predicates", verify=False).module
