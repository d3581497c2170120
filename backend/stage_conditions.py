"""Conditions of stages that need nothing of the pipeline: what ops a kernel has."""

from __future__ import annotations

from typing import Any, cast

from tileir.analysis.uses import definitions
from tileir.backend.stage import has_op
from tileir.effects import EXACT, ROUNDED
from tileir.ir import Function
from tileir.op import Op
from tileir.types import I64, Tile, shape_of


def carries_integers(function: Function, context: Any) -> bool:
    """Whether a loop may carry integer tiles that are reduced after it."""
    return has_op(function, "reduce") and any(
        isinstance(p.type, Tile) and getattr(p.type.element, "is_integer", False)
        for block in function.blocks.values()
        for p in block.parameters
    )


def divides(function: Function, context: Any) -> bool:
    """Whether the function divides."""
    return any(op.divides for op in function.ops)


def is_function(op: Op) -> bool:
    """Whether an op computes a quotient of floats, or a function that is not rounded once."""
    return op.mnemonic == "fdiv" or (op.elementwise and op.numerics not in (EXACT, ROUNDED))


def computes_functions(function: Function, context: Any) -> bool:
    """Whether a function with branches computes such functions."""
    return len(function.blocks) > 1 and any(map(is_function, function.ops))


def divides_ahead(function: Function, context: Any) -> bool:
    """Whether loads of a loop may be issued ahead of what divides."""
    return divides(function, context) and loads_ahead(function, context)


def divides_without_dots(function: Function, context: Any) -> bool:
    """Whether a division may limit the width of an access, and no dot needs the registers that a
    second version of the access takes."""
    return divides(function, context) and not has_op(function, "dot", "gpu.wgmma")


def divides_wide(function: Function, context: Any) -> bool:
    """Whether the function divides a scalar of 64 bits."""
    return any(op.divides and op.results[0].type is I64 for op in function.ops)


def combines_wide(function: Function, context: Any) -> bool:
    """Whether the function reduces or scans 64-bit integers."""
    combined = [op.inputs[0].type for op in function.ops if hasattr(op, "combiner")]
    return any(isinstance(kind, Tile) and kind.element is I64 for kind in combined)


def compares_wide(function: Function, context: Any) -> bool:
    """Whether the function compares tiles of 64-bit integers."""
    compared = [op.inputs[0].type for op in function.ops if op.mnemonic == "icmp"]
    return any(isinstance(kind, Tile) and kind.element is I64 for kind in compared)


def loads_ahead(function: Function, context: Any) -> bool:
    """Whether a loop of the function has a dot or independent iterations."""
    blocks = function.blocks.values()
    return len(function.blocks) > 1 and (
        has_op(function, "dot")
        or any(getattr(block.ops[-1], "independent_iterations", False) for block in blocks)
    )


def wraps_indices(function: Function, context: Any) -> bool:
    """Whether operands of dots may be loaded at indices modulo an extent."""
    return has_op(function, "dot") and has_op(function, "srem")


def nests_dots(function: Function, context: Any) -> bool:
    """Whether a kernel that the backend has not changed yet may have a loop of dots in a loop."""
    from tileir.analysis.loops import loops  # few need it

    if not has_op(function, "dot") or any(op.mnemonic.startswith("gpu.") for op in function.ops):
        return False
    return any(loop.inner for loop in loops(function).by_header.values())


def multiplies_by_threads(function: Function, context: Any) -> bool:
    """Whether a kernel without roles has dots left with enough rows for warpgroups."""
    return (
        context.target.wgmma
        and context.num_warps % 4 == 0
        and any(
            op.mnemonic == "dot" and shape_of(op.results[0].type)[-2] >= 64 for op in function.ops
        )
        and not has_op(function, "gpu.role", "gpu.tma_load")
    )


def has_wgmma_alone(function: Function, context: Any) -> bool:
    """Whether a kernel without roles has dots of warpgroups."""
    return has_op(function, "gpu.wgmma") and not has_op(function, "gpu.role", "gpu.tma_load")


def multiplies_by_mma(function: Function, context: Any) -> bool:
    """Whether a kernel without roles has dots left for threads whose operands are not in shared
    memory."""
    if not context.target.mma or has_op(function, "gpu.role"):
        return False
    dots = [op for op in function.ops if op.mnemonic == "dot"]
    if not dots:
        return False
    defined = definitions(function)
    origins = [defined.get(cast(Any, x)) for op in dots for x in op.inputs[:2]]
    origins = [
        defined.get(cast(Any, op.inputs[0])) if op is not None and op.mnemonic == "trans" else op
        for op in origins
    ]
    return any(op is None or op.mnemonic != "gpu.local_load" for op in origins)


def has_branches_alike(function: Function, context: Any) -> bool:
    """Whether a block branches to two blocks that have equally many ops and the same successor."""
    for block in function.blocks.values():
        sides = [function.blocks[edge.label] for edge in block.successors]
        if len(sides) == 2 and len(sides[0].ops) == len(sides[1].ops) > 1:
            targets = {edge.label for side in sides for edge in side.successors}
            if len(targets) == 1 and sides[0] is not sides[1]:
                return True
    return False
