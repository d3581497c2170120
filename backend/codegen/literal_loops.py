"""Evaluation of loops whose number of iterations follows from literals alone."""

from __future__ import annotations

from tileir.analysis.loops import Loop
from tileir.field import Successor
from tileir.ir import Function
from tileir.passes.fold import evaluate
from tileir.types import Tile
from tileir.values import Constant, Operand, Value


def literal_iterations(function: Function, loop: Loop, most: int) -> int:
    """The number of iterations of `loop` if it follows from literals and is at most `most`, else 0.
    An example is a binary search that halves a number until it is 1. Only scalars are evaluated."""
    if loop.preheader is None:
        return 0
    literals: dict[Value, Operand] = {}
    edge: Successor | None
    (edge,) = function.blocks[loop.preheader].terminator.successors
    count = 0
    for _ in range((most + 1) * len(loop.blocks)):
        _enter(function, edge, literals)
        edge = _edge_out(function, edge.label, literals)
        if edge is None:
            return 0
        if edge.label not in loop.blocks:
            return count if count <= most else 0
        count += edge.label == loop.header
    return 0


def _enter(function: Function, edge: Successor, literals: dict[Value, Operand]) -> None:
    """Record the literals that `edge` passes to block parameters."""
    passed = [literals.get(v, v) if isinstance(v, Value) else v for v in edge.arguments]
    for parameter, operand in zip(function.blocks[edge.label].parameters, passed, strict=True):
        literals.pop(parameter, None)
        if isinstance(operand, Constant):
            literals[parameter] = operand


def _edge_out(function: Function, label: str, literals: dict[Value, Operand]) -> Successor | None:
    """The edge by which block `label` is left; None if it does not follow from literals."""
    block = function.blocks[label]
    for op in block.ops:
        for result in op.results:
            literals.pop(result, None)
        scalars = not any(isinstance(v.type, Tile) for v in (*op.inputs, *op.results))
        if op.results and op.elementwise and scalars:
            results = evaluate(op.remap(literals))
            literals.update(zip(op.results, results or (), strict=bool(results)))
    edges = block.successors
    if len(edges) == 1:
        return edges[0]
    condition = block.terminator.inputs[0] if len(edges) == 2 else None
    condition = literals.get(condition, condition) if isinstance(condition, Value) else condition
    return edges[condition.bits == 0] if isinstance(condition, Constant) else None
