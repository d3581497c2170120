"""What the conditions of branches, and assumptions, say about integers where they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.analysis.cache import cached
from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import Dominance, dominance
from tileir.analysis.predicates import predicates
from tileir.analysis.range_rules import Range
from tileir.ir import Block, Function
from tileir.values import Operand, Value

Bound: TypeAlias = tuple[str, Operand]
"""A relation (`slt`, `ule`, `eq`, ...) and what a value is in that relation to."""


@attrs.frozen(slots=True, weakref_slot=False)
class Guards:
    """The comparisons known to hold in blocks and on edges.

    `blocks[value]` lists blocks, in all of whose dominated blocks a bound on `value` holds;
    `edges[value]` lists edges (source, target) that are taken only where it holds.
    """

    tree: Dominance | None
    blocks: Mapping[Value, Sequence[tuple[str, Bound]]]
    edges: Mapping[Value, Sequence[tuple[tuple[str, str], Bound]]]

    def concerns(self, operand: Operand) -> bool:
        """Whether any condition bounds `operand`."""
        return isinstance(operand, Value) and (operand in self.blocks or operand in self.edges)

    def narrow(
        self, operand: Operand, fact: Range, label: str, target: str | None,
        read: Callable[[Operand], Range],
    ) -> Range:  # fmt: skip
        """`fact` about `operand`, narrowed by what holds in block `label` (on its edge to
        `target`, if given). An empty intersection, in code that never runs, leaves it alone."""
        if not isinstance(operand, Value) or self.tree is None:
            return fact
        for block, (relation, other) in self.blocks.get(operand, ()):
            if self.tree.dominates(block, label):
                fact = bounded(fact, relation, read(other))
        for edge, (relation, other) in self.edges.get(operand, ()):
            if edge == (label, target):
                fact = bounded(fact, relation, read(other))
        return fact


def bounded(fact: Range, relation: str, other: Range) -> Range:
    """The part of `fact` whose members are in `relation` to some member of `other`."""
    low, high = fact
    least, greatest = other
    if relation[0] == "u":
        if least < 0 or (low < 0 and relation in ("ugt", "uge")):
            return fact
        if relation in ("ult", "ule"):
            low, least = max(low, 0), 0
        relation = "s" + relation[1:]
    if relation == "eq":
        low, high = max(low, least), min(high, greatest)
    elif relation == "ne" and least == greatest:
        low, high = low + (low == least), high - (high == least)
    elif relation in ("slt", "sle"):
        high = min(high, greatest - (relation == "slt"))
    elif relation in ("sgt", "sge"):
        low = max(low, least + (relation == "sgt"))
    return (low, high) if low <= high else fact


@cached
def guards(function: Function) -> Guards:
    """The guards of `function`."""
    if function.is_declaration:
        return Guards(None, {}, {})
    graph, tree = cfg(function), dominance(function)
    blocks: dict[Value, list[tuple[str, Bound]]] = {}
    edges: dict[Value, list[tuple[tuple[str, str], Bound]]] = {}
    for label in graph.order:
        block = function.blocks[label]
        for value, bound in _assumed(function, block):
            blocks.setdefault(value, []).append((label, bound))
        for target, value, bound in _branched(function, block):
            edges.setdefault(value, []).append(((label, target), bound))
            if graph.predecessors[target] == (label,):
                blocks.setdefault(value, []).append((target, bound))
    return Guards(tree, blocks, edges)


def _assumed(function: Function, block: Block) -> list[tuple[Value, Bound]]:
    """Bounds by `assume`: a program that breaks one has no meaning from its start."""
    found: list[tuple[Value, Bound]] = []
    for op in block.ops:
        if op.mnemonic == "assume" and op.predicate is None:
            found.extend(_bounds(function, op.inputs[0], True))
    return found


def _branched(function: Function, block: Block) -> list[tuple[str, Value, Bound]]:
    """Bounds by the condition of the block's branch, per target."""
    edges = block.successors
    if len(edges) != 2 or edges[0].label == edges[1].label:
        return []
    condition = block.terminator.inputs[0]
    return [
        (edge.label, value, bound)
        for edge, truth in zip(edges, (True, False), strict=True)
        for value, bound in _bounds(function, condition, truth)
    ]


_NEGATED = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
    "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt",
}  # fmt: skip
_SWAPPED = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle",
    "ult": "ugt", "ugt": "ult", "ule": "uge", "uge": "ule",
}  # fmt: skip


def _bounds(function: Function, condition: Operand, truth: bool) -> list[tuple[Value, Bound]]:
    found: list[tuple[Value, Bound]] = []
    for op, holds in predicates(function).comparisons(condition, truth):
        if op.mnemonic == "icmp" and _compares_integers(op):
            found.extend(_bounds_of(op, holds))
    return found


def _compares_integers(op: Any) -> bool:
    element: Any = getattr(op.lhs.type, "element", op.lhs.type)
    return element.is_integer


def _bounds_of(op: Any, holds: bool) -> list[tuple[Value, Bound]]:
    word = op.predicate_.value if holds else _NEGATED[op.predicate_.value]
    found: list[tuple[Value, Bound]] = []
    if isinstance(op.lhs, Value):
        found.append((op.lhs, (word, op.rhs)))
    if isinstance(op.rhs, Value):
        found.append((op.rhs, (_SWAPPED[word], op.lhs)))
    return found
