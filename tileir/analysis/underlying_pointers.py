"""The parameter that a pointer is computed from."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
from tileir.values import Operand, Value

UnderlyingPointers = Mapping[Value, "Value | None"]


@memoize
def underlying_pointers(function: Function) -> UnderlyingPointers:
    """The underlying parameter of every pointer and tile of pointers of a function.

    The value is None if there may be several, or if the pointer comes from memory or an integer.
    Loop-carried pointers are followed.
    """
    incoming = _incoming(function)
    broken: set[Value] = set()
    while True:
        result = _walk(function, incoming, broken)
        wrong = {
            value
            for value, arguments in incoming.items()
            if result[value] is not None and any(_of(a, result) != result[value] for a in arguments)
        }
        if not wrong:
            return result
        broken |= wrong


def _incoming(function: Function) -> dict[Value, list[Operand]]:
    """The arguments that the edges pass, by block parameter of a pointer type."""
    operands: dict[Value, list[Operand]] = {}
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            target = function.blocks[edge.label]
            for value, argument in zip(target.parameters, edge.arguments, strict=True):
                if _points(value):
                    operands.setdefault(value, []).append(argument)
    return operands


def _walk(
    function: Function, incoming: Mapping[Value, list[Operand]], broken: set[Value]
) -> dict[Value, Value | None]:
    """Roots by one walk, in which a block's parameter takes that of the first argument known."""
    values: dict[Value, Value | None] = {
        p.value: p.value for p in function.parameters if _points(p.value)
    }
    for label in cfg(function).order:
        block = function.blocks[label]
        for value in filter(_points, block.parameters):
            roots = [
                values[a] for a in incoming.get(value, ()) if isinstance(a, Value) and a in values
            ]
            values[value] = roots[0] if roots and value not in broken else None
        for op in block.ops:
            for result in filter(_points, op.results):
                values[result] = _result(op, values)
    return values


def _result(op: Op, values: Mapping[Value, Value | None]) -> Value | None:
    if op.effects & (Effects.READ | Effects.WRITE):
        return None
    through = {_of(v, values) for v in op.inputs if _points(v)}
    return next(iter(through)) if len(through) == 1 else None


def _of(operand: Operand, values: Mapping[Value, Value | None]) -> Value | None:
    return values.get(operand) if isinstance(operand, Value) else None


def _points(operand: Operand) -> bool:
    return isinstance(element_of(operand.type), Pointer)
