"""Prefetching of the loads of loops after barriers are inserted."""

from __future__ import annotations

from typing import cast

from tileir.analysis.aliases import aliases
from tileir.analysis.cfg import cfg, reachable
from tileir.analysis.loops import loops
from tileir.effects import Effects
from tileir.ir import Function
from tileir.ops.memory import Load
from tileir.passes.prefetch_loads import prefetch_loads


def prefetch_between_barriers(function: Function) -> Function:
    """`function` with the loads of loops one iteration ahead (`prefetch-loads`).

    Unchanged where an op that runs before an iteration of a loop may change what the loop loads: a
    barrier may order both, and the load would pass it.
    """
    writers = [
        (label, op)
        for label, block in function.blocks.items()
        for op in block.ops
        if op.effects.value & (Effects.WRITE | Effects.SYNC).value
    ]
    inside = loops(function).innermost
    loads = [
        (label, op) for label in inside for op in function.blocks[label].ops if isinstance(op, Load)
    ]
    for source, writer in writers:
        following = {source, *reachable(source, cfg(function).successors)}
        if any(x in following and aliases(function).may_change(writer, op) for x, op in loads):
            return function
    return cast(Function, prefetch_loads(function).ir)
