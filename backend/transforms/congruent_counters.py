"""Congruent counters of a loop: those that differ by a constant in every iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs

from tileir.analysis.induction import InductionVariable, induction_variables
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, uses
from tileir.ir import Function
from tileir.op import Op
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
    counters, readers = _counters(function, loop), uses(function)
    for each in counters:
        if readers.get(each.value) != (each.update,):
            continue
        for other in counters:
            distance = _difference(function, each.start, other.start)
            is_only_counted = other is each or readers.get(other.value) == (other.update,)
            if distance is None or is_only_counted or each.step != other.step:
                continue
            total = _reduce_to_range(each.value, distance + cast(int, each.stride))
            added = attrs.evolve(
                cast(Add, each.update), lhs=other.value, rhs=total, overflow=Overflow.NONE
            )
            yield each.update, added if total.bits else other.value
            break


def _counters(function: Function, loop: Loop) -> list[InductionVariable]:
    """The parameters that each iteration of `loop` increments by a constant."""
    return [
        variable
        for variable in induction_variables(function, loop)
        if isinstance(variable.update, Add) and isinstance(variable.step, Constant)
    ]


def _reduce_to_range(counter: Value, number: int) -> Constant:
    """`number` modulo the range of `counter`."""
    bits = cast(Scalar, counter.type).bits
    return Constant(counter.type, number % (1 << bits))


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
