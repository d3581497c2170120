"""Largest elements of rows that matter only where they pass a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tileir import records
from tileir.analysis.uses import definitions, uses
from tileir.backend.lower.reduction import warps_along
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.compare import FCmp, FloatPredicate, Select
from tileir.ops.floats import FastMath, FMul, FSub, Rounding
from tileir.ops.groups import RunningMax
from tileir.ops.math import Exp2
from tileir.ops.reduce import Combiner, Reduce
from tileir.passes.dce import dce
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import F32, Tile
from tileir.values import Operand, Value, constant


@pass_("running-max")
def running_max(function: Function) -> Function:
    """Let a warp find the largest elements of rows only where one of its lanes holds one that
    counts (`gpu.running_max`).

    The largest element times a scale, chosen where that is more than a bound, is one of what lanes
    hold; where none of theirs is more, the row's is not. Rows lie within warps, over several lanes.
    Nor has what sums are multiplied by then, if it is chosen likewise, to be computed but there.

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
          %d = fsub f32<8, #r> %l, %m
          %e = exp2 f32<8, #r> %d {fast = approx}
          %g = select f32<8, #r> %c, %e, 1.0
          %r = fmul f32<8, #r> %m, %g
          store %p, %r
          ret
        }
    after:
        stage "layouts"
        #r = layout(rank = 1, lane = [[0], [0], [1], [2], [4]])
        #t = layout(rank = 2, lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]])
        define void @f(f32<8, 4, #t> %x, f32<8, #r> %s, f32<8, #r> %b, f32<8, #r> %l, f32*<8, #r> %p) {
        entry:
          %m, %g = gpu.running_max (f32<8, #r>, f32<8, #r>) %x, %s, %b, %l {axis = 1}
          %r = fmul f32<8, #r> %m, %g
          store %p, %r
          ret
        }
    """  # noqa: E501
    search = _Search(definitions(function), uses(function))
    found: dict[Value, Replace] = {}
    for op in function.ops:
        raised = search.raised(op) if isinstance(op, Select) else None
        if raised is not None:
            level, factor = raised.results
            found[level] = Replace((level,), (raised,))
            found[factor] = Replace((factor,))
    if not found:
        return function

    def chosen(op: Op, _: Walk) -> Answer:
        return found.get(op.results[0], op)

    return dce(rewrite(function, {Select.mnemonic: chosen}))


@records.frozen
class _Search:
    """Where rows' largest elements are chosen."""

    made: Mapping[Value, Op]
    read: Mapping[Value, tuple[Op, ...]]

    def raised(self, choice: Select) -> RunningMax | None:
        """What `choice` becomes, with what depends on its condition."""
        test, most, found = self._op(choice.condition), choice.otherwise, choice.then
        if not (isinstance(test, FCmp) and test.predicate_ is FloatPredicate.OGT):
            return None
        if test.lhs is not found or choice.condition is not test.results[0]:
            return None
        if choice.predicate is not None or test.predicate is not None:
            return None
        largest, scale = self._largest(found)
        if largest is None or not self._only(found, (test, choice)):
            return None
        others = [op for op in self.read[test.results[0]] if op is not choice]
        if len(others) > 1 or not all(self._is_factor(op, choice) for op in others):
            return None
        kinds = {x.type for x in (most, scale, test.rhs, largest.results[0])}
        if len(kinds) > 1 or not _by_lanes(largest):
            return None
        factor = others[0].results[0] if others else Value(most.type, "factor")
        results = (choice.results[0], factor)
        (value,) = largest.values
        return RunningMax(value, scale, test.rhs, most, axis=largest.axis, results=results)

    def _largest(self, found: Operand) -> tuple[Reduce | None, Operand]:
        """The reduction that `found` is, times what."""
        made, scale = self._op(found), cast(Operand, constant(found.type, 1.0))
        if isinstance(made, FMul) and made.predicate is None:
            for side, other in ((made.lhs, made.rhs), (made.rhs, made.lhs)):
                reduced = self._op(side)
                if isinstance(reduced, Reduce) and self._only(side, (made,)):
                    made, scale = reduced, other
                    break
        if not isinstance(made, Reduce) or made.predicate is not None:
            return None, scale
        return (made if made.combiner is Combiner.FMAXNUM else None), scale

    def _is_factor(self, op: Op, choice: Select) -> bool:
        """Whether `op` is 2 to the power of how much less a row's bound was, where it is raised,
        and 1 elsewhere."""
        if not isinstance(op, Select) or op.predicate is not None:
            return False
        power = self._op(op.then)
        if not isinstance(power, Exp2) or power.fast is not FastMath.APPROX:
            return False
        less = self._op(power.value)
        if not isinstance(less, FSub) or less.rounding is not Rounding.NEAREST or less.ftz:
            return False
        if power.predicate is not None or less.predicate is not None:
            return False
        relative = less.lhs == choice.otherwise and less.rhs is choice.results[0]
        return relative and op.otherwise == constant(choice.otherwise.type, 1.0)

    def _op(self, operand: Operand) -> Op | None:
        return self.made.get(operand) if isinstance(operand, Value) else None

    def _only(self, value: Operand, readers: Sequence[Op]) -> bool:
        """Whether nothing but `readers` reads a value."""
        return all(op in readers for op in self.read.get(cast(Value, value), ()))


def _by_lanes(op: Any) -> bool:
    """Whether rows of f32 lie over lanes of a warp, and results as rows do."""
    kind, result = op.values[0].type, op.results[0].type
    if kind.element is not F32 or not isinstance(result, Tile) or kind.layout is None:
        return False
    source = kind.layout
    if result.layout != source.slice(op.axis) or warps_along(source, op.axis) > 1:
        return False
    return any(vector[op.axis] for vector in source.lane)
