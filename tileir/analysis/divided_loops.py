"""Loops whose iterations the instances of a kernel divide between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import arguments, defining_blocks, definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Store
from tileir.ops.program import GridQuery, NumPrograms
from tileir.types import I32, I64, Tile
from tileir.values import Operand, Value


def is_persistent(function: Function) -> bool:
    """Whether a loop advances by the number of instances, or instances divide a loop between them
    that stores what each of its iterations computes. Loops of dots are left depending on the
    instance for other reasons, such as causal masks, and what they add up is stored after them.
    Programs also read the number of instances to permute their tiles."""
    every = loops(function).by_header.values()
    return any(_advances_by_count(function, loop) for loop in every) or any(
        isinstance(op, Store)
        for loop in _divided_loops(function) for label in loop.blocks
        for op in function.blocks[label].ops
    )  # fmt: skip


def _advances_by_count(function: Function, loop: Loop) -> bool:
    """Whether a number that `loop` passes to its next iteration is computed of the number of
    instances."""
    parameters = function.blocks[loop.header].parameters
    following = [
        argument
        for label in loop.blocks
        for edge in function.blocks[label].successors
        if edge.label == loop.header
        for parameter, argument in zip(parameters, edge.arguments, strict=True)
        if parameter.type in (I32, I64)
    ]
    return _depend_on(following, function, NumPrograms, parameters)


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
        if _depend_on(conditions, function, GridQuery):
            yield loop


def _depend_on(
    operands: list[Operand], function: Function, kind: type[Op], until: Collection[Value] = ()
) -> bool:
    """Whether arithmetic, through the values that loops carry but those of `until`, or a branch
    that chooses a value, leads to an op of this kind."""
    defined, passed, place = definitions(function), arguments(function), defining_blocks(function)
    pending, seen = list(operands), set[Operand](until)
    while pending:
        value = pending.pop()
        if not isinstance(value, Value) or value in seen:
            continue
        seen.add(value)
        op = defined.get(value)
        if op is None:
            pending += passed.get(value, ())
            pending += _choosing(function, place[value]) if value in passed else ()
        elif isinstance(op, kind):
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
