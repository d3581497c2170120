"""Inference of `nsw` for integer additions and multiplications that never wrap. Accesses of lanes
are then provably contiguous, and need no fallback code."""

from __future__ import annotations

from typing import Any

from tileir.analysis.ranges import ranges
from tileir.ir import Function
from tileir.ops.arith import Overflow
from tileir.rewrite import Walk, rewrite

_WITH_NSW = {Overflow.NONE: Overflow.NSW, Overflow.NUW: Overflow.BOTH}


def infer_nsw(function: Function) -> Function:
    """`function` with `nsw` on the ops whose signed result never wraps."""
    exact = ranges(function).exact

    def mark_nsw(op: Any, walk: Walk) -> Any:
        return op.evolve(overflow=_WITH_NSW[op.overflow]) if op in promising else op

    promising = {op for op in exact if getattr(op, "overflow", None) in _WITH_NSW}
    kinds = {op.mnemonic for op in promising}
    return rewrite(function, dict.fromkeys(kinds, mark_nsw)) if promising else function
