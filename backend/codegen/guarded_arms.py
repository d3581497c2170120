"""Arms of selections that a thread computes only if one of its elements needs them.

Special functions select between formulas for ranges of their argument, and the arguments of a warp
are often in one range. If both arms of a selection are long formulas, the ops on which one arm
alone depends are lowered inside a branch, which a warp skips if no element needs that arm. The
elements of a thread are computed few at a time, for the sake of registers, and because few elements
are more often in one range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.uses import definitions, uses
from tileir.effects import EXACT, ROUNDED, Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.floats import FastMath
from tileir.types import F32, F64, I1, I32, I64, Tile, element_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.codegen.lowering import Fragment, Lowering
    from tileir.backend.codegen.thread_interface import Handle
    from tileir.types import Element

_LONG = 8
"""The instructions of an arm, per element, that outweigh a branch."""
_PER_APPROXIMATION, _PER_FUNCTION = 3, 10
"""The instructions of an op whose result is not exact or rounded once: by the target's approximate
instructions, and within the op's bound."""
_ARMS = (1, 2)
"""The operands of a selection that are its arms."""
_TOGETHER = 2
"""Elements that share branches."""


@attrs.frozen
class GuardedSelection:
    """The ops that are lowered with a selection, each in program order and without those of other
    guarded selections.

    - `formula`: ops on which only the selection depends.
    - `arms`: the ops of its first and of its second arm that are lowered inside a branch; none if
      the arm is always computed.
    """

    formula: Sequence[Op]
    arms: tuple[Sequence[Op], Sequence[Op]]


@attrs.frozen
class GuardedSelections:
    """The guarded selections of a function, and all ops that are lowered with one of them."""

    selections: Mapping[Op, GuardedSelection]
    deferred: frozenset[Op]


@memoize
def guarded_selections(function: Function) -> GuardedSelections:
    """The selections in `function` with an arm that is worth a branch. Branches would separate
    asynchronous matmuls from their waits."""
    selections: dict[Op, GuardedSelection] = {}
    deferred: set[Op] = set()
    if any(op.orders_async or op.multiplies_matrices for op in function.ops):
        return GuardedSelections(selections, frozenset())
    for block in function.blocks.values():
        places: dict[Operand, int] = {v: n for n, op in enumerate(block.ops) for v in op.results}
        for op in block.ops:
            if not _selects_by_value(function, op):
                continue
            arms = list[Sequence[Op]]()
            for arm in _ARMS:
                own = _own_ops(function, block, places, op, [arm])
                arms.append([x for x in own if x not in deferred] if _is_long(own) else ())
            if not any(arms):
                continue
            deferred.update(*arms)
            own = _own_ops(function, block, places, op, range(len(op.inputs)))
            formula = [x for x in own if x not in deferred]
            deferred.update(formula)
            selections[op] = GuardedSelection(formula, (arms[0], arms[1]))
    return GuardedSelections(selections, frozenset(deferred))


def lower_in_parts(lowering: Lowering, op: Any, guarded: GuardedSelection) -> list[Fragment]:
    """The result of the selection `op`, computed for a few registers after the other."""
    if lowering.part is not None:
        return _lower_part(lowering, op, guarded)
    values, count = lowering.values, op.result.type.layout.size("register")
    result: Fragment = []
    for start in range(0, count, _TOGETHER):
        lowering.part = part = slice(start, min(start + _TOGETHER, count))
        lowering.values = _PartOfValues(values, part)
        (fragment,) = _lower_part(lowering, op, guarded)
        result += fragment
    lowering.part, lowering.values = None, values
    return [result]


class _PartOfValues(dict[Value, "Fragment"]):
    """Fragments of a part of the registers: those that were assigned here, or a part of `whole`."""

    def __init__(self, whole: Mapping[Value, Fragment], part: slice) -> None:
        super().__init__()
        self._whole, self._part = whole, part

    def __missing__(self, value: Value) -> Fragment:
        fragment = self._whole[value]
        return fragment if len(fragment) == 1 else fragment[self._part]


def _lower_part(lowering: Lowering, op: Any, guarded: GuardedSelection) -> list[Fragment]:
    """The selection for the registers of the current part. The branch around the second arm
    contains the selection too, so that neither is executed if all elements select the first."""
    element, thread = cast("Element", element_of(op.result.type)), lowering.thread
    _lower_all(lowering, guarded.formula)
    conditions = lowering.fragment(op.condition)

    def arm(index: int) -> Fragment:
        _lower_all(lowering, guarded.arms[index])
        return lowering.fragment(op.inputs[_ARMS[index]])

    def under(condition: Handle, body: Callable[[], Fragment], other: Sequence[Handle]) -> Fragment:
        return thread.when(condition, [element] * len(conditions), body, other)

    def select(a: Fragment, b: Fragment) -> Fragment:
        return [thread.select(element, *each) for each in zip(conditions, a, b, strict=True)]

    some = _join(lowering, "or", conditions)
    if not guarded.arms[1]:
        rest = arm(1)
        return [under(some, lambda: select(arm(0), rest), rest)]
    first = under(some, lambda: arm(0), ()) if guarded.arms[0] else arm(0)
    every = _join(lowering, "and", conditions)
    not_every = thread.binary("xor", I1, every, thread.constant(I1, 1))
    return [under(not_every, lambda: select(first, arm(1)), first)]


def _lower_all(lowering: Lowering, ops: Iterable[Op]) -> None:
    for op in ops:
        lowering.values.update(zip(op.results, lowering.rule_of(op)(lowering, op), strict=True))


def _join(lowering: Lowering, name: str, conditions: Iterable[Handle]) -> Handle:
    first, *others = dict.fromkeys(conditions)
    for other in others:
        first = lowering.thread.binary(name, I1, first, other)
    return first


def _selects_by_value(function: Function, op: Any) -> bool:
    """Whether `op` selects between two long formulas by a comparison of floats. Masks of positions
    are not such comparisons."""
    if op.mnemonic != "select" or not _is_plain(op) or element_of(op.result.type) not in (F32, F64):
        return False
    decides = definitions(function).get(op.condition)
    if decides is None or decides.mnemonic != "fcmp":
        return False
    return all(_is_long(_formula_of(function, op.inputs[arm])) for arm in _ARMS)


def _is_plain(op: Op) -> bool:
    """Whether `op` computes numbers from the elements of its operands, and has no other effect."""
    kinds = [v.type for v in op.results]
    return (
        op.elementwise
        and op.effects is Effects.PURE
        and op.predicate is None
        and (op.numerics.exact or op.numerics.ulp is not None)
        and all(isinstance(k, Tile) and k.layout is not None for k in kinds)
        and all(element_of(k) in (F32, F64, I1, I32, I64) for k in kinds)
    )


def _formula_of(function: Function, value: Operand) -> list[Op]:
    """Plain ops from which `value` is computed, enough to tell whether it is a long formula."""
    formula: dict[Op, None] = {}
    waiting = [value]
    while waiting and not _is_long(formula):
        value = waiting.pop()
        op = definitions(function).get(value) if isinstance(value, Value) else None
        if op is not None and op not in formula and _is_plain(op):
            formula[op] = None
            waiting += op.inputs
    return list(formula)


def _own_ops(
    function: Function, block: Block, places: Mapping[Operand, int], selection: Op,
    operands: Sequence[int],
) -> list[Op]:  # fmt: skip
    """The plain ops of `block` on which nothing but the operands of its `selection` with the
    numbers `operands` depends, in program order. `places` are the positions of the ops that define
    values of the block. The last op is visited first, so each is visited after its readers."""
    readers, own = uses(function), dict[Op, None]()
    needed = {selection.inputs[i] for i in operands}
    others = {v for i, v in enumerate(selection.inputs) if i not in operands}
    waiting = [-places[v] for v in needed if v in places]
    heapify(waiting)
    while waiting:
        op = block.ops[-heappop(waiting)]
        if op in own or not _is_plain(op) or not others.isdisjoint(op.results):
            continue
        if all(r is selection or r in own for v in op.results for r in readers.get(v, ())):
            own[op] = None
            for value in op.inputs:
                if value in places:
                    heappush(waiting, -places[value])
    return list(own)[::-1]


def _is_long(ops: Iterable[Op]) -> bool:
    return sum(_instructions(op) for op in ops) >= _LONG


def _instructions(op: Op) -> int:
    """About how many instructions an element takes."""
    if op.numerics in (EXACT, ROUNDED):
        return 1
    is_exact = getattr(op, "fast", FastMath.NONE) is FastMath.NONE
    return _PER_FUNCTION if is_exact else _PER_APPROXIMATION
