"""What differs between the blocks of a cluster that run one function."""

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
"""Effects of ops whose results come from elsewhere than their operands."""


@attrs.frozen(eq=False)
class RankDependent:
    """The values that may differ between blocks of a cluster, and the labels that some of them may
    come to where others do not."""

    values: frozenset[Value]
    labels: frozenset[str]


def ranked(function: Function, given: frozenset[Value] = frozenset()) -> RankDependent:
    """What differs in `function`, of whose parameters those `given` do."""
    values, labels = set(given), set[str]()
    known = -1
    while known != len(values) + len(labels):
        known = len(values) + len(labels)
        for label in cfg(function).order:
            block = function.blocks[label]
            for op in block.ops:
                if _differs(op, values):
                    values.update(op.results)
            for edge in block.successors:
                pairs = zip(function.blocks[edge.label].parameters, edge.arguments, strict=True)
                values.update(p for p, a in pairs if a in values)
            if len(block.successors) > 1 and any(v in values for v in block.terminator.inputs):
                for met in _until_met(function, label):
                    labels.add(met)
                    values.update(function.blocks[met].parameters)
                values.update(_met(function, label))
    return RankDependent(frozenset(values), frozenset(labels))


def _differs(op: Op, values: set[Value]) -> bool:
    from tileir.ops.cluster import ClusterRank

    if isinstance(op, ClusterRank) or bool(op.effects & _ELSEWHERE):
        return True
    return any(v in values for v in op.operands if isinstance(v, Value))


def _until_met(function: Function, label: str) -> Iterator[str]:
    """The blocks between a branch and where all its paths meet."""
    graph, end = cfg(function), post_dominance(function).parent[label]
    seen, left = set[str](), list(graph.successors[label])
    while left:
        at = left.pop()
        if at != end and at not in seen:
            seen.add(at)
            left += graph.successors[at]
            yield at


def _met(function: Function, label: str) -> tuple[Value, ...]:
    """What the block takes where all paths behind a branch meet."""
    end = post_dominance(function).parent[label]
    return () if end == EXIT else function.blocks[end].parameters
