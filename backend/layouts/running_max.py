"""Largest elements of rows that matter only where they pass a bound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from tileir.analysis.uses import uses
from tileir.backend.lower.reduction import warps_along
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.compare import FCmp, FloatPredicate, Select
from tileir.ops.floats import FMul
from tileir.ops.groups import RunningMax
from tileir.ops.reduce import Combiner, Reduce
from tileir.passes.dce import dce
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import F32, Tile
from tileir.values import Operand, Value, constant

Uses = Mapping[Value, tuple[Op, ...]]


@pass_("running-max")
def running_max(function: Function) -> Function:
    """Let a warp find the largest elements of rows only where one of its lanes holds one that
    counts (`gpu.running_max`).

    The largest element times a scale, chosen where that is more than a bound, is one of what lanes
    hold; where none of theirs is more, the row's is not. Rows lie within warps, over several lanes.

    before:
        stage "layouts"
        #r = layout(rank = 1, lane = [[0], [0], [1], [2], [4]])
        #t = layout(rank = 2, lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]])
        define void @f(f32<8, 4, #t> %x, f32<8, #r> %s, f32<8, #r> %b, f32<8, #r> %l, f32*<8, #r> %p) {
        entry:
          %h = reduce f32<8, #r> %x {axis = 1, combiner = fmaxnum}
          %n = fmul f32<8, #r> %h, %s
          %c, _ = fcmp (i1<8, #r>, i1<8, #r>) %n, %b {predicate = ogt}
          %m = select f32<8, #r> %c, %n, %l
          store %p, %m
          ret
        }
    after:
        stage "layouts"
        #r = layout(rank = 1, lane = [[0], [0], [1], [2], [4]])
        #t = layout(rank = 2, lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]])
        define void @f(f32<8, 4, #t> %x, f32<8, #r> %s, f32<8, #r> %b, f32<8, #r> %l, f32*<8, #r> %p) {
        entry:
          %m = gpu.running_max f32<8, #r> %x, %s, %b, %l {axis = 1}
          store %p, %m
          ret
        }
    """  # noqa: E501
    if not any(isinstance(op, Reduce) for op in function.ops):
        return function
    found = rewrite(function, {Select.mnemonic: partial(_chosen, read=uses(function))})
    return function if found is function else dce(found)


def _chosen(op: Op, walk: Walk, *, read: Uses) -> Answer:
    choice = cast(Select, op)
    test, most, found = walk.definition(choice.condition), choice.otherwise, choice.then
    if not (isinstance(test, FCmp) and test.predicate_ is FloatPredicate.OGT):
        return op
    if test.lhs is not found or choice.condition is not test.results[0]:
        return op
    if op.predicate is not None or test.predicate is not None:
        return op
    largest, scale = _largest(walk, found)
    if largest is None or not _alone(read, found, 2):
        return op
    if found is not largest.results[0] and not _alone(read, largest.results[0], 1):
        return op
    kinds = {x.type for x in (most, scale, test.rhs, largest.results[0])}
    if len(kinds) > 1 or not _by_lanes(largest):
        return op
    (value,) = largest.values
    return RunningMax(value, scale, test.rhs, most, axis=largest.axis, results=op.results)


def _largest(walk: Walk, found: Operand) -> tuple[Reduce | None, Operand]:
    """The reduction that `found` is, times what."""
    made = walk.definition(found)
    scale: Operand = constant(found.type, 1.0)
    if isinstance(made, FMul) and made.predicate is None:
        sides = made.lhs, made.rhs
        which = [x for x in sides if isinstance(walk.definition(x), Reduce)]
        if len(which) == 1:
            scale = sides[1] if which[0] is sides[0] else sides[0]
            made = walk.definition(which[0])
    if not isinstance(made, Reduce) or made.predicate is not None:
        return None, scale
    return (made if made.combiner is Combiner.FMAXNUM else None), scale


def _alone(read: Uses, value: Operand, times: int) -> bool:
    """Whether it is read `times` times and no more: by what is looked at."""
    return len(read.get(cast(Value, value), ())) <= times


def _by_lanes(op: Any) -> bool:
    """Whether rows of f32 lie over lanes of a warp, and results as rows do."""
    kind, result = op.values[0].type, op.results[0].type
    if kind.element is not F32 or not isinstance(result, Tile) or kind.layout is None:
        return False
    source = kind.layout
    if result.layout != source.slice(op.axis) or warps_along(source, op.axis) > 1:
        return False
    return any(vector[op.axis] for vector in source.lane)
