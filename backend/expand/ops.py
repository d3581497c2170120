"""Ops that are others in disguise: tensor descriptors as addresses and masks, scaled products as
products of what their factors stand for, scans by a function under a predicate as scans of pairs.

Module to module, before layouts, so that nothing behind it knows these ops.
"""

from __future__ import annotations

from tileir.ir import Module
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
    # What few kernels have takes time to load.
    from tileir.backend.expand.descriptors import expand_descriptors
    from tileir.backend.expand.scaled import expand_scaled
    from tileir.backend.expand.scans import expand_scans

    changed = expand_scaled(expand_descriptors(function))
    if changed is not function:
        module = module.with_functions({**module.functions, kernel: changed})
    return expand_scans(module, kernel)


def _concerns(mnemonic: str) -> bool:
    return mnemonic in DISGUISED or mnemonic == "scan"
