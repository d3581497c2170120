"""Which kernels need the stages about dots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.stage import has_op
from tileir.ir import Function
from tileir.types import shape_of

if TYPE_CHECKING:
    from tileir.backend.pipeline import Context


def nests_dots(function: Function, context: Context) -> bool:
    """Whether a kernel that the backend has not changed yet may have a loop of dots in a loop."""
    if not has_op(function, "dot") or any(op.mnemonic.startswith("gpu.") for op in function.ops):
        return False
    return any(loop.inner for loop in loops(function).by_header.values())


def multiplies_by_threads(function: Function, context: Context) -> bool:
    """Whether a kernel without roles has dots left with enough rows for warpgroups."""
    return (
        context.target.wgmma
        and context.num_warps % 4 == 0
        and any(
            op.mnemonic == "dot" and shape_of(op.results[0].type)[-2] >= 64 for op in function.ops
        )
        and not has_op(function, "gpu.role", "gpu.tma_load")
    )


def multiplies_by_mma(function: Function, context: Context) -> bool:
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
