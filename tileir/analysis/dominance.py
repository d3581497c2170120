"""Dominators, post-dominators and dominance frontiers.

Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir import records
from tileir.analysis.cache import cached
from tileir.analysis.cfg import Cfg, cfg, reverse_post_order
from tileir.ir import Function

EXIT = ""
"""The root of the post-dominator tree: where every path ends. No block has this label."""


@records.frozen(weakref_slot=False)
class Dominance:
    """A dominator (or post-dominator) tree over the reachable blocks.

    `root` is the entry (`EXIT` for post-dominance), `parent` the immediate dominator of every
    other block, `children` its inverse, `preorder` the tree's blocks, each before its children.
    """

    root: str
    parent: Mapping[str, str]
    children: Mapping[str, tuple[str, ...]]
    preorder: tuple[str, ...]
    enter: Mapping[str, int]
    leave: Mapping[str, int]

    def dominates(self, above: str, below: str) -> bool:
        """Whether every path from the root to `below` passes `above`; true of a block itself."""
        return self.enter[above] <= self.enter[below] <= self.leave[above]

    def strictly_dominates(self, above: str, below: str) -> bool:
        """`dominates`, and the two are different blocks."""
        return above != below and self.dominates(above, below)

    def common(self, first: str, second: str) -> str:
        """The nearest block that dominates both."""
        while not self.dominates(first, second):
            first = self.parent[first]
        return first


@cached
def dominance(function: Function) -> Dominance:
    """The dominator tree of `function`'s reachable blocks. Raises ValueError for a
    declaration."""
    graph = cfg(function)
    if not graph.order:
        raise ValueError(f"@{function.name} has no blocks")
    return _tree(graph.order, graph.number, graph.predecessors)


@cached
def post_dominance(function: Function) -> Dominance:
    """The post-dominator tree, rooted at `EXIT`, to which every block that ends the program
    leads. A loop without exit is taken to leave at its last block."""
    graph = cfg(function)
    leaving = _leaving(graph)
    towards = {label: graph.successors[label] for label in graph.order}
    backwards: dict[str, list[str]] = {label: list(graph.predecessors[label]) for label in towards}
    backwards[EXIT] = leaving
    exits = {label: (*towards[label], *((EXIT,) if label in leaving else ())) for label in towards}
    order = reverse_post_order(EXIT, backwards)
    number = {label: index for index, label in enumerate(order)}
    return _tree(order, number, {**exits, EXIT: ()})


@cached
def frontiers(function: Function) -> Mapping[str, frozenset[str]]:
    """Per block the blocks just beyond its dominance: those it does not strictly dominate, but
    a predecessor of which it dominates."""
    graph, tree = cfg(function), dominance(function)
    found: dict[str, set[str]] = {label: set() for label in graph.order}
    for label in graph.order:
        for runner in graph.predecessors[label]:
            while runner != tree.parent.get(label):
                found[runner].add(label)
                if runner == tree.root:
                    break
                runner = tree.parent[runner]
    return {label: frozenset(blocks) for label, blocks in found.items()}


def _tree(
    order: Sequence[str], number: Mapping[str, int], predecessors: Mapping[str, Sequence[str]]
) -> Dominance:
    before = [[number[p] for p in predecessors[label]] for label in order]
    parents = _immediate_dominators(before)
    parent = {order[i]: order[parents[i]] for i in range(1, len(order))}
    children: dict[str, list[str]] = {label: [] for label in order}
    for label, above in parent.items():
        children[above].append(label)
    preorder = _preorder(order[0], children)
    enter = {label: index for index, label in enumerate(preorder)}
    leave = dict(enter)
    for label in reversed(preorder[1:]):
        leave[parent[label]] = max(leave[parent[label]], leave[label])
    kept = {label: tuple(below) for label, below in children.items()}
    return Dominance(order[0], parent, kept, tuple(preorder), enter, leave)


def _immediate_dominators(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators of nodes numbered in reverse post-order, the root's its own."""
    unknown = -1
    above = [unknown] * len(predecessors)
    above[0] = 0
    changed = True
    while changed:
        changed = False
        for node in range(1, len(predecessors)):
            new = unknown
            for source in predecessors[node]:
                if above[source] != unknown:
                    new = source if new == unknown else _meet(above, new, source)
            if above[node] != new:
                above[node] = new
                changed = True
    return above


def _meet(above: Sequence[int], first: int, second: int) -> int:
    while first != second:
        while first > second:
            first = above[first]
        while second > first:
            second = above[second]
    return first


def _preorder(root: str, children: Mapping[str, Sequence[str]]) -> list[str]:
    found, stack = list[str](), [root]
    while stack:
        label = stack.pop()
        found.append(label)
        stack.extend(reversed(children[label]))
    return found


def _leaving(graph: Cfg) -> list[str]:
    """Blocks without successors, and for every region that reaches none its last block."""
    leaving = [label for label in graph.order if not graph.successors[label]]
    reaching = _reaching(leaving, graph)
    for label in reversed(graph.order):
        if label not in reaching:
            leaving.append(label)
            reaching |= _reaching([label], graph)
    return leaving


def _reaching(ends: Sequence[str], graph: Cfg) -> set[str]:
    seen, stack = set(ends), list(ends)
    while stack:
        for source in graph.predecessors[stack.pop()]:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return seen
