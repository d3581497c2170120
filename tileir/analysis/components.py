"""Strongly connected components of any graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

_N = TypeVar("_N", bound=Hashable)


def strong_components(edges: Mapping[_N, Iterable[_N]]) -> dict[_N, int]:
    """The component of each node with edges, as a number: two nodes have the same one if paths lead
    from each to the other. Takes linear time, and no recursion (R. Tarjan, "Depth-first search and
    linear graph algorithms", SIAM Journal on Computing 1 (1972), section 4)."""
    component: dict[_N, int] = {}
    order: dict[_N, int] = {}
    low: dict[_N, int] = {}
    stack: list[_N] = []
    for start in edges:
        walk = [] if start in order else [(start, iter(edges[start]))]
        while walk:
            node, targets = walk[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                stack.append(node)
            target = next((t for t in targets if t in edges and t not in component), None)
            if target is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    while node not in component:
                        component[stack.pop()] = order[node]
            elif target in order:
                low[node] = min(low[node], order[target])
            else:
                walk.append((target, iter(edges[target])))
    return component
