"""Positions of ops, and ops that may execute before an op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op

_CHANGES_MEMORY = Effects.WRITE | Effects.SYNC


@memoize
def places(function: Function) -> Mapping[Op, tuple[str, int]]:
    """The position of each op: the label of its block, and its index there."""
    return {
        op: (label, index)
        for label, block in function.blocks.items()
        for index, op in enumerate(block.ops)
    }


@memoize
def _changing_ops(function: Function) -> Mapping[str, list[tuple[int, Op]]]:
    """The ops of each block that write or synchronize, with their indices."""
    return {
        label: [(i, op) for i, op in enumerate(block.ops) if op.effects & _CHANGES_MEMORY]
        for label, block in function.blocks.items()
    }


def changes_that_may_precede(function: Function, op: Op) -> Iterator[Op]:
    """The ops that write or synchronize from which control may reach `op`. In a loop, `op` itself
    may be one of them."""
    changing = _changing_ops(function)
    own, place = places(function)[op]
    for index, change in changing[own]:
        if index >= place:
            break
        yield change
    seen: set[str] = set()
    waiting = list(cfg(function).predecessors[own])
    while waiting:
        label = waiting.pop()
        if label not in seen:
            seen.add(label)
            yield from (change for _, change in changing[label])
            waiting += cfg(function).predecessors[label]
