"""Ops of warpgroups."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tileir.backend.layouts.warpgroups import WARPS
from tileir.backend.lower.lowering import Fragment, Lowering, Rule
from tileir.types import F32, I1

_ONE = 0x3F800000


def _scale(lowering: Lowering, op: Any) -> list[Fragment]:
    thread = lowering.thread
    values, factors = lowering.fragment(op.value), lowering.fragment(op.factor)
    one = thread.constant(F32, _ONE)
    tests = [thread.compare("une", F32, x, one) for x in dict.fromkeys(factors)]
    changed = reduce(lambda a, b: thread.binary("or", I1, a, b), tests)

    def scaled() -> list[Any]:
        return [thread.binary("fmul", F32, v, f) for v, f in zip(values, factors, strict=True)]

    return [thread.where_any(changed, F32, values, scaled)]


def _take_turn(lowering: Lowering, op: Any) -> list[Fragment]:
    if lowering.num_warps > WARPS:
        lowering.thread.take_turn()
    return []


def _pass_turn(lowering: Lowering, op: Any) -> list[Fragment]:
    if lowering.num_warps > WARPS:
        lowering.thread.pass_turn(begin=op.begin)
    return []


RULES: dict[str, Rule] = {
    "gpu.scale": _scale,
    "gpu.take_turn": _take_turn,
    "gpu.pass_turn": _pass_turn,
}
