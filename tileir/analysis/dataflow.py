"""Forward facts about values: one walk in reverse post-order, repeated until loops agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tileir.analysis.cfg import cfg
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
) -> dict[Value, F]:
    """Facts about every value that the entry reaches, from `known` ones about parameters.

    `transfer` gives the facts of an op's results from those of its operands. `merge` gives that
    of a block parameter from its last one (None at first) and those of the arguments seen so
    far; arguments of back edges are left out until they have facts, so loops start optimistic.
    `merge` must bring each parameter to rest after finitely many changes. All facts hold once
    nothing changes: each one then follows from the others.
    """
    graph = cfg(function)
    incoming = _incoming(function)
    looping = any(
        graph.number[p] >= graph.number[label] for label in graph.order
        for p in graph.predecessors[label]
    )  # fmt: skip

    def read(operand: Operand) -> F:
        return known[operand] if isinstance(operand, Value) else literal(operand)

    changed = True
    while changed:
        changed = False
        for label in graph.order:
            block = function.blocks[label]
            if block.parameters:
                changed |= _merge_parameters(block, incoming[label], known, literal, merge)
            for op in block.ops:
                if op.results:
                    known.update(zip(op.results, transfer(op, read), strict=True))
        changed &= looping
    return known


def _incoming(function: Function) -> dict[str, list[tuple[Operand, ...]]]:
    """Arguments per edge into each block with parameters, in reverse post-order of sources."""
    found: dict[str, list[tuple[Operand, ...]]] = {}
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            if edge.arguments:
                found.setdefault(edge.label, []).append(edge.arguments)
    return found


def _merge_parameters(
    block: Block,
    edges: Sequence[tuple[Operand, ...]],
    known: dict[Value, F],
    literal: Callable[[Constant | Undef], F],
    merge: Callable[[Value, F | None, Sequence[F]], F],
) -> bool:
    changed = False
    for index, parameter in enumerate(block.parameters):
        facts: list[F] = []
        for arguments in edges:
            argument = arguments[index]
            if not isinstance(argument, Value):
                facts.append(literal(argument))
            elif argument in known:
                facts.append(known[argument])
        old = known.get(parameter)
        new = merge(parameter, old, facts)
        if new != old:
            known[parameter] = new
            changed = True
    return changed
