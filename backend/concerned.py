"""Passes of the pipeline that few kernels need, each loaded where a kernel has what it looks for:
a third of the time in which a process gets to its first kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileir.analysis.uses import definitions
from tileir.backend.roles.wanted import Front, Wanted
from tileir.backend.strip.limits import is_large, largest, warps_of
from tileir.backend.target import Target
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.passmanager.registry import Outcome
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value
from tileir.verify.declarations import RESERVED

_PRODUCTS = frozenset({"dot", "dot_scaled"})

_LOOPS = 256
"""Loops of a kernel from which on LLVM gets them rotated: where it rotates one itself, it goes
through all that this dominates, every loop behind it."""

_PLANNED = frozenset({"gpu.tensor_map", "gpu.role"})
"""Kernels have a host plan for their tensor maps, and for what their roles access by threads."""


def strip_mine(
    function: Function, warps: int, sliced: Callable[[], frozenset[Value]] = frozenset,
    functions: bool = False,
) -> Outcome:  # fmt: skip
    """`strip-mine`, where an operand takes more registers than are left whole; of `sliced` values
    pieces are slices. `functions`: what two loops need of a function is computed once."""
    if any(op.mnemonic.startswith("gpu.") for op in function.ops):
        return Outcome(function)  # what the backend made knows its registers
    limit = largest(32 * warps_of(function, warps)[0])
    if not any(is_large(op, limit) for op in function.ops):
        return Outcome(function)
    from tileir.backend.strip.mine import stripped

    return stripped(function, warps=warps, sliced=sliced(), functions=functions)


def strips(module: Module) -> Module:
    """`module` behind `strip-mine`: at the stage `strips` where ops of the backend keep tiles."""
    ops = (op for function in module.functions.values() for op in function.ops)
    if module.stage is not None or all(op.mnemonic != "gpu.private_alloc" for op in ops):
        return module
    return module.evolve(stage="strips")


def with_roles(module: Module, name: str, wanted: Wanted) -> Front:
    """Roles for the kernel's warps, where it multiplies."""
    if not any(op.mnemonic in _PRODUCTS for f in module.functions.values() for op in f.ops):
        return Front(module)
    from tileir.backend.roles.front import with_roles

    return with_roles(module, name, wanted)


def rotated(function: Function) -> Function:
    """`rotate`, where there are very many loops."""
    if len(function.blocks) < 2 * _LOOPS:
        return function
    from tileir.analysis.loops import loops
    from tileir.passes.rotate import rotate

    return rotate(function) if len(loops(function).by_header) >= _LOOPS else function


def own_rows(function: Function) -> Function:
    """`own-rows`, where results are copied by tensor maps."""
    if not any(op.mnemonic == "gpu.tma_store" for op in function.ops):
        return function
    from tileir.backend.roles.own_rows import own_rows

    return own_rows(function)


def met_once(function: Function) -> Function:
    """A role less the barriers that no access of its buffers needs, where it writes any."""
    if not any(op.mnemonic == "gpu.local_store" for op in function.ops):
        return function
    from tileir.backend.roles.meetings import met_once

    return met_once(function)


def planned(module: Module, kernel: str) -> Module:
    """`module` with the host plan of its kernel, if it has one, in its metadata."""
    kept = {k: v for k, v in module.metadata.items() if not k.startswith(RESERVED)}
    if len(kept) < len(module.metadata):  # of another compilation
        module = module.evolve(metadata=kept)
    if not any(op.mnemonic in _PLANNED for op in module.functions[kernel].ops):
        return module
    from tileir.backend.tma.plan import HostPlan

    found = HostPlan.of(module.functions[kernel])
    if found is None:
        return module
    return module.evolve(metadata={**kept, "host.plan0": found.to_text()})


def uniform_steps(function: Function) -> Outcome:
    """`uniform-steps`, where there may be a loop."""
    if not _jumps(function):
        return Outcome(function)
    from tileir.backend.pipeline.uniform_steps import uniform_steps

    return uniform_steps(function)


def pipelined(function: Function, stages: int, shared: int, prefetch: bool) -> Outcome:
    """`async-pipeline`, where there may be a loop with a dot."""
    if not _multiplies(function):
        return Outcome(function)
    from tileir.backend.pipeline.async_pipeline import pipelined

    return pipelined(function, stages, shared, prefetch)


def register_limit(function: Function, warps: int, machine: Target) -> int | None:
    """The limit of registers for pipelined products, where there may be one."""
    if not _multiplies(function):
        return None
    from tileir.backend.pipeline.occupancy import register_limit

    return register_limit(function, warps, machine)


def recompute(function: Function) -> Outcome:
    """`recompute`."""
    from tileir.backend.pipeline.recompute import recompute

    return recompute(function)


def staged_windows(function: Function) -> Outcome:
    """`stage-windows`, where a buffer may be read again: by a loop, several loads, or lanes of one
    whose positions are sums."""
    if not _reads_again(function):
        return Outcome(function)
    from tileir.backend.windows.stage_windows import staged_windows

    return staged_windows(function)


def _jumps(function: Function) -> bool:
    return len(function.blocks) > 1


def _multiplies(function: Function) -> bool:
    return _jumps(function) and any(op.mnemonic == "dot" for op in function.ops)


def _reads_again(function: Function) -> bool:
    loads = [op for op in function.ops if op.mnemonic == "load"]
    pointers = [p for op in loads for p in op.inputs[:1] if isinstance(p.type, Tile)]
    if _jumps(function) or any(len(shape_of(p.type)) > 1 for p in pointers):
        return bool(pointers)
    known = definitions(function)
    return len({_base(p, known) for p in pointers}) < len(pointers)


def _base(pointer: Operand, known: Mapping[Value, Op]) -> Operand:
    """Where a pointer comes from, by the first operand of what made it."""
    while type(pointer) is Value and pointer in known and known[pointer].inputs:
        pointer = known[pointer].inputs[0]
    return pointer
