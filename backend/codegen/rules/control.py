"""Branches and return."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.loop_unrolling import unroll_count
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule


def _branch(lowering: Lowering, op: Any) -> list[Fragment]:
    count = unroll_count(lowering.function, op, lowering.target.lanes * lowering.num_warps)
    lowering.thread.branch(lowering.edge(op.target), count)
    return []


def _cond_branch(lowering: Lowering, op: Any) -> list[Fragment]:
    condition = lowering.scalar(op.condition)
    then, otherwise = lowering.edge(op.then), lowering.edge(op.otherwise)
    lowering.thread.branch_if(condition, then, otherwise)
    return []


def _return(lowering: Lowering, op: Any) -> list[Fragment]:
    handles = [lowering.scalar(v) for v in op.values]
    if lowering.leaving is not None:
        lowering.thread.branch(lowering.leaving)
    else:
        lowering.thread.return_values([v.type for v in op.values], handles)
    return []


def _unreachable(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.unreachable()
    return []


RULES: dict[str, Rule] = {
    "br": _branch,
    "cond_br": _cond_branch,
    "ret": _return,
    "unreachable": _unreachable,
}
