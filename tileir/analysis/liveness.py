"""Live values at each point of a function."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.ir import Block, Function
from tileir.values import Value


@attrs.frozen(weakref_slot=False)
class Liveness:
    """Values alive at both ends of each reachable block.

    `entering[label]`: read in the block or after it, and defined before it; the block's own
    parameters are not among them. `leaving[label]`: alive on some edge out of it, arguments
    having been passed.
    """

    entering: Mapping[str, frozenset[Value]]
    leaving: Mapping[str, frozenset[Value]]

    def last_uses(self, block: Block) -> list[tuple[Value, ...]]:
        """Per op of `block`, the values that are alive before it and no longer after it."""
        alive = set(self.leaving[block.label])
        dying: list[tuple[Value, ...]] = []
        for op in reversed(block.ops):
            alive.difference_update(op.results)
            read = dict.fromkeys(v for v in op.operands if isinstance(v, Value))
            dying.append(tuple(v for v in read if v not in alive))
            alive.update(read)
        return dying[::-1]


@memoize
def liveness(function: Function) -> Liveness:
    """Liveness of `function`, by the backward data-flow equations."""
    graph = cfg(function)
    reads = {label: _upward_exposed(function.blocks[label]) for label in graph.order}
    defines = {label: _definitions(function.blocks[label]) for label in graph.order}
    entering: dict[str, frozenset[Value]] = dict.fromkeys(graph.order, frozenset[Value]())
    leaving = dict(entering)
    changed = True
    while changed:
        changed = False
        for label in reversed(graph.order):
            after = frozenset[Value]().union(*(entering[s] for s in graph.successors[label]))
            before = reads[label] | (after - defines[label])
            leaving[label] = after
            if before != entering[label]:
                entering[label] = before
                changed = True
    return Liveness(entering, leaving)


def _upward_exposed(block: Block) -> frozenset[Value]:
    """Values read in `block` and defined outside it."""
    read = {v for op in block.ops for v in op.operands if isinstance(v, Value)}
    return frozenset(read - _definitions(block))


def _definitions(block: Block) -> set[Value]:
    values = {v for op in block.ops for v in op.results}
    values.update(block.parameters)
    return values
