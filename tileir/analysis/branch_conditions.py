"""Bounds of integers that follow from conditions of branches and from assumptions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import Dominance, dominance
from tileir.analysis.predicates import predicates
from tileir.analysis.range_rules import Range
from tileir.ir import Block, Function
from tileir.values import Operand, Value

Bound: TypeAlias = tuple[str, Operand]
"""A relation (`slt`, `ule`, `eq`, ...) and what a value is in that relation to."""


_NEAREST = 32
"""The most guarding blocks around a place whose bounds are used, the innermost first."""


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Guarded:
    """The blocks that guard one value, in the order in which the dominator tree `enters` them,
    their bounds, and the index of the next one around each (-1 for none). The blocks around a place
    are looked up without a search over all blocks."""

    labels: Sequence[str]
    enters: Sequence[int]
    outer: Sequence[int]
    bounds: Mapping[str, Sequence[Bound]]

    @staticmethod
    def of(tree: Dominance, bounds: Mapping[str, Sequence[Bound]]) -> Guarded:
        """The index of `bounds`, which are given by block."""
        labels = sorted(bounds, key=tree.enter.__getitem__)
        outer: list[int] = []
        for index, label in enumerate(labels):
            above = index - 1
            while above >= 0 and not tree.dominates(labels[above], label):
                above = outer[above]
            outer.append(above)
        return Guarded(labels, [tree.enter[x] for x in labels], outer, bounds)

    def around(self, tree: Dominance, label: str) -> list[Bound]:
        """The bounds that hold in block `label`, the outermost first."""
        index = bisect_right(self.enters, tree.enter[label]) - 1
        while index >= 0 and not tree.dominates(self.labels[index], label):
            index = self.outer[index]
        result: list[str] = []
        while index >= 0 and len(result) < _NEAREST:
            result.append(self.labels[index])
            index = self.outer[index]
        return [bound for block in reversed(result) for bound in self.bounds[block]]


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Guards:
    """The comparisons known to hold in blocks and on edges.

    `blocks[value]` are the blocks in all of whose dominated blocks bounds on `value` hold;
    `edges[value]` the edges (source, target) that are taken only where they hold.
    """

    tree: Dominance | None
    blocks: Mapping[Value, Guarded]
    edges: Mapping[Value, Mapping[tuple[str, str], Sequence[Bound]]]

    @property
    def values(self) -> frozenset[Value]:
        """The values that any condition bounds."""
        return frozenset({*self.blocks, *self.edges})

    def others(self, operand: Value) -> list[Operand]:
        """The operands with which conditions compare `operand`."""
        guarded, edges = self.blocks.get(operand), self.edges.get(operand)
        bounds = [*(guarded.bounds.values() if guarded else ()), *(edges.values() if edges else ())]
        return [other for each in bounds for _, other in each]

    def narrow(
        self, operand: Operand, fact: Range, label: str, target: str | None,
        read: Callable[[Operand], Range],
    ) -> Range:  # fmt: skip
        """`fact` about `operand`, narrowed by what holds in block `label` (on its edge to
        `target`, if given). An empty intersection, in code that never runs, leaves it alone."""
        if not isinstance(operand, Value) or self.tree is None:
            return fact
        guarded, edges = self.blocks.get(operand), self.edges.get(operand)
        bounds = [] if guarded is None else guarded.around(self.tree, label)
        if edges is not None and target is not None:
            bounds = [*bounds, *edges.get((label, target), ())]
        for relation, other in bounds:
            fact = restrict_range(fact, relation, read(other))
        return fact


def restrict_range(fact: Range, relation: str, other: Range) -> Range:
    """The part of `fact` whose members are in `relation` to some member of `other`."""
    low, high = fact
    least, greatest = other
    if relation[0] == "u":
        if least < 0 or (low < 0 and relation in ("ugt", "uge")):
            return fact
        if relation in ("ult", "ule"):
            low = max(low, 0)
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


@memoize
def guards(function: Function) -> Guards:
    """The guards of `function`."""
    if function.is_declaration:
        return Guards(None, {}, {})
    graph, tree = cfg(function), dominance(function)
    blocks: dict[Value, dict[str, list[Bound]]] = {}
    edges: dict[Value, dict[tuple[str, str], list[Bound]]] = {}
    for label in graph.order:
        block = function.blocks[label]
        for value, bound in _bounds_by_assume(function, block):
            blocks.setdefault(value, {}).setdefault(label, []).append(bound)
        for target, value, bound in _bounds_by_branch(function, block):
            edges.setdefault(value, {}).setdefault((label, target), []).append(bound)
            if graph.predecessors[target] == (label,):
                blocks.setdefault(value, {}).setdefault(target, []).append(bound)
    guarded = {value: Guarded.of(tree, bounds) for value, bounds in blocks.items()}
    return Guards(tree, guarded, edges)


def _bounds_by_assume(function: Function, block: Block) -> list[tuple[Value, Bound]]:
    """Bounds by `assume`: a program that breaks one has no meaning from its start."""
    result: list[tuple[Value, Bound]] = []
    for op in block.ops:
        if op.mnemonic == "assume" and op.predicate is None:
            result.extend(_bounds(function, op.inputs[0], True))
    return result


def _bounds_by_branch(function: Function, block: Block) -> list[tuple[str, Value, Bound]]:
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
    bounds: list[tuple[Value, Bound]] = []
    for op, holds in predicates(function).comparisons(condition, truth):
        if op.mnemonic == "icmp" and _compares_integers(op):
            bounds.extend(_bounds_of(op, holds))
    return bounds


def _compares_integers(op: Any) -> bool:
    element: Any = getattr(op.lhs.type, "element", op.lhs.type)
    return element.is_integer


def _bounds_of(op: Any, holds: bool) -> list[tuple[Value, Bound]]:
    word = op.predicate_.value if holds else _NEGATED[op.predicate_.value]
    bounds: list[tuple[Value, Bound]] = []
    if isinstance(op.lhs, Value):
        bounds.append((op.lhs, (word, op.rhs)))
    if isinstance(op.rhs, Value):
        bounds.append((op.rhs, (_SWAPPED[word], op.lhs)))
    return bounds
