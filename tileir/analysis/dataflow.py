"""Forward facts about values: one walk in reverse post-order, repeated until loops agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from tileir.analysis.cfg import Cfg, cfg
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.values import Constant, Operand, Undef, Value

F = TypeVar("F")


def forward(
    function: Function,
    *,
    known: dict[Value, F],
    literal: Callable[[Constant | Undef], F],
    transfer: Callable[[Op, Callable[[Operand], F]], Sequence[F]],
    merge: Callable[[Value, F | None, Sequence[F]], F],
    refine: Callable[[Operand, F, str, str | None], F] | None = None,
    most: int | None = None,
) -> dict[Value, F]:
    """Facts about every value that the entry reaches, from `known` ones about parameters.

    `transfer` gives the facts of an op's results from those of its operands. `merge` gives that
    of a block parameter from its last one (None at first) and those of the arguments seen so
    far; arguments of back edges are left out until they have facts, so loops start optimistic.
    `merge` must bring each parameter to rest after finitely many changes. All facts hold once
    nothing changes: each one then follows from the others. `refine` may sharpen what is read in
    a block, or passed on its edge to a target. At most `most` walks are made, if given.
    """
    graph = cfg(function)
    incoming = _incoming(function)
    walks = most or (1 << 30 if is_cyclic(graph) else 1)
    where = ""

    def fact(operand: Operand) -> F:
        return known[operand] if isinstance(operand, Value) else literal(operand)

    def read(operand: Operand) -> F:
        return fact(operand) if refine is None else refine(operand, fact(operand), where, None)

    def passed(argument: Operand, source: str, target: str) -> F:
        return (
            fact(argument) if refine is None else refine(argument, fact(argument), source, target)
        )

    changed = True
    while changed and walks > 0:
        changed, walks = False, walks - 1
        for where in graph.order:
            block = function.blocks[where]
            if block.parameters:
                changed |= _merge_parameters(block, incoming[where], known, passed, merge)
            for op in block.ops:
                if op.results:
                    known.update(zip(op.results, transfer(op, read), strict=True))
    return known


def is_cyclic(graph: Cfg) -> bool:
    """Whether any edge leads back in reverse post-order."""
    number = graph.number
    return any(number[p] >= number[b] for b in graph.order for p in graph.predecessors[b])


Edge: TypeAlias = tuple[str, tuple[Operand, ...]]


def _incoming(function: Function) -> dict[str, list[Edge]]:
    """Source and arguments per edge into each block with parameters."""
    found: dict[str, list[Edge]] = {}
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            if edge.arguments:
                found.setdefault(edge.label, []).append((label, edge.arguments))
    return found


def _merge_parameters(
    block: Block,
    edges: Sequence[Edge],
    known: dict[Value, F],
    passed: Callable[[Operand, str, str], F],
    merge: Callable[[Value, F | None, Sequence[F]], F],
) -> bool:
    changed = False
    for index, parameter in enumerate(block.parameters):
        facts: list[F] = []
        for source, arguments in edges:
            argument = arguments[index]
            if not isinstance(argument, Value) or argument in known:
                facts.append(passed(argument, source, block.label))
        old = known.get(parameter)
        new = merge(parameter, old, facts)
        if new != old or parameter not in known:
            known[parameter] = new
            changed = True
    return changed
