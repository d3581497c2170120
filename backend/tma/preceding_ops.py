"""The ops that may execute before an op."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.cfg import cfg
from tileir.ir import Function
from tileir.op import Op


def ops_that_may_precede(function: Function, op: Op) -> Iterator[Op]:
    """The ops from which control may reach `op`; `op` itself is among them if it is in a loop."""
    own = next(label for label, block in function.blocks.items() if op in block.ops)
    ops = function.blocks[own].ops
    yield from ops[: ops.index(op)]
    seen: set[str] = set()
    waiting = list(cfg(function).predecessors[own])
    while waiting:
        label = waiting.pop()
        if label not in seen:
            seen.add(label)
            yield from function.blocks[label].ops
            waiting += cfg(function).predecessors[label]
