"""Dominators, post-dominators and dominance frontiers.

Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import Cfg, cfg, reverse_post_order
from tileir.ir import Function

EXIT = ""
"""The root of the post-dominator tree: where every path ends. No block has this label."""


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
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


@memoize
def dominance(function: Function) -> Dominance:
    """The dominator tree of `function`'s reachable blocks. Raises ValueError for a
    declaration."""
    graph = cfg(function)
    if not graph.order:
        raise ValueError(f"@{function.name} has no blocks")
    return _tree(graph.order, graph.number, graph.predecessors)


@memoize
def post_dominance(function: Function) -> Dominance:
    """The post-dominator tree, rooted at `EXIT`, to which every block that ends the program leads.
    A loop without an exit is treated as if its last block led to `EXIT`."""
    graph = cfg(function)
    leaving = _leaving(graph)
    towards = {label: graph.successors[label] for label in graph.order}
    backwards: dict[str, list[str]] = {label: list(graph.predecessors[label]) for label in towards}
    backwards[EXIT] = leaving
    exits = {label: (*towards[label], *((EXIT,) if label in leaving else ())) for label in towards}
    order = reverse_post_order(EXIT, backwards)
    number = {label: index for index, label in enumerate(order)}
    return _tree(order, number, {**exits, EXIT: ()})


@memoize
def frontiers(function: Function) -> Mapping[str, frozenset[str]]:
    """Per block the blocks just beyond its dominance: those it does not strictly dominate, but
    a predecessor of which it dominates."""
    graph, tree = cfg(function), dominance(function)
    result: dict[str, set[str]] = {label: set() for label in graph.order}
    for label in graph.order:
        for runner in graph.predecessors[label]:
            while runner != tree.parent.get(label):
                if label in result[runner]:
                    break  # and so in all above
                result[runner].add(label)
                if runner == tree.root:
                    break
                runner = tree.parent[runner]
    return {label: frozenset(blocks) for label, blocks in result.items()}


def _tree(
    order: Sequence[str], number: Mapping[str, int], predecessors: Mapping[str, Sequence[str]]
) -> Dominance:
    if len(order) == 1:
        (root,) = order
        return Dominance(root, {}, {root: ()}, (root,), {root: 0}, {root: 0})
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
    children_of = {label: tuple(below) for label, below in children.items()}
    return Dominance(order[0], parent, children_of, tuple(preorder), enter, leave)


def _immediate_dominators(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators of nodes numbered in reverse post-order, the root's its own."""
    tree = _Growing(len(predecessors))
    for node in range(1, len(predecessors)):
        sources = [source for source in predecessors[node] if source < node]
        tree.add(node, reduce(tree.common, sources))
    return _refine_idoms(predecessors, tree)


class _Growing:
    """A tree to which leaves are added, with the nearest common ancestor of two nodes in a time
    by the logarithm of their depth (E. Myers, "An applicative random-access stack", Information
    Processing Letters 17 (1983): each node points to its parent and to a further ancestor)."""

    def __init__(self, count: int) -> None:
        self.above, self.far, self.depth = ([0] * count for _ in range(3))

    def add(self, node: int, parent: int) -> None:
        """Hang `node` below `parent`."""
        far, depth = self.far, self.depth
        self.above[node], depth[node] = parent, depth[parent] + 1
        first, second = far[parent], far[far[parent]]
        even = depth[parent] - depth[first] == depth[first] - depth[second]
        far[node] = second if even else parent

    def common(self, first: int, second: int) -> int:
        """The nearest common ancestor."""
        above, far, depth = self.above, self.far, self.depth
        if depth[first] < depth[second]:
            first, second = second, first
        while depth[first] > depth[second]:
            first = far[first] if depth[far[first]] >= depth[second] else above[first]
        while first != second:
            differ = far[first] != far[second]
            step = far if differ else above
            first, second = step[first], step[second]
        return first


def _refine_idoms(predecessors: Sequence[Sequence[int]], tree: _Growing) -> list[int]:
    """The immediate dominators, from a `tree` that ignores back edges. Back edges of loops with one
    entry change nothing."""
    above = tree.above
    wrong = (
        node for node in range(1, len(predecessors))
        if reduce(tree.common, predecessors[node]) != above[node]
    )  # fmt: skip
    changed = next(wrong, None) is not None
    while changed:
        changed = False
        for node in range(1, len(predecessors)):
            new = reduce(lambda a, b: _common_dominator(above, a, b), predecessors[node])
            if above[node] != new:
                above[node] = new
                changed = True
    return above


def _common_dominator(above: Sequence[int], first: int, second: int) -> int:
    while first != second:
        while first > second:
            first = above[first]
        while second > first:
            second = above[second]
    return first


def _preorder(root: str, children: Mapping[str, Sequence[str]]) -> list[str]:
    result, stack = list[str](), [root]
    while stack:
        label = stack.pop()
        result.append(label)
        stack.extend(reversed(children[label]))
    return result


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
