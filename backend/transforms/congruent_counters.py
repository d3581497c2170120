"""Congruent counters of a loop: those that differ by a constant in every iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, uses
from tileir.ir import Function
from tileir.op import Op, Successor
from tileir.ops.arith import Add, Overflow, Sub
from tileir.passes.dce import dce
from tileir.types import Scalar
from tileir.values import Constant, Operand, Value


def merge_congruent_counters(function: Function) -> Function:
    """`function` in which a counter that a loop only increments is computed from another one, with
    the same step.

    The persistent matmul of Triton's tutorials counts the tiles of its epilogue separately:

        tile_id_c = start_pid - NUM_SMS
        for tile_id in range(start_pid, num_tiles, NUM_SMS):
            ...
            tile_id_c += NUM_SMS

    From then on, `tile_id_c` is `tile_id`. The rows that are loaded are then known to be those that
    are stored.
    """
    changed: dict[Op, Op | Operand] = {}
    for loop in loops(function).by_header.values():
        changed.update(_find_replacements(function, loop))
    if not changed:
        return function
    env: dict[Value, Operand] = {
        op.results[0]: new for op, new in changed.items() if not isinstance(new, Op)
    }
    blocks = {}
    for label, block in function.blocks.items():
        kept = (changed.get(op, op) for op in block.ops)
        ops = tuple([op.remap(env) for op in kept if isinstance(op, Op)])
        blocks[label] = attrs.evolve(block, ops=ops)
    return dce(function.with_blocks(blocks))


def _find_replacements(function: Function, loop: Loop) -> Iterator[tuple[Op, Op | Operand]]:
    """The increments of counters that other counters replace, each with what replaces it."""
    counters, readers = list(_counters(function, loop)), uses(function)
    for each in counters:
        if readers.get(each.value) != (each.step,):
            continue
        for other in counters:
            distance = _difference(function, each.first, other.first)
            is_only_counted = other is each or readers.get(other.value) == (other.step,)
            if distance is None or is_only_counted or each.step.rhs != other.step.rhs:
                continue
            total = _reduce_to_range(each.value, distance + int(each.step.rhs.value))  # type: ignore[union-attr]
            added = attrs.evolve(each.step, lhs=other.value, rhs=total, overflow=Overflow.NONE)
            yield each.step, added if total.bits else other.value
            break


class _Counter(NamedTuple):
    """A parameter of a header, its value in the first iteration, and its increment."""

    value: Value
    first: Operand
    step: Add


def _counters(function: Function, loop: Loop) -> Iterator[_Counter]:
    """The parameters that each iteration of `loop` increments by a constant."""
    start, back = (_edges(function, label, loop.header) for label in (loop.preheader, loop.latch))
    if len(start) != 1 or len(back) != 1:
        return
    parameters, producers = function.blocks[loop.header].parameters, definitions(function)
    for value, first, following in zip(
        parameters, start[0].arguments, back[0].arguments, strict=True
    ):
        step = producers.get(following) if isinstance(following, Value) else None
        if not isinstance(step, Add) or step.lhs is not value or step.predicate is not None:
            continue
        if isinstance(step.rhs, Constant):
            yield _Counter(value, first, step)


def _reduce_to_range(counter: Value, number: int) -> Constant:
    """`number` modulo the range of `counter`."""
    bits = cast(Scalar, counter.type).bits
    return Constant(counter.type, number % (1 << bits))


def _edges(function: Function, label: str | None, header: str) -> list[Successor]:
    """The edges from block `label`, if there is one, to the header."""
    if label is None:
        return []
    return [e for e in function.blocks[label].terminator.successors if e.label == header]


def _difference(function: Function, left: Operand, right: Operand) -> int | None:
    """`left - right` if it is a visible constant."""
    if left.type is not right.type or not isinstance(left.type, Scalar):
        return None
    (base, offset), (other_base, other_offset) = (_base(function, x) for x in (left, right))
    return offset - other_offset if base is other_base else None


def _base(function: Function, value: Operand) -> tuple[Operand | None, int]:
    """A value and a constant whose sum is `value`."""
    if isinstance(value, Constant):
        return None, int(value.value)
    op: Any = definitions(function).get(cast(Value, value))
    if isinstance(op, (Add, Sub)) and isinstance(op.rhs, Constant) and op.predicate is None:
        number = int(op.rhs.value)
        return op.lhs, number if isinstance(op, Add) else -number
    return value, 0
