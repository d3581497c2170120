"""Decomposition of ops that have no lowering rules: accesses by tensor descriptors, scaled dots,
and predicated scans by a function.

It runs before layouts are assigned; later stages never see these ops.
"""

from __future__ import annotations

from tileir.backend.legal import may_be_expanded
from tileir.ir import Function, Module
from tileir.types import Descriptor


def expand(module: Module, kernel: str) -> Module:
    """`module` with such ops of `kernel` decomposed, and its descriptor parameters replaced by
    base, extents and strides; `module` itself where there are none."""
    function = module.functions[kernel]
    has_descriptors = any(isinstance(p.type, Descriptor) for p in function.parameters)
    if not has_descriptors and not any(may_be_expanded(op.mnemonic) for op in function.ops):
        return module
    from tileir.backend.legalize.descriptors import expand_descriptors  # few kernels need it

    function = _with_defined_predicates(function)
    return _expand_scaled_and_scans(module, expand_descriptors(function))


def expand_role(module: Module, name: str) -> Module:
    """Expand, as `expand`, a function that a kernel starts as a role. Its descriptor parameters
    stay: they are tensor maps."""
    function = module.functions[name]
    if not any(may_be_expanded(op.mnemonic) for op in function.ops):
        return module
    from tileir.backend.legalize.descriptors import expand_descriptors  # few kernels need it

    function = _with_defined_predicates(function)
    return _expand_scaled_and_scans(module, expand_descriptors(function, maps=True))


def _expand_scaled_and_scans(module: Module, function: Function) -> Module:
    # Loaded on use: few kernels have these ops.
    from tileir.backend.legalize.scaled_dots import expand_scaled
    from tileir.backend.legalize.scans import expand_scans

    changed = expand_scaled(function)
    if changed is not module.functions[function.name]:
        module = module.with_functions({**module.functions, function.name: changed})
    return expand_scans(module, function.name)


def _with_defined_predicates(function: Function) -> Function:
    """`function` with the predicates of ops to be decomposed false wherever they are undefined."""
    if not any(op.predicate is not None and may_be_expanded(op.mnemonic) for op in function.ops):
        return function
    from tileir.passes.defined_lanes import define_predicates

    return define_predicates(function, lambda op: may_be_expanded(op.mnemonic))
