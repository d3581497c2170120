"""The verifier of modules.

The constructor of an op checks the op itself. The verifier checks in one run:

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
from tileir.verify.declarations import (
    check_attributes,
    check_globals,
    check_names,
    check_reserved,
)

__all__ = ["diagnose", "verify"]


def verify(module: Module) -> tuple[Diagnostic, ...]:
    """Check `module` and return its warnings and remarks, in time linear in its size.

    Raises VerifyError with the errors in the order of the text, at most `MAX_ERRORS`.
    """
    diagnostics = diagnose(module)
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise VerifyError(*errors[:MAX_ERRORS])
    return diagnostics


def diagnose(module: Module) -> tuple[Diagnostic, ...]:
    """Check `module` and return all findings, including errors."""
    diagnostics = [*check_names(module), *check_globals(module)]
    diagnostics += check_attributes("metadata", module.metadata, None)
    diagnostics += check_reserved(module)
    if module.functions:
        from tileir.verify.functions import check_functions  # a module to be linked has none

        diagnostics += check_functions(module)
    return tuple(diagnostics)
