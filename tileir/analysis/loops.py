"""Natural loops: nesting, entries and exits, induction variables, trip counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tileir.analysis.cache import memoize
from tileir.analysis.cfg import Cfg, cfg
from tileir.analysis.uses import defining_blocks, definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Scalar, element_of
from tileir.values import Constant, Operand, Value

_ITERATIONS = 100
"""Of a loop, in estimates."""
_DEEPEST = 4
"""Loops that an estimate counts."""


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Loop:
    """A natural loop: `header` dominates `blocks`, and `latches` branch back to it.

    `parent` is the header of the loop around it, `depth` 1 for an outermost one. `preheader`
    is the only block outside that leads in, if it leads nowhere else. `exits` are the edges
    that leave. `order` lists the blocks in reverse post-order.
    """

    header: str
    latches: tuple[str, ...]
    blocks: frozenset[str]
    parent: str | None
    depth: int
    preheader: str | None
    exits: tuple[tuple[str, str], ...]
    order: tuple[str, ...] = attrs.field(eq=False)

    @property
    def latch(self) -> str | None:
        """The only latch, if there is only one."""
        return self.latches[0] if len(self.latches) == 1 else None


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
    """How often the latch of a loop runs: as long as `relation` (`slt`, `ne`, ...) holds between
    the induction variable `of` and `bound`, which the loop does not change.

    `ahead`: the value after the step is compared. `tested_first`: the test is in the header, so
    the loop may run no times; otherwise it is in the latch. `count` is the number, where start,
    step and bound are literals.
    """

    of: InductionVariable
    bound: Operand
    relation: str
    ahead: bool
    tested_first: bool
    count: int | None


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Loops:
    """The loops of a function by header, outer ones before inner ones; `innermost` gives the
    header of the innermost loop around each block that is in one."""

    by_header: Mapping[str, Loop]
    innermost: Mapping[str, str]
    irreducible: bool

    def around(self, label: str) -> Loop | None:
        """The innermost loop that holds block `label`."""
        header = self.innermost.get(label)
        return None if header is None else self.by_header[header]

    def depth(self, label: str) -> int:
        """Number of loops around block `label`."""
        result = self.around(label)
        return 0 if result is None else result.depth

    def frequency(self, label: str) -> int:
        """An estimate of how often block `label` runs: a hundred times per surrounding loop."""
        return _ITERATIONS ** min(self.depth(label), _DEEPEST)


@memoize
def loops(function: Function) -> Loops:
    """The natural loops of `function`. `irreducible` tells of cycles that are none."""
    if function.is_declaration:
        return Loops({}, {}, False)
    graph = cfg(function)
    if not graph.has_cycles:
        return Loops({}, {}, False)
    from tileir.analysis.dominance import dominance

    tree = dominance(function)
    latches: dict[str, list[str]] = {}
    irreducible = False
    for label in graph.order:
        for target in graph.successors[label]:
            if tree.dominates(target, label):
                latches.setdefault(target, []).append(label)
            elif graph.number[target] <= graph.number[label]:
                irreducible = True
    headers = sorted(latches, key=lambda header: graph.number[header])
    bodies = {header: _body(graph, header, latches[header]) for header in headers}
    innermost: dict[str, str] = {}
    result: dict[str, Loop] = {}
    for header in headers:
        parent = innermost.get(header)
        depth = 1 if parent is None else result[parent].depth + 1
        result[header] = _loop(graph, header, latches[header], bodies[header], parent, depth)
        innermost.update(dict.fromkeys(bodies[header], header))
    return Loops(result, innermost, irreducible)


def _body(graph: Cfg, header: str, latches: list[str]) -> frozenset[str]:
    """Blocks that reach a latch without passing the header, and the header."""
    result, stack = {header}, list(latches)
    while stack:
        label = stack.pop()
        if label not in result:
            result.add(label)
            stack.extend(graph.predecessors[label])
    return frozenset(result)


def _loop(
    graph: Cfg, header: str, latches: list[str], body: frozenset[str], parent: str | None,
    depth: int,
) -> Loop:  # fmt: skip
    outside = [p for p in graph.predecessors[header] if p not in body]
    alone = len(outside) == 1 and graph.successors[outside[0]] == (header,)
    order = tuple(sorted(body, key=graph.number.__getitem__))
    exits = tuple(
        (label, target)
        for label in order for target in graph.successors[label] if target not in body
    )  # fmt: skip
    entry = outside[0] if alone else None
    return Loop(header, tuple(latches), body, parent, depth, entry, exits, order)


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
    """By what `op` moves `parameter`."""
    if op.mnemonic not in ("add", "sub", "getelementptr"):
        return None
    first, second = op.inputs
    if first is parameter:
        return second
    return first if second is parameter and op.mnemonic == "add" else None


def is_invariant(function: Function, loop: Loop, operand: Operand) -> bool:
    """Whether `operand` is a literal or defined outside `loop`."""
    return (
        not isinstance(operand, Value) or defining_blocks(function).get(operand) not in loop.blocks
    )


def trip_count(function: Function, loop: Loop) -> TripCount | None:
    """The trip count of a loop with one latch and one exit, in its header or its latch, whose
    condition compares an induction variable with something the loop does not change."""
    counts = _trip_counts(function)
    if loop.header not in counts or counts[loop.header][0] is not loop:
        counts[loop.header] = loop, _count(function, loop)
    return counts[loop.header][1]


@memoize
def _trip_counts(function: Function) -> dict[str, tuple[Loop, TripCount | None]]:
    """The trip counts that were asked for, with their loops, by header."""
    return {}


def _count(function: Function, loop: Loop) -> TripCount | None:
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
            count = _count(function, variable, bound, relation, ahead, first)
            return TripCount(variable, bound, relation, ahead, first, count)
    return None


def _count(
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
    """For how many steps in a row `value`, `value + step`, ... is in `relation` to `end`."""
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
