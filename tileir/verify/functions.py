"""The functions of a module: headers, bodies, and references between functions."""

from __future__ import annotations

from tileir.errors import Diagnostic
from tileir.ir import Module
from tileir.op import Op
from tileir.values import Value
from tileir.verify.declarations import check_function_header
from tileir.verify.definitions import check_definitions
from tileir.verify.structure import check_structure
from tileir.verify.symbols import check_recursion, check_symbols


def check_functions(module: Module) -> list[Diagnostic]:
    """Every finding about the functions of `module`."""
    diagnostics: list[Diagnostic] = []
    defined: dict[Value, None] = {}
    ordinary: dict[type[Op], bool] = {}
    naming: dict[str, list[Op]] = {}
    for function in module.functions.values():
        diagnostics.extend(check_function_header(function))
        if function.is_declaration:
            continue
        wrong = list(check_structure(function))
        walk = check_definitions(module, function, defined, ordinary)
        wrong += walk.findings
        diagnostics.extend(wrong)
        if walk.naming:
            diagnostics.extend(check_symbols(module, walk.naming))
            naming[function.name] = walk.naming
        if walk.predicated and not wrong:
            from tileir.verify.predicates import check_predicates  # few programs have any

            diagnostics.extend(check_predicates(function))
        if walk.placed and not wrong:
            # user programs have no offsets
            from tileir.verify.shared_memory import check_shared_memory

            diagnostics.extend(check_shared_memory(function))
        if module.stage is not None and not wrong:
            from tileir.verify.clusters import check_clusters  # as above

            diagnostics.extend(check_clusters(module, function))
    if naming:
        diagnostics.extend(check_recursion(naming))
    return diagnostics
