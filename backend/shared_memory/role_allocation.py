"""Shared memory of a kernel and its roles, which run at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.backend.shared_memory.allocate import allocate_function
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op

_ALIGNMENT = 1024
"""Bytes: what the range of a role is aligned to, the largest alignment of any buffer."""


def allocate_with_roles(module: Module, kernel: str, roles: Sequence[str], limit: int) -> Module:
    """`module` whose `kernel` and `roles` have ranges of shared memory, the roles' disjoint from
    each other and from the kernel's. Raises CompileError (TIR0708) past `limit` bytes."""
    allocated = allocate_function(module.functions[kernel], limit)
    end, functions = SharedMemoryPlan.of(allocated).size, dict[str, Function]()
    for name in roles:
        function = allocate_function(module.functions[name])
        if size := SharedMemoryPlan.of(function).size:
            first = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = first + size
            function = _offset_ranges(function, first, end)
        functions[name] = function
    if end > limit:
        message = f"{end} bytes of shared memory are needed, and there are {limit}"
        raise CompileError(Diagnostic("TIR0708", message, allocated.location))
    if end > SharedMemoryPlan.of(allocated).size:
        allocated = allocated.evolve(attributes={**allocated.attributes, "shared": end})
    return module.with_functions({**module.functions, kernel: allocated, **functions})


def _offset_ranges(function: Function, first: int, end: int) -> Function:
    """`function` with its ranges from byte `first` on."""
    blocks = {
        label: attrs.evolve(block, ops=tuple(_with_range(op, first) for op in block.ops))
        for label, block in function.blocks.items()
    }
    moved = function.with_blocks(blocks)
    return moved.evolve(attributes={**moved.attributes, "shared": end})


def _with_range(op: Op, first: int) -> Op:
    return op if op.shared is None else op.evolve(shared=(op.shared[0] + first, op.shared[1]))
