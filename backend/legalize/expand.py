"""Ops that are others in disguise: tensor descriptors as addresses and masks, scaled products as
products of what their factors stand for, scans by a function under a predicate as scans of pairs.

Module to module, before layouts, so that nothing behind it knows these ops.
"""

from __future__ import annotations

from tileir.ir import Function, Module
from tileir.types import Descriptor

DISGUISED = frozenset(
    {"make_descriptor", "descriptor_load", "descriptor_store", "descriptor_reduce",
     "descriptor_gather", "descriptor_scatter", "dot_scaled"}
)  # fmt: skip
"""Ops that no lowering rule sees."""


def expand(module: Module, kernel: str) -> Module:
    """`module` with the ops of `kernel` expanded, and its parameters that are descriptors as base,
    extents and strides; itself where there are none."""
    function = module.functions[kernel]
    described = any(isinstance(p.type, Descriptor) for p in function.parameters)
    if not described and not any(_concerns(op.mnemonic) for op in function.ops):
        return module
    from tileir.backend.legalize.descriptors import expand_descriptors  # as below

    return _expanded(module, expand_descriptors(function))


def expand_role(module: Module, name: str) -> Module:
    """The same for a function that a kernel starts as a role, whose descriptors are tensor maps."""
    function = module.functions[name]
    if not any(_concerns(op.mnemonic) for op in function.ops):
        return module
    from tileir.backend.legalize.descriptors import expand_descriptors  # as below

    return _expanded(module, expand_descriptors(function, maps=True))


def _expanded(module: Module, function: Function) -> Module:
    # What few kernels have takes time to load.
    from tileir.backend.legalize.scaled_dots import expand_scaled
    from tileir.backend.legalize.scans import expand_scans

    changed = expand_scaled(function)
    if changed is not module.functions[function.name]:
        module = module.with_functions({**module.functions, function.name: changed})
    return expand_scans(module, function.name)


def _concerns(mnemonic: str) -> bool:
    return mnemonic in DISGUISED or mnemonic == "scan"
