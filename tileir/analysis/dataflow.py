"""Forward facts about values: one walk in reverse post-order, repeated until loops agree."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence, Set
from typing import TypeAlias, TypeVar

from tileir.analysis.cfg import Cfg, cfg
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.values import Constant, Operand, Undef, Value

F = TypeVar("F")

Merge: TypeAlias = Callable[[Value, F | None, Sequence[F]], F]


def forward_values(
    function: Function,
    *,
    facts: dict[Value, F],
    literal: Callable[[Constant | Undef], F],
    transfer: Callable[[Op, Callable[[Operand], F]], Sequence[F]],
    merge: Merge[F],
    refine: Callable[[Operand, F, str, str | None], F] | None = None,
    refined: Container[Value] = (),
    sharpen: Callable[[], Merge[F] | None] = lambda: None,
    most: int = 0,
    within: Set[Value] | None = None,
) -> dict[Value, F]:
    """Facts about every value that the entry reaches; `facts` are those of the function's
    parameters. `transfer` computes the facts of an op's results from those of its operands. `merge`
    computes the fact of a block parameter from its last fact (None at first) and those of the
    arguments. Arguments of back edges without facts are left out, so loops start optimistic.
    `merge` must change each parameter finitely often. The facts are true once they are a fixpoint.
    `refine` may sharpen the facts of the values `refined` where a block reads them, or passes them
    on its edge to a target. After the fixpoint, `sharpen` may return the merge function of at most
    `most` further walks over loops. Blocks before or after all loops are walked once. `within`
    restricts the values to compute facts for.

    A repeated walk over loops calls `transfer` only for ops with an input whose fact changed or is
    refined. The definitions of an op's inputs dominate it, so every walk visits them before the
    op."""
    before, repeated, after = _stretches(cfg(function))
    walk, repeat = _walks(function, facts, literal, transfer, refine, refined, within)
    walk(before, merge)
    if walk(repeated, merge):
        while repeat(repeated, merge):
            pass
    sharper = sharpen()
    if sharper is not None:
        merge = sharper
        for _ in range(most):
            if not repeat(repeated, merge):
                break
    walk(after, merge)
    return facts


Walk: TypeAlias = Callable[[Sequence[str], Merge[F]], bool]
"""Computes the facts of blocks, in order; returns whether the fact of a block parameter changed."""


def _walks(
    function: Function, facts: dict[Value, F], literal: Callable[[Constant | Undef], F],
    transfer: Callable[[Op, Callable[[Operand], F]], Sequence[F]],
    refine: Callable[[Operand, F, str, str | None], F] | None, refined: Container[Value],
    within: Set[Value] | None,
) -> tuple[Walk[F], Walk[F]]:  # fmt: skip
    """The first walk over blocks, and the further ones, which enter the facts that they find into
    `facts`."""
    incoming, defining = _incoming(function), _defining(function, within)
    where = ""

    def read(operand: Operand) -> F:
        if not isinstance(operand, Value):
            return literal(operand)
        if refine is not None and operand in refined:
            return refine(operand, facts[operand], where, None)
        return facts[operand]

    def fact_on_edge(argument: Operand, source: str, target: str) -> F:
        if not isinstance(argument, Value):
            return literal(argument)
        if refine is not None and argument in refined:
            return refine(argument, facts[argument], source, target)
        return facts[argument]

    def merge_into(block: Block, merge: Merge[F]) -> list[Value]:
        return _merge_parameters(block, incoming[block.label], facts, fact_on_edge, merge, within)

    def walk(labels: Sequence[str], merge: Merge[F]) -> bool:
        nonlocal where
        moved = False
        for where in labels:
            block = function.blocks[where]
            if block.parameters:
                moved = bool(merge_into(block, merge)) or moved
            for op in defining[where]:
                facts.update(zip(op.results, transfer(op, read), strict=True))
        return moved

    def repeat(labels: Sequence[str], merge: Merge[F]) -> bool:
        nonlocal where
        moved, changed = False, set[Value]()
        for where in labels:
            block = function.blocks[where]
            if block.parameters and (merged := merge_into(block, merge)):
                moved = True
                changed.update(merged)
            for op in defining[where]:
                for v in op.inputs:
                    if type(v) is Value and (v in changed or v in refined):
                        break
                else:
                    continue
                for result, new in zip(op.results, transfer(op, read), strict=True):
                    if new != facts[result]:
                        facts[result] = new
                        changed.add(result)
        return moved

    return walk, repeat


def _defining(function: Function, within: Set[Value] | None) -> dict[str, list[Op]]:
    """The ops of each block that define values to find facts about."""
    return {
        label: [
            op for op in function.blocks[label].ops
            if op.results and (within is None or not within.isdisjoint(op.results))
        ]
        for label in cfg(function).order
    }  # fmt: skip


def _stretches(graph: Cfg) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The order of a graph in three parts: the blocks before all loops, those from the first loop
    to the last one, and those after all loops. Facts flow backward only in loops."""
    number = graph.number
    edges = [(number[p], number[b]) for b in graph.order for p in graph.predecessors[b]]
    back = [(source, target) for source, target in edges if source >= target]
    first = min((target for _, target in back), default=len(graph.order))
    last = max((source for source, _ in back), default=len(graph.order) - 1)
    return graph.order[:first], graph.order[first : last + 1], graph.order[last + 1 :]


Edge: TypeAlias = tuple[str, tuple[Operand, ...]]


def _incoming(function: Function) -> dict[str, list[Edge]]:
    """Source and arguments per edge into each block with parameters."""
    edges: dict[str, list[Edge]] = {}
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            if edge.arguments:
                edges.setdefault(edge.label, []).append((label, edge.arguments))
    return edges


def _merge_parameters(
    block: Block,
    edges: Sequence[Edge],
    fact_of: dict[Value, F],
    fact_on_edge: Callable[[Operand, str, str], F],
    merge: Merge[F],
    within: Set[Value] | None,
) -> list[Value]:
    """Merge what edges pass to the parameters of `block`; the parameters whose facts changed."""
    changed: list[Value] = []
    for index, parameter in enumerate(block.parameters):
        if within is not None and parameter not in within:
            continue
        facts: list[F] = []
        for source, arguments in edges:
            argument = arguments[index]
            if not isinstance(argument, Value) or argument in fact_of:
                facts.append(fact_on_edge(argument, source, block.label))
        old = fact_of.get(parameter)
        new = merge(parameter, old, facts)
        if new != old or parameter not in fact_of:
            fact_of[parameter] = new
            changed.append(parameter)
    return changed
