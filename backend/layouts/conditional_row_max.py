"""Row maxima that matter only if they exceed a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.backend.layouts.reduction_plan import warps_along
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import FCmp, FloatPredicate, Select
from tileir.ops.floats import FastMath, FMul, FSub, Rounding
from tileir.ops.math import Exp2
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.warpgroup import ConditionalRowMax
from tileir.passes.dce import dce
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import F32, Tile
from tileir.values import Operand, Value, constant


@pass_("conditional-row-max")
def conditional_row_max(function: Function) -> Function:
    """Reduce row maxima only if a lane of the warp exceeds the current bound.

    In online softmax, the running row maximum rarely changes. If the scaled maximum of a row
    exceeds its bound, so does the value of one of its lanes. If no lane exceeds the bound, the
    reduction is skipped (`gpu.conditional_row_max`). Each row must be owned by several lanes of one
    warp. The scale of the accumulator, which the same condition selects, is computed under the
    condition as well.

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
          %m, %g = gpu.conditional_row_max (f32<8, #r>, f32<8, #r>) %x, %s, %b, %l, 1.0 {axis = 1}
          %r = fmul f32<8, #r> %m, %g
          store %p, %r
          ret
        }
    """  # noqa: E501
    search = _RowMaxSearch(function, definitions(function), uses(function))
    replacements: dict[Value, Replace] = {}
    for op in function.ops:
        conditional_max = search.conditional_max(op) if isinstance(op, Select) else None
        if conditional_max is not None:
            level, scale = conditional_max.results
            replacements[level] = Replace((level,), (conditional_max,))
            replacements[scale] = Replace((scale,))
    if not replacements:
        return function

    def replace(op: Op, _: Walk) -> Answer:
        return replacements.get(op.results[0], op)

    return dce(rewrite(function, {Select.mnemonic: replace}))


@attrs.frozen
class _RowMaxSearch:
    """The search for row maxima that are selected by a comparison with a bound."""

    function: Function
    defining_ops: Mapping[Value, Op]
    read: Mapping[Value, tuple[Op, ...]]

    def conditional_max(self, choice: Select) -> ConditionalRowMax | None:
        """The conditional row maximum that replaces `choice` and the other selects on its
        condition; None where it has another form."""
        test, most, then_value = self._op(choice.condition), choice.otherwise, choice.then
        if not (isinstance(test, FCmp) and test.predicate_ is FloatPredicate.OGT):
            return None
        if test.lhs is not then_value or choice.condition is not test.results[0]:
            return None
        if choice.predicate is not None or test.predicate is not None:
            return None
        largest, scale = self._largest(then_value)
        if largest is None or not self._only(then_value, (test, choice)):
            return None
        readers = [op for op in self.read[test.results[0]] if op is not choice]
        exponents = [self._exponent(op, choice) for op in readers]
        if len(readers) > 1 or None in exponents:
            return None
        exponent = exponents[0] if exponents else None
        exponent = constant(most.type, 1.0) if exponent is None else exponent
        kinds = {x.type for x in (most, scale, test.rhs, exponent, largest.results[0])}
        if len(kinds) > 1 or not _by_lanes(largest):
            return None
        multiplier = readers[0].results[0] if readers else Value(most.type, "rescale")
        results = (choice.results[0], multiplier)
        (value,) = largest.values
        operands = (value, scale, test.rhs, most, exponent)
        return ConditionalRowMax(*operands, axis=largest.axis, results=results)

    def _largest(self, operand: Operand) -> tuple[Reduce | None, Operand]:
        """The reduction that computes `operand`, and the value that it is multiplied by."""
        op, scale = self._op(operand), cast(Operand, constant(operand.type, 1.0))
        if isinstance(op, FMul) and _plain(op):
            for side, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                reduced = self._op(side)
                if isinstance(reduced, Reduce) and self._only(side, (op,)):
                    op, scale = reduced, other
                    break
        if not isinstance(op, Reduce) or op.predicate is not None:
            return None, scale
        return (op if op.combiner is Combiner.FMAXNUM else None), scale

    def _exponent(self, op: Op, choice: Select) -> Operand | None:
        """The multiplier m if `op` is 2 to the power of m times the difference of the old and the
        new bound where a row's bound increases, and 1 elsewhere."""
        if not isinstance(op, Select) or op.predicate is not None:
            return None
        if op.otherwise != constant(choice.otherwise.type, 1.0):
            return None
        power = self._op(op.then)
        if not isinstance(power, Exp2) or power.fast is not FastMath.APPROX or power.predicate:
            return None
        less = self._op(power.value)
        if self._is_less(less, choice):
            return constant(choice.otherwise.type, 1.0)
        if not isinstance(less, FMul) or not _plain(less):
            return None
        for side, other in ((less.lhs, less.rhs), (less.rhs, less.lhs)):
            if self._is_less(self._op(side), choice) and self._is_there(other, choice):
                return other
        return None

    def _is_there(self, operand: Operand, choice: Select) -> bool:
        """Whether a value that is used after `choice` is defined before it."""
        if not isinstance(operand, Value):
            return True
        owner = defining_blocks(self.function)
        defining_block, place = owner[operand], owner[choice.results[0]]
        if defining_block != place:
            return dominance(self.function).dominates(defining_block, place)
        op = self._op(operand)
        ops = self.function.blocks[place].ops
        return op is None or ops.index(op) < ops.index(choice)

    def _is_less(self, op: Op | None, choice: Select) -> bool:
        """Whether `op` is the old bound minus the new one."""
        if not isinstance(op, FSub) or not _plain(op):
            return False
        return op.lhs == choice.otherwise and op.rhs is choice.results[0]

    def _op(self, operand: Operand) -> Op | None:
        return self.defining_ops.get(operand) if isinstance(operand, Value) else None

    def _only(self, value: Operand, readers: Sequence[Op]) -> bool:
        """Whether `readers` are the only readers of a value."""
        return all(op in readers for op in self.read.get(cast(Value, value), ()))


def _plain(op: FMul | FSub) -> bool:
    """Whether an op has no predicate and the default rounding."""
    return op.rounding is Rounding.NEAREST and not op.ftz and op.predicate is None


def _by_lanes(op: Any) -> bool:
    """Whether rows of f32 are distributed over the lanes of a warp, and results in the same way."""
    kind, result = op.values[0].type, op.results[0].type
    if kind.element is not F32 or not isinstance(result, Tile) or kind.layout is None:
        return False
    source = kind.layout
    if result.layout != source.slice(op.axis) or warps_along(source, op.axis) > 1:
        return False
    return any(vector[op.axis] for vector in source.lane)
