"""Layered drawings of acyclic graphs, after Sugiyama, Tagawa and Toda (1981). Every node is below
the nodes that it depends on; edges pass between nodes and cross rarely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import attrs

Point: TypeAlias = tuple[float, float]
Edge: TypeAlias = tuple[int, int]

_GAP, _BETWEEN, _THIN = 14.0, 30.0, 6.0
"""Pixels between nodes of a layer, between layers, and of an edge on its way past a layer."""

_SWEEPS = 8


@attrs.frozen
class Placed:
    """The upper left corners of nodes, the points of each edge, and the extents of the drawing."""

    corners: Sequence[Point]
    routes: Mapping[Edge, Sequence[Point]]
    width: float
    height: float


@attrs.define
class _Graph:
    """The nodes, including those that represent bends of long edges, and the connections to the
    next layer."""

    widths: list[float]
    heights: list[float]
    layers: list[list[int]]
    above: dict[int, list[int]]
    below: dict[int, list[int]]
    chains: dict[Edge, list[int]]


def place(
    sizes: Sequence[Point], edges: Sequence[Edge], width: float, last: int | None = None
) -> Placed:
    """Positions for nodes of `sizes` that are connected by `edges`, within `width` if possible.
    Nodes are above those that depend on them. Node `last`, on which no node depends, is below all
    others."""
    layer = _layers(len(sizes), edges)
    if last is not None and len(layer) > 1:
        layer[last] = max(n for node, n in enumerate(layer) if node != last) + 1
    graph = _with_bends(sizes, _wrap(sizes, layer, edges, width), edges)
    _order(graph)
    middles = _middles(graph, width)
    tops, height = _tops(graph)
    level = {node: i for i, nodes in enumerate(graph.layers) for node in nodes}
    corners = [(middles[n] - w / 2, tops[level[n]]) for n, (w, _) in enumerate(sizes)]
    routes = {e: _route(graph, e, middles, tops, level) for e in graph.chains}
    right = max((middles[n] + w / 2 for n, w in enumerate(graph.widths)), default=0.0)
    return Placed(corners, routes, right, height)


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each node: below all nodes that it depends on. Sources are just above their
    first reader."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    layers = [0] * count
    for node in range(count):
        layers[node] = max((layers[a] + 1 for a in above.get(node, ())), default=0)
    for node in reversed(range(count)):
        if node not in above and node in below:
            layers[node] = min(layers[b] for b in below[node]) - 1
    return layers


def _wrap(
    sizes: Sequence[Point], layer: Sequence[int], edges: Sequence[Edge], width: float
) -> list[int]:
    """Split layers that are wider than `width`. Nodes that are read soonest come last."""
    result, shift = list(layer), 0
    first: dict[int, int] = {}
    for a, b in edges:
        first[a] = min(layer[b], first.get(a, layer[b]))
    for level in range(max(layer, default=-1) + 1):
        used, rows = 0.0, 0
        nodes = [n for n in range(len(layer)) if layer[n] == level]
        for node in sorted(nodes, key=lambda n: -first.get(n, 0)):
            wide = sizes[node][0] + _GAP
            if used and used + wide > width:
                used, rows = 0.0, rows + 1
            result[node] = level + shift + rows
            used += wide
        shift += rows
    return result


def _with_bends(sizes: Sequence[Point], layer: Sequence[int], edges: Sequence[Edge]) -> _Graph:
    """The graph with an additional node on every layer that an edge passes. Edges from one node
    share these nodes."""
    graph = _Graph([w for w, _ in sizes], [h for _, h in sizes], [], {}, {}, {})
    graph.layers = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, level in enumerate(layer):
        graph.layers[level].append(node)
    passing: dict[tuple[int, int], int] = {}
    for a, b in dict.fromkeys(edges):
        chain = [a]
        for level in range(layer[a] + 1, layer[b]):
            bend = passing.get((a, level))
            if bend is None:
                bend = passing[a, level] = len(graph.widths)
                graph.widths.append(_THIN)
                graph.heights.append(0.0)
                graph.layers[level].append(bend)
            chain.append(bend)
        chain.append(b)
        graph.chains[a, b] = chain
    for chain in graph.chains.values():
        for a, b in pairwise(chain):
            if b not in graph.below.setdefault(a, []):
                graph.below[a].append(b)
                graph.above.setdefault(b, []).append(a)
    return graph


def _order(graph: _Graph) -> None:
    """Sort every layer by the positions of its neighbours, downwards and then upwards."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = graph.above if down else graph.below
        levels = graph.layers if down else graph.layers[::-1]
        for before, nodes in pairwise(levels):
            at = {node: i for i, node in enumerate(before)}
            own = {node: i for i, node in enumerate(nodes)}
            nodes.sort(key=lambda n: _mean([at[m] for m in near.get(n, ()) if m in at], own[n]))


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _middles(graph: _Graph, width: float) -> dict[int, float]:
    """The horizontal centres of nodes: close to those of their neighbours, without overlap."""
    result: dict[int, float] = {}
    for nodes in graph.layers:
        x = 0.0
        for node in nodes:
            result[node] = x + graph.widths[node] / 2
            x += graph.widths[node] + _GAP
    for sweep in range(_SWEEPS):
        near = graph.above if sweep % 2 == 0 else graph.below
        for nodes in graph.layers if sweep % 2 == 0 else graph.layers[::-1]:
            required = [_mean([result[m] for m in near.get(n, ())], result[n]) for n in nodes]
            space = max(width, _required_width(graph, nodes))
            right = [
                space - x
                for x in _separate(graph, nodes[::-1], [space - x for x in required[::-1]])
            ]
            left = _separate(graph, nodes, required)
            pairs = zip(left, right[::-1], strict=True)
            middles = _separate(graph, nodes, [(a + b) / 2 for a, b in pairs])
            for node, x in zip(nodes, _pushed_back(graph, nodes, middles, space), strict=True):
                result[node] = x
    return _centre(graph, result, width)


def _separate(graph: _Graph, nodes: Sequence[int], required: Sequence[float]) -> list[float]:
    """Centres, in their order and without overlap, that are not to the left of the required ones,
    or of zero."""
    result, left = list[float](), 0.0
    for node, x in zip(nodes, required, strict=True):
        half = graph.widths[node] / 2
        result.append(max(x, left + half))
        left = result[-1] + half + _GAP
    return result


def _pushed_back(
    graph: _Graph, nodes: Sequence[int], middles: Sequence[float], right: float
) -> list[float]:
    """Centres moved to the left as far as they extend beyond `right`."""
    moved = _separate(graph, nodes[::-1], [right - x for x in middles[::-1]])
    return [right - x for x in moved[::-1]]


def _required_width(graph: _Graph, nodes: Sequence[int]) -> float:
    return sum(graph.widths[n] for n in nodes) + _GAP * (len(nodes) - 1)


def _centre(graph: _Graph, middles: dict[int, float], width: float) -> dict[int, float]:
    """All nodes moved to the centre of `width`, or to its start if they need more space."""
    left = min((x - graph.widths[n] / 2 for n, x in middles.items()), default=0.0)
    right = max((x + graph.widths[n] / 2 for n, x in middles.items()), default=0.0)
    shift = max((width - right + left) / 2, 0.0) - left
    return {node: x + shift for node, x in middles.items()}


def _tops(graph: _Graph) -> tuple[list[float], float]:
    """The positions at which layers begin, and the end of the last one."""
    result, y = list[float](), 0.0
    for nodes in graph.layers:
        result.append(y)
        y += _depth(graph, len(result) - 1) + _BETWEEN if nodes else 0.0
    return result, max(y - _BETWEEN, 0.0)


def _route(
    graph: _Graph, edge: Edge, middles: dict[int, float], tops: list[float], level: dict[int, int]
) -> list[Point]:
    """The points of an edge: from below its first node, past the layers between, to above its last
    node."""
    first, *bends, last = graph.chains[edge]
    top, high = tops[level[first]], graph.heights[first]
    points = [(middles[first], top + high)]
    deep = _depth(graph, level[first])
    if high < deep:
        points.append((middles[first], top + deep))
    for bend in bends:
        top = tops[level[bend]]
        points += [(middles[bend], top), (middles[bend], top + _depth(graph, level[bend]))]
    return [*points, (middles[last], tops[level[last]])]


def _depth(graph: _Graph, level: int) -> float:
    return max(graph.heights[n] for n in graph.layers[level])
