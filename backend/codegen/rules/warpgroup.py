"""Ops on the registers of a warpgroup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tileir.backend.codegen.emit.reduction import reduce_across_threads, reduce_within_thread
from tileir.backend.codegen.libm.expression import Term
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.backend.codegen.rules.math import function
from tileir.backend.layouts.wgmma import WARPS
from tileir.ops.reduce import Combiner, Reduce
from tileir.types import F32, I1

_ONE = 0x3F800000


def _scale(lowering: Lowering, op: Any) -> list[Fragment]:
    thread = lowering.thread
    values, scales = lowering.fragment(op.value), lowering.fragment(op.factor)
    one = thread.constant(F32, _ONE)
    tests = [thread.compare("une", F32, x, one) for x in dict.fromkeys(scales)]

    def multiply() -> list[Any]:
        return [thread.binary("fmul", F32, v, f) for v, f in zip(values, scales, strict=True)]

    return [thread.where_any(_any(thread, tests), F32, values, multiply)]


def _running_max(lowering: Lowering, op: Any) -> list[Fragment]:
    """The new running maximum of each row. The lanes that share a row skip the reduction if no lane
    exceeds the bound, because the maximum of the row then does not exceed it."""
    thread = lowering.thread
    largest = Reduce((op.value,), axis=op.axis, combiner=Combiner.FMAXNUM)
    own = reduce_within_thread(lowering, largest)
    scales, bounds, most, exponents = (
        lowering.fragment(x) for x in (op.scale, op.bound, op.most, op.exponent)
    )

    def more(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Elements times the scale, and whether they exceed the bound."""
        results = [thread.binary("fmul", F32, x, s) for x, s in zip(items, scales, strict=True)]
        tests = [thread.compare("ogt", F32, x, b) for x, b in zip(results, bounds, strict=True)]
        return results, tests

    def raise_maximum() -> list[Any]:
        (row_max,) = reduce_across_threads(lowering, largest, own)
        scaled, tests = more(row_max)
        levels = [thread.select(F32, *each) for each in zip(tests, scaled, most, strict=True)]
        results = zip(tests, most, levels, exponents, strict=True)
        return levels + [rescale(*each) for each in results]

    def rescale(test: Any, before: Any, now: Any, exponent: Any) -> Any:
        less = thread.binary("fsub", F32, before, now)
        less = thread.binary("fmul", F32, less, exponent)
        return thread.select(F32, test, power(Term(thread, F32, less)).handle, one)

    power, one = function("exp2", F32, fast="approx"), thread.constant(F32, _ONE)
    _, tests = more([item for (item,) in own])
    results = thread.where_any(_any(thread, tests), F32, [*most, *[one] * len(most)], raise_maximum)
    return [results[: len(most)], results[len(most) :]]


def _any(thread: Any, tests: Sequence[Any]) -> Any:
    """Whether any of `tests` is true."""
    return reduce(lambda a, b: thread.binary("or", I1, a, b), tests)


def _wait_warpgroup_order(lowering: Lowering, op: Any) -> list[Fragment]:
    if lowering.num_warps > WARPS:
        lowering.thread.named_barrier_sync()
    return []


def _pass_warpgroup_order(lowering: Lowering, op: Any) -> list[Fragment]:
    if lowering.num_warps > WARPS:
        lowering.thread.named_barrier_arrive(begin=op.begin)
    return []


RULES: dict[str, Rule] = {
    "gpu.conditional_scale": _scale,
    "gpu.conditional_row_max": _running_max,
    "gpu.named_barrier_sync": _wait_warpgroup_order,
    "gpu.named_barrier_arrive": _pass_warpgroup_order,
}
