"""The verifier: what makes ops, blocks and functions a module.

Constructing an op has checked the op itself. Checked here, all in one run:

    names       keys of the mappings are the names; functions and globals share one name space
    blocks      one terminator each, at the end; the entry has no parameters, no predecessors
    edges       targets exist; arguments fit the parameters in number and type; two edges from
                one terminator to one block carry the same arguments; every block is reached;
                requests to the compiler on a latch are positive
    values      defined once in the module; each definition dominates its uses, an argument of
                an edge being used at the end of the block it leaves
    functions   `ret` gives the declared results; kernels return nothing and take scalars,
                pointers and descriptors; promises about parameters fit their types; alignments
                are powers of two
    symbols     calls, combiners and global addresses name something of the right kind and
                type; no recursion, since device functions are inlined
    globals     initial values fit
    attributes  of functions and modules have names and values that text can spell
    versions    no op is newer than the module says; `gpu.` ops and layouts need a stage
    shared      allocations are within the function's shared memory, and disjoint while live
    clusters    arrivals and waits alternate, outside of roles, in kernels that have a cluster
    predicates  psi operands; no read of a value where its predicate may be false

Errors are raised together, the first hundred of them; warnings and remarks are returned.
"""

from __future__ import annotations

from tileir.errors import MAX_ERRORS, Diagnostic, Severity, VerifyError
from tileir.ir import Module
from tileir.op import Op
from tileir.values import Value
from tileir.verify.declarations import (
    check_attributes,
    check_function_header,
    check_globals,
    check_names,
    check_reserved,
)
from tileir.verify.definitions import check_definitions
from tileir.verify.structure import check_structure
from tileir.verify.symbols import check_recursion, check_symbols

__all__ = ["diagnose", "verify"]


def verify(module: Module) -> tuple[Diagnostic, ...]:
    """Check `module`; return its warnings and remarks. Linear in its size.

    Raises VerifyError with the errors found, in the order of the text, `MAX_ERRORS` at most.
    """
    diagnostics = diagnose(module)
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise VerifyError(*errors[:MAX_ERRORS])
    return diagnostics


def diagnose(module: Module) -> tuple[Diagnostic, ...]:
    """Every finding about `module`, errors included."""
    diagnostics = [*check_names(module), *check_globals(module)]
    diagnostics += check_attributes("metadata", module.metadata, None)
    diagnostics += check_reserved(module)
    defined: dict[Value, None] = {}
    naming: dict[str, list[Op]] = {}
    for function in module.functions.values():
        diagnostics.extend(check_function_header(function))
        if function.is_declaration:
            continue
        wrong = list(check_structure(function))
        walk = check_definitions(module, function, defined)
        wrong += walk.findings
        diagnostics.extend(wrong)
        diagnostics.extend(check_symbols(module, walk.naming))
        naming[function.name] = walk.naming
        if walk.predicated and not wrong:
            from tileir.verify.predicates import check_predicates  # few programs have any

            diagnostics.extend(check_predicates(function))
        if walk.placed and not wrong:
            from tileir.verify.shared_memory import (
                check_shared_memory,
            )  # user programs have no offsets

            diagnostics.extend(check_shared_memory(function))
        if module.stage is not None and not wrong:
            from tileir.verify.clusters import check_clusters  # as above

            diagnostics.extend(check_clusters(module, function))
    diagnostics.extend(check_recursion(naming))
    return tuple(diagnostics)
