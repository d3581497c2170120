"""Loops whose iterations the instances of a kernel divide between them."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import arguments, defining_blocks, definitions
from tileir.ir import Function
from tileir.ops.memory import Store
from tileir.ops.program import GridQuery
from tileir.types import Tile
from tileir.values import Operand, Value


def is_persistent(function: Function) -> bool:
    """Whether instances count each other, or divide a loop between them that stores what each of
    its iterations computes. Loops of dots are left depending on the instance for other reasons,
    such as causal masks, and what they add up is stored after them."""
    return any(op.mnemonic == "num_programs" for op in function.ops) or any(
        isinstance(op, Store)
        for loop in _divided_loops(function) for label in loop.blocks
        for op in function.blocks[label].ops
    )  # fmt: skip


def divides_its_loops(function: Function) -> bool:
    """Whether a loop of `function` that carries tiles or floats is left depending on the instance:
    instances then divide the iterations between them, each has a partial result, and a launch has
    as many as the device has multiprocessors. More resident blocks would gain nothing. A loop that
    carries neither has no partial result, and its launches have as many instances as fit."""
    return any(
        isinstance(p.type, Tile) or getattr(p.type, "is_float", False)
        for loop in _divided_loops(function)
        for p in function.blocks[loop.header].parameters
    )


def _divided_loops(function: Function) -> Iterator[Loop]:
    """The loops that are left depending on the instance."""
    for loop in loops(function).by_header.values():
        conditions = [
            function.blocks[label].terminator.inputs[0]
            for label in loop.order
            if len(edges := function.blocks[label].successors) > 1
            and any(edge.label not in loop.order for edge in edges)
        ]
        if _depend_on_instance(conditions, function):
            yield loop


def _depend_on_instance(operands: list[Operand], function: Function) -> bool:
    """Whether arithmetic, through the values that loops carry, or a branch that chooses a value,
    leads to an id of the instance."""
    defined, passed, place = definitions(function), arguments(function), defining_blocks(function)
    pending, seen = list(operands), set[Operand]()
    while pending:
        value = pending.pop()
        if not isinstance(value, Value) or value in seen:
            continue
        seen.add(value)
        op = defined.get(value)
        if op is None:
            pending += passed.get(value, ())
            pending += _choosing(function, place[value]) if value in passed else ()
        elif isinstance(op, GridQuery):
            return True
        elif op.elementwise:
            pending += op.operands
    return False


def _choosing(function: Function, label: str) -> tuple[Operand, ...]:
    """The condition of the branch whose paths join in block `label`, which is no header."""
    above = dominance(function).parent.get(label)
    is_header = label in loops(function).by_header
    branch = None if above is None or is_header else function.blocks[above]
    return branch.terminator.inputs[:1] if branch and len(branch.successors) > 1 else ()
