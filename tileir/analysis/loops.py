"""Natural loops: nesting, entries and exits."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import Cfg, cfg
from tileir.analysis.uses import defining_blocks
from tileir.ir import Function
from tileir.values import Operand, Value

_ITERATIONS = 100
"""The estimated number of iterations of a loop."""
_DEEPEST = 4
"""Loops that an estimate counts."""


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Loop:
    """A natural loop: `header` dominates `blocks`, and `latches` branch back to it.

    `parent` is the header of the loop around it, `depth` 1 for an outermost one. `preheader`
    is the only block outside that leads in, if it leads nowhere else. `exits` are the edges
    that leave. `order` lists the blocks in reverse post-order.
    """

    header: str
    latches: tuple[str, ...]
    blocks: frozenset[str]
    parent: str | None
    depth: int
    preheader: str | None
    exits: tuple[tuple[str, str], ...]
    order: tuple[str, ...] = attrs.field(eq=False)

    @property
    def latch(self) -> str | None:
        """The only latch, if there is only one."""
        return self.latches[0] if len(self.latches) == 1 else None


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Loops:
    """The loops of a function by header, outer ones before inner ones; `innermost` gives the
    header of the innermost loop around each block that is in one."""

    by_header: Mapping[str, Loop]
    innermost: Mapping[str, str]
    irreducible: bool

    def around(self, label: str) -> Loop | None:
        """The innermost loop that holds block `label`."""
        header = self.innermost.get(label)
        return None if header is None else self.by_header[header]

    def depth(self, label: str) -> int:
        """Number of loops around block `label`."""
        result = self.around(label)
        return 0 if result is None else result.depth

    def frequency(self, label: str) -> int:
        """An estimate of how often block `label` runs: a hundred times per surrounding loop."""
        return _ITERATIONS ** min(self.depth(label), _DEEPEST)


@memoize
def loops(function: Function) -> Loops:
    """The natural loops of `function`. `irreducible` tells of cycles that are none."""
    if function.is_declaration:
        return Loops({}, {}, False)
    graph = cfg(function)
    if not graph.has_cycles:
        return Loops({}, {}, False)
    from tileir.analysis.dominance import dominance

    tree = dominance(function)
    latches: dict[str, list[str]] = {}
    irreducible = False
    for label in graph.order:
        for target in graph.successors[label]:
            if tree.dominates(target, label):
                latches.setdefault(target, []).append(label)
            elif graph.number[target] <= graph.number[label]:
                irreducible = True
    headers = sorted(latches, key=lambda header: graph.number[header])
    bodies = {header: _body(graph, header, latches[header]) for header in headers}
    innermost: dict[str, str] = {}
    result: dict[str, Loop] = {}
    for header in headers:
        parent = innermost.get(header)
        depth = 1 if parent is None else result[parent].depth + 1
        result[header] = _loop(graph, header, latches[header], bodies[header], parent, depth)
        innermost.update(dict.fromkeys(bodies[header], header))
    return Loops(result, innermost, irreducible)


def _body(graph: Cfg, header: str, latches: list[str]) -> frozenset[str]:
    """Blocks that reach a latch without passing the header, and the header."""
    result, stack = {header}, list(latches)
    while stack:
        label = stack.pop()
        if label not in result:
            result.add(label)
            stack.extend(graph.predecessors[label])
    return frozenset(result)


def _loop(
    graph: Cfg, header: str, latches: list[str], body: frozenset[str], parent: str | None,
    depth: int,
) -> Loop:  # fmt: skip
    outside = [p for p in graph.predecessors[header] if p not in body]
    alone = len(outside) == 1 and graph.successors[outside[0]] == (header,)
    order = tuple(sorted(body, key=graph.number.__getitem__))
    exits = tuple(
        (label, target)
        for label in order for target in graph.successors[label] if target not in body
    )  # fmt: skip
    entry = outside[0] if alone else None
    return Loop(header, tuple(latches), body, parent, depth, entry, exits, order)


def is_invariant(function: Function, loop: Loop, operand: Operand) -> bool:
    """Whether `operand` is a literal or defined outside `loop`."""
    return (
        not isinstance(operand, Value) or defining_blocks(function).get(operand) not in loop.blocks
    )
