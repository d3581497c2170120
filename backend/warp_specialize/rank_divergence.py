"""Rank divergence: the values and control flow of a function that depend on the rank in a
cluster."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import EXIT, post_dominance
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Value

_ELSEWHERE = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE
"""Effects of ops whose results depend on more than their operands."""


@attrs.frozen(eq=False)
class RankDependent:
    """The values that may differ between the blocks of a cluster, and the labels that some blocks
    may reach while others do not."""

    values: frozenset[Value]
    labels: frozenset[str]


def find_rank_dependent(
    function: Function, parameters: frozenset[Value] = frozenset()
) -> RankDependent:
    """The rank-dependent values and labels of `function`, whose `parameters` are rank-dependent."""
    values, labels = set(parameters), set[str]()
    size = -1
    while size != len(values) + len(labels):
        size = len(values) + len(labels)
        for label in cfg(function).order:
            block = function.blocks[label]
            for op in block.ops:
                if _may_differ(op, values):
                    values.update(op.results)
            for edge in block.successors:
                pairs = zip(function.blocks[edge.label].parameters, edge.arguments, strict=True)
                values.update(p for p, a in pairs if a in values)
            if len(block.successors) > 1 and any(v in values for v in block.terminator.inputs):
                for reached in _blocks_until_join(function, label):
                    labels.add(reached)
                    values.update(function.blocks[reached].parameters)
                values.update(_join_parameters(function, label))
    return RankDependent(frozenset(values), frozenset(labels))


def _may_differ(op: Op, values: set[Value]) -> bool:
    from tileir.ops.cluster import ClusterRank

    if isinstance(op, ClusterRank) or bool(op.effects & _ELSEWHERE):
        return True
    return any(v in values for v in op.operands if isinstance(v, Value))


def _blocks_until_join(function: Function, label: str) -> Iterator[str]:
    """The blocks between a branch and its join, the immediate post-dominator."""
    graph, end = cfg(function), post_dominance(function).parent[label]
    seen, pending = set[str](), list(graph.successors[label])
    while pending:
        at = pending.pop()
        if at != end and at not in seen:
            seen.add(at)
            pending += graph.successors[at]
            yield at


def _join_parameters(function: Function, label: str) -> tuple[Value, ...]:
    """The parameters of the join of a branch."""
    end = post_dominance(function).parent[label]
    return () if end == EXIT else function.blocks[end].parameters
