"""Last uses of values, and values that a loop does not change."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.loops import Loop, Loops, loops
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
    nest = loops(function)
    if not nest.by_header:
        return set()
    loop_of: dict[Value, Loop | None] = {}
    changing: dict[Value, int] = {}
    """The number of the loops around its definition that recompute a value: the outer ones."""
    for label, block in function.blocks.items():
        here = nest.around(label)
        defined = [*block.parameters, *(result for op in block.ops for result in op.results)]
        loop_of.update(dict.fromkeys(defined, here))
        changing.update(dict.fromkeys(defined, nest.depth(label)))
    ops: set[Op] = set()
    for label, block in function.blocks.items():
        here = nest.around(label)
        if here is None:
            continue
        for op in block.ops:
            if op.effects is not Effects.PURE or op.predicate is not None or not op.inputs:
                continue
            values = [v for v in op.operands if isinstance(v, Value) and v in loop_of]
            most = max(
                (min(changing[v], _common_depth(nest, loop_of[v], here)) for v in values), default=0
            )
            if most < here.depth:
                changing.update(dict.fromkeys(op.results, most))
                ops.add(op)
    return ops


def _common_depth(nest: Loops, loop: Loop | None, other: Loop) -> int:
    """The number of loops around both `loop` and `other`."""
    while loop is not None and not loop.encloses(other):
        loop = None if loop.parent is None else nest.by_header[loop.parent]
    return 0 if loop is None else loop.depth
