"""The distance of a pointer from its parameter, to prove accesses disjoint."""

from __future__ import annotations

from typing import Any, TypeAlias

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.analysis.ranges import Ranges, ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
from tileir.values import Operand, Value

Reach: TypeAlias = tuple[int, int]
"""A range of bytes relative to the parameter: the first byte accessed, and one past the last."""


@memoize
def byte_ranges(function: Function) -> dict[Value, Reach]:
    """The reach of every pointer that is a parameter moved by integers; of no other."""
    bounds = ranges(function)
    reaches: dict[Value, Reach] = {}
    for parameter in function.parameters:
        kind = parameter.type
        if isinstance(kind, Pointer):
            reaches[parameter.value] = (0, kind.pointee.bytes)
    for label in cfg(function).order:
        for op in function.blocks[label].ops:
            reach = _range_of_pointer(op, reaches, bounds)
            if reach is not None:
                reaches[op.results[0]] = reach
    return reaches


def ranges_disjoint(a: Reach | None, b: Reach | None) -> bool:
    """Whether two accesses through one parameter certainly share no byte."""
    return a is not None and b is not None and (a[1] <= b[0] or b[1] <= a[0])


def _range_of_pointer(op: Any, ranges: dict[Value, Reach], bounds: Ranges) -> Reach | None:
    if op.moves_elements or op.is_identity:
        return _of(op.inputs[0], ranges)
    if op.mnemonic != "getelementptr":
        return None
    start = _of(op.pointer, ranges)
    if start is None:
        return None
    size = _size(op)
    low, high = bounds.of(op.index)
    return start[0] + low * size, start[1] + high * size


def _of(operand: Operand, ranges: dict[Value, Reach]) -> Reach | None:
    return ranges.get(operand) if isinstance(operand, Value) else None


def _size(op: Op) -> int:
    kind = element_of(op.results[0].type)
    assert isinstance(kind, Pointer)
    return kind.pointee.bytes
