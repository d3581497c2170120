"""Legalization of a module before layouts are assigned: library functions are linked, calls are
inlined, ops without lowering rules are decomposed, and predicates become masks and selects."""

from __future__ import annotations

from typing import Any, cast

from tileir.backend.legal import has_tiles
from tileir.backend.legalize.expand import expand, expand_role
from tileir.calls import check_call_depth
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op


def legalize(module: Module, kernel: str) -> Module:
    """`module` with `kernel` legalized: every op of it has a lowering rule, and the library
    functions that it declares are linked.

    Raises LinkError, PassError and `CompileError` (TIR0513: calls that nest too deeply).
    """
    check_call_depth(module, module.functions[kernel], CompileError)
    expanded = expand(linked_and_inlined(module), kernel)
    for name in roles_of(expanded.functions[kernel]):
        expanded = expand_role(expanded, name)
    return _lower_predicates(expanded)


def linked_and_inlined(module: Module) -> Module:
    """`module` with library functions linked, calls inlined, and unused tiles removed from
    combiners. Raises LinkError, PassError, and `CompileError` (TIR0706) for a combiner that
    computes with tiles."""
    declared = any(function.is_declaration for function in module.functions.values())
    return _remove_tiles_from_combiners(_inline(_link(module) if declared else module))


def roles_of(kernel: Function) -> list[str]:
    """Names of the functions that `kernel` starts as roles."""
    return [cast(Any, op).callee for op in kernel.ops if op.mnemonic == "gpu.role"]


# These passes are loaded on use: most kernels need none of them.


def _link(module: Module) -> Module:
    from tileir.linker import link

    return link(module)


def _inline(module: Module) -> Module:
    if not any(op.mnemonic == "call" for f in module.functions.values() for op in f.ops):
        return module
    from tileir.passmanager import run

    return run(module, "inline", verify=False).module


def _remove_tiles_from_combiners(module: Module) -> Module:
    """`module` with unused tiles removed from combiners: frontends create some to query a type."""
    if len(module.functions) == 1:
        return module
    users: dict[str, Op] = {}
    for op in (op for f in module.functions.values() for op in f.ops):
        name = getattr(op, "combiner", None)
        if isinstance(name, str) and has_tiles(module.functions[name]):
            users[name] = op
    if not users:
        return module
    from tileir.passes.dce import dce

    without_tiles = {name: dce(module.functions[name]) for name in users}
    for name, op in users.items():
        if has_tiles(without_tiles[name]):
            message = f"@{name} is a combiner of scalars: it must not compute with tiles"
            raise CompileError(Diagnostic("TIR0706", message, op.location))
    return module.with_functions({**module.functions, **without_tiles})


def _lower_predicates(module: Module) -> Module:
    ops = (op for function in module.functions.values() for op in function.ops)
    if all(op.predicate is None and op.mnemonic != "psi" for op in ops):
        return module
    from tileir.passmanager import run

    return run(module, "lower-predicates", verify=False).module
