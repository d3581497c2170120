"""What is done to a module before layouts: calls of functions on tiles inlined, ops that are
others in disguise expanded, predicates lowered to masks and selects."""

from __future__ import annotations

from typing import Any, cast

from tileir.backend.legalize.expand import expand, expand_role
from tileir.calls import check_call_depth
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.types import Tile


def legalize(module: Module, kernel: str) -> Module:
    """`module` with nothing in `kernel` that lowering rules do not know, library functions that
    it declares linked in.

    Raises LinkError, PassError and `CompileError` (TIR0513: calls that nest too deeply).
    """
    check_call_depth(module, module.functions[kernel], CompileError)
    expanded = expand(linked_and_inlined(module), kernel)
    for name in roles_of(expanded.functions[kernel]):
        expanded = expand_role(expanded, name)
    return _unpredicated(expanded)


def linked_and_inlined(module: Module) -> Module:
    """`module` with library functions linked in, calls inlined, and combiners of scalars alone.
    Raises LinkError, PassError and `CompileError`."""
    declared = any(function.is_declaration for function in module.functions.values())
    return _of_scalars(_inlined(_linked(module) if declared else module))


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


def _of_scalars(module: Module) -> Module:
    """Combiners without the tiles that nobody reads: kernels make some to ask for a type."""
    if len(module.functions) == 1:
        return module
    found: dict[str, Op] = {}
    for op in (op for f in module.functions.values() for op in f.ops):
        name = getattr(op, "combiner", None)
        if isinstance(name, str) and has_tiles(module.functions[name]):
            found[name] = op
    if not found:
        return module
    from tileir.passes.dce import dce

    swept = {name: dce(module.functions[name]) for name in found}
    for name, op in found.items():
        if has_tiles(swept[name]):
            message = f"@{name} combines elements, and cannot be compiled with tiles in it"
            raise CompileError(Diagnostic("TIR0706", message, op.location))
    return module.with_functions({**module.functions, **swept})


def has_tiles(function: Function) -> bool:
    """Whether a parameter or a result of an op is a tile."""
    results = (v.type for op in function.ops for v in op.results)
    return any(isinstance(t, Tile) for t in (*(p.type for p in function.parameters), *results))


def _unpredicated(module: Module) -> Module:
    ops = (op for function in module.functions.values() for op in function.ops)
    if all(op.predicate is None and op.mnemonic != "psi" for op in ops):
        return module
    from tileir.passmanager import run

    return run(module, "lower-predicates", verify=False).module
