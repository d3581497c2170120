"""Induction variables and trip counts of loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.analysis.loops import Loop, is_invariant
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Scalar, element_of
from tileir.values import Constant, Operand, Value


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class InductionVariable:
    """A parameter of a loop's header that starts at `start` and moves by `step` per iteration
    (backwards if `falling`); `update` is the op that moves it, an addition, subtraction or
    pointer step. `step` is a literal or defined outside the loop."""

    value: Value
    start: Operand
    step: Operand
    update: Op
    falling: bool = False

    @property
    def stride(self) -> int | None:
        """The step as a signed number, if it is a literal."""
        if not isinstance(self.step, Constant):
            return None
        number = int(self.step.value)
        return -number if self.falling else number


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class TripCount:
    """The number of times that the latch of a loop runs.

    The loop runs while `relation` (`slt`, `ne`, ...) is true for the induction variable `of` and
    `bound`, which is loop-invariant. `ahead`: the value after the step is compared. `tested_first`:
    the test is in the header, so the loop may run zero times; otherwise it is in the latch. `count`
    is the number if start, step and bound are literals.
    """

    of: InductionVariable
    bound: Operand
    relation: str
    ahead: bool
    tested_first: bool
    count: int | None


def induction_variables(function: Function, loop: Loop) -> tuple[InductionVariable, ...]:
    """The induction variables of `loop`, in the order of the header's parameters."""
    header = function.blocks[loop.header]
    result: list[InductionVariable] = []
    for index, parameter in enumerate(header.parameters):
        variable = _induction(function, loop, index, parameter)
        if variable is not None:
            result.append(variable)
    return tuple(result)


def _arguments(function: Function, header: str, index: int, sources: Iterator[str]) -> set[Operand]:
    return {
        edge.arguments[index]
        for source in sources
        for edge in function.blocks[source].successors
        if edge.label == header
    }


def _induction(
    function: Function, loop: Loop, index: int, parameter: Value
) -> InductionVariable | None:
    sources = cfg(function).predecessors[loop.header]
    entering = (p for p in sources if p not in loop.blocks)
    starts = _arguments(function, loop.header, index, entering)
    nexts = _arguments(function, loop.header, index, iter(loop.latches))
    if len(starts) != 1 or len(nexts) != 1:
        return None
    (start,), (following,) = starts, nexts
    op: Any = definitions(function).get(following) if isinstance(following, Value) else None
    step = _step(op, parameter) if op is not None and op.predicate is None else None
    if step is None or not is_invariant(function, loop, step):
        return None
    update: Any = op
    return InductionVariable(parameter, start, step, update, update.mnemonic == "sub")


def _step(op: Any, parameter: Value) -> Operand | None:
    """The number by which `op` advances `parameter`."""
    if op.mnemonic not in ("add", "sub", "getelementptr"):
        return None
    first, second = op.inputs
    if first is parameter:
        return second
    return first if second is parameter and op.mnemonic == "add" else None


def trip_count(function: Function, loop: Loop) -> TripCount | None:
    """The trip count of a loop with one latch and one exit, in its header or its latch, whose
    condition compares an induction variable with something the loop does not change."""
    counts = _trip_counts(function)
    if loop.header not in counts or counts[loop.header][0] is not loop:
        counts[loop.header] = loop, _trip_count_of(function, loop)
    return counts[loop.header][1]


@memoize
def _trip_counts(function: Function) -> dict[str, tuple[Loop, TripCount | None]]:
    """The trip counts that were asked for, with their loops, by header."""
    return {}


def _trip_count_of(function: Function, loop: Loop) -> TripCount | None:
    if loop.latch is None or len(loop.exits) != 1:
        return None
    ((exiting, _),) = loop.exits
    if exiting not in (loop.header, loop.latch):
        return None
    terminator = function.blocks[exiting].terminator
    stays = terminator.successors[0].label in loop.blocks
    from tileir.analysis.predicates import predicates  # iterations are counted in few passes

    facts = predicates(function).comparisons(terminator.inputs[0], stays)
    for comparison, holds in facts:
        for variable in induction_variables(function, loop):
            result = _trip_count(function, loop, variable, comparison, holds, exiting)
            if result is not None and len(facts) == 1:
                return result
    return None


_NEGATED = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
    "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt",
}  # fmt: skip


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _trip_count(
    function: Function, loop: Loop, variable: InductionVariable, comparison: Any, holds: bool,
    exiting: str,
) -> TripCount | None:  # fmt: skip
    if comparison.mnemonic != "icmp":
        return None
    word = comparison.predicate_.value if holds else _NEGATED[comparison.predicate_.value]
    moved = variable.update.results[0]
    for value, bound, relation in (
        (comparison.lhs, comparison.rhs, word),
        (comparison.rhs, comparison.lhs, word[0] + _SWAPPED.get(word[1:], word[1:])),
    ):
        if value in (variable.value, moved) and is_invariant(function, loop, bound):
            ahead, first = value is moved, exiting == loop.header and exiting != loop.latch
            count = _literal_count(function, variable, bound, relation, ahead, first)
            return TripCount(variable, bound, relation, ahead, first, count)
    return None


def _literal_count(
    function: Function, variable: InductionVariable, bound: Operand, relation: str, ahead: bool,
    tested_first: bool,
) -> int | None:  # fmt: skip
    """The number of iterations for literal start, step and bound; None where the variable
    would wrap before the loop ends."""
    element = element_of(variable.value.type)
    if not isinstance(element, Scalar) or not element.is_integer or variable.stride is None:
        return None
    from tileir.analysis.ranges import ranges

    bounds = ranges(function)
    (start, most), (end, greatest) = bounds.of(variable.start), bounds.of(bound)
    if start != most or end != greatest:
        return None
    step = variable.stride
    tested = start + step if ahead else start
    steps = _holding(tested, step, end, relation, element.bits)
    return None if steps is None else steps + (not tested_first)


def _holding(value: int, step: int, end: int, relation: str, bits: int) -> int | None:
    """The number of consecutive terms of `value`, `value + step`, ... that are in `relation` to
    `end`."""
    if relation[0] == "u":
        if min(value, end) < 0 or step < 0:
            return None
        relation = "s" + relation[1:]
    if relation in ("slt", "sle", "sgt", "sge"):
        count = _steps_until(value, step, end, relation)
    elif relation == "ne" and step and (end - value) % step == 0:
        count = (end - value) // step
    else:
        count = None
    if count is None or count < 0:
        return None
    half = 1 << (bits - 1)
    return count if -half <= value + count * step < half and -half <= value < half else None


def _steps_until(value: int, step: int, end: int, relation: str) -> int | None:
    if relation in ("sgt", "sge"):
        value, step, end = -value, -step, -end
    headroom = end - value + (relation[2] == "e")
    if headroom <= 0:
        return 0
    return -(-headroom // step) if step > 0 else None
