"""Natural loops: nesting, entries and exits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import Cfg, cfg
from tileir.analysis.uses import defining_blocks
from tileir.ir import Function
from tileir.values import Operand, Value

_ITERATIONS = 100
"""The estimated number of iterations of a loop."""
_DEEPEST = 4
"""The most nested loops that an estimate takes into account."""


@attrs.frozen(eq=False, repr=False, slots=False)
class Loop:
    """A natural loop: `header` dominates `blocks`, and `latches` branch back to it.

    `parent` is the header of the loop around it, `depth` 1 for an outermost one. `preheader`
    is the only block outside that leads in, if it leads nowhere else. `inner` are the loops
    directly inside.
    """

    header: str
    latches: tuple[str, ...]
    parent: str | None
    depth: int
    preheader: str | None
    inner: tuple[Loop, ...]
    _numbers: range
    """The number of this loop, and those of the loops in it."""
    _own: tuple[str, ...]
    """Its blocks that no inner loop has."""
    _graph: Cfg

    def encloses(self, other: Loop) -> bool:
        """Whether `other`, a loop of the same function, is this loop or one in it."""
        return other._numbers.start in self._numbers

    @cached_property
    def blocks(self) -> frozenset[str]:
        """Its blocks, those of inner loops included."""
        result, stack = set[str](), list[Loop]([self])
        while stack:
            loop = stack.pop()
            result.update(loop._own)
            stack.extend(loop.inner)
        return frozenset(result)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Its blocks in reverse post-order."""
        return tuple(sorted(self.blocks, key=self._graph.number.__getitem__))

    @cached_property
    def exits(self) -> tuple[tuple[str, str], ...]:
        """The edges that leave."""
        return tuple(
            (label, target)
            for label in self.order
            for target in self._graph.successors[label]
            if target not in self.blocks
        )

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
        """The innermost loop around block `label`."""
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
    """The natural loops of `function`. `irreducible` tells whether there are other cycles."""
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
    innermost, parent = _nest(graph, headers, latches)
    return Loops(_by_header(graph, headers, latches, innermost, parent), innermost, irreducible)


def _nest(
    graph: Cfg, headers: list[str], latches: Mapping[str, list[str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The header of the innermost loop around each block, and of the loop around each loop.

    A loop has the blocks that reach a latch without passing the header. Inner loops come first: a
    walk from the latches of an outer loop passes each of them in one step.
    """
    innermost, parent, above = dict[str, str](), dict[str, str](), dict[str, str]()
    for header in reversed(headers):
        innermost[header] = header
        stack = list(latches[header])
        while stack:
            label = stack.pop()
            if label not in innermost:
                innermost[label] = header
                stack.extend(graph.predecessors[label])
                continue
            inner = _outermost(innermost[label], above)
            if inner != header:
                parent[inner] = above[inner] = header
                stack.extend(graph.predecessors[inner])
    return innermost, parent


def _outermost(header: str, above: dict[str, str]) -> str:
    """The outermost loop around loop `header`, where `above` gives a loop around each inner one;
    shortens the path that it follows."""
    while (outer := above.get(header)) is not None:
        above[header] = above.get(outer, outer)
        header = outer
    return header


def _by_header(
    graph: Cfg, headers: list[str], latches: Mapping[str, list[str]],
    innermost: Mapping[str, str], parent: Mapping[str, str],
) -> dict[str, Loop]:  # fmt: skip
    own: dict[str, list[str]] = {header: [] for header in headers}
    inner: dict[str, list[Loop]] = {header: [] for header in headers}
    depth: dict[str | None, int] = {None: 0}
    for label, header in innermost.items():
        own[header].append(label)
    for header in headers:
        depth[header] = depth[parent.get(header)] + 1
    numbers, result = _numbers(headers, parent), dict[str, Loop]()
    for header in reversed(headers):
        back = frozenset(latches[header])
        outside = [p for p in graph.predecessors[header] if p not in back]
        alone = len(outside) == 1 and graph.successors[outside[0]] == (header,)
        outer = parent.get(header)
        result[header] = loop = Loop(
            header, tuple(latches[header]), outer, depth[header], outside[0] if alone else None,
            tuple(inner[header]), numbers[header], tuple(own[header]), graph,
        )  # fmt: skip
        if outer is not None:
            inner[outer].append(loop)
    return {header: result[header] for header in headers}


def _numbers(headers: list[str], parent: Mapping[str, str]) -> dict[str, range]:
    """Numbers for the loops, those of a loop and of the loops in it without gaps."""
    size = dict.fromkeys(headers, 1)
    for header in reversed(headers):
        if header in parent:
            size[parent[header]] += size[header]
    free: dict[str | None, int] = {None: 0}
    result: dict[str, range] = {}
    for header in headers:
        outer = parent.get(header)
        first = free[outer]
        result[header] = range(first, first + size[header])
        free[outer], free[header] = first + size[header], first + 1
    return result


def is_invariant(function: Function, loop: Loop, operand: Operand) -> bool:
    """Whether `operand` is a literal or defined outside `loop`."""
    return (
        not isinstance(operand, Value) or defining_blocks(function).get(operand) not in loop.blocks
    )
