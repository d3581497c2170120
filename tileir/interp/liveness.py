"""Last uses of values, and values that a loop does not change."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.loops import Loop, loops
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.values import Operand, Value


def values_live_out(function: Function) -> set[Value]:
    """Values that another block than the defining one reads."""
    definition: dict[Value, Block] = {}
    for block in function.blocks.values():
        for op in block.ops:
            for result in op.results:
                definition[result] = block
    return {
        value
        for block in function.blocks.values()
        for value in _reads(block)
        if isinstance(value, Value) and definition.get(value, block) is not block
    }


def _reads(block: Block) -> Iterator[Operand]:
    return (value for op in block.ops for value in op.operands)


def last_uses(block: Block, shared: set[Value]) -> dict[int, list[Value]]:
    """Values of the block alone, by the number of the op after which they are dead."""
    last: dict[Value, int] = {}
    for number, op in enumerate(block.ops):
        for result in op.results:
            if result not in shared:
                last[result] = number
        for value in op.operands:
            if value in last:
                last[value] = number  # type: ignore[index]
    dying: dict[int, list[Value]] = {}
    for value, number in last.items():
        dying.setdefault(number, []).append(value)
    return dying


def invariant_ops(function: Function) -> set[Op]:
    """Pure ops in loops that read nothing their innermost loop recomputes: literals, values
    from outside and results of such ops."""
    ops: set[Op] = set()
    for loop in loops(function).by_header.values():
        ops.update(_invariant_in(function, loop))
    return ops


def _invariant_in(function: Function, loop: Loop) -> Iterator[Op]:
    inside = [block for label, block in function.blocks.items() if label in loop.blocks]
    changing = {
        v for b in inside for v in (*b.parameters, *(r for op in b.ops for r in op.results))
    }
    for op in (op for block in inside for op in block.ops):
        pure = op.effects is Effects.PURE and op.predicate is None and op.inputs
        if pure and changing.isdisjoint(v for v in op.operands if isinstance(v, Value)):
            changing.difference_update(op.results)
            yield op
