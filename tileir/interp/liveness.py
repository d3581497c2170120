"""Where values of a function are used for the last time."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.ir import Block, Function
from tileir.values import Operand, Value


def values_across_blocks(function: Function) -> set[Value]:
    """Values that another block than the defining one reads."""
    home: dict[Value, Block] = {}
    for block in function.blocks.values():
        for op in block.ops:
            for result in op.results:
                home[result] = block
    return {
        value
        for block in function.blocks.values()
        for value in _reads(block)
        if isinstance(value, Value) and home.get(value, block) is not block
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
