"""The control-flow graph: edges between blocks and their reverse post-order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tileir.analysis import memoize
from tileir.ir import Function


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Cfg:
    """The blocks that the entry reaches, and the edges between them.

    `order` is a reverse post-order: a block comes before its successors, back edges excepted,
    and `number` is each block's place in it. `successors` names each target once, in the order
    of the terminator; `predecessors` lists blocks in the order of `order`.
    """

    order: tuple[str, ...]
    number: Mapping[str, int]
    successors: Mapping[str, tuple[str, ...]]
    predecessors: Mapping[str, tuple[str, ...]]

    @property
    def has_cycles(self) -> bool:
        """Whether a path comes back to a block that it left."""
        return any(
            self.number[target] <= self.number[label]
            for label in self.order
            for target in self.successors[label]
        )


@memoize
def cfg(function: Function) -> Cfg:
    """The control-flow graph of `function`; labels that no block has are left out.

    A declaration has an empty graph.
    """
    successors = {label: _targets(function, label) for label in function.blocks}
    order = reverse_post_order(next(iter(successors)), successors) if successors else []
    number = {label: index for index, label in enumerate(order)}
    predecessors: dict[str, list[str]] = {label: [] for label in order}
    for label in order:
        for target in successors[label]:
            predecessors[target].append(label)
    return Cfg(
        tuple(order),
        number,
        {label: successors[label] for label in order},
        {label: tuple(sources) for label, sources in predecessors.items()},
    )


def _targets(function: Function, label: str) -> tuple[str, ...]:
    edges = function.blocks[label].successors
    if len(edges) == 1:
        target = edges[0].label
        return (target,) if target in function.blocks else ()
    return tuple(dict.fromkeys(e.label for e in edges if e.label in function.blocks))


def reachable(label: str, successors: Mapping[str, Sequence[str]]) -> set[str]:
    """The blocks that control may reach from block `label`, which is itself among them if it is in
    a loop."""
    reached: set[str] = set()
    waiting = list(successors[label])
    while waiting:
        target = waiting.pop()
        if target not in reached:
            reached.add(target)
            waiting += successors.get(target, ())
    return reached


def reverse_post_order(root: str, successors: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes reachable from `root` in reverse post-order; the first successor is visited
    first."""
    seen, finished = {root}, list[str]()
    stack = [(root, iter(reversed(successors[root])))]
    while stack:
        label, targets = stack[-1]
        target = next((t for t in targets if t not in seen), None)
        if target is None:
            finished.append(label)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(reversed(successors[target]))))
    finished.reverse()
    return finished
