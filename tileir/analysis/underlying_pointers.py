"""The parameters that a pointer is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.effects import ACCESSES
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, element_of
from tileir.values import Operand, Value

Roots: TypeAlias = "frozenset[Value] | None"
"""The parameters that a pointer may point into, of which it points into one; None if it may point
anywhere."""

_NONE_YET: frozenset[Value] = frozenset()


@memoize
def underlying_pointers(function: Function) -> Mapping[Value, Value | None]:
    """The underlying parameter of every pointer and tile of pointers of a function.

    The value is None if there may be several, or if the pointer comes from memory or an integer.
    Loop-carried pointers are followed.
    """
    return {
        value: next(iter(roots)) if roots is not None and len(roots) == 1 else None
        for value, roots in possible_pointers(function).items()
    }


@memoize
def possible_pointers(function: Function) -> Mapping[Value, Roots]:
    """The parameters into which each pointer and tile of pointers of a function may point.

    Every element of a tile points into one of them. The value is None if a pointer comes from
    memory or an integer. `select` and loop-carried pointers are followed.
    """
    incoming = _incoming(function)
    values: dict[Value, Roots] = {
        p.value: frozenset({p.value}) for p in function.parameters if _points(p.value)
    }
    growing = True
    while growing:  # each iteration adds a parameter to a loop's pointers, or ends
        growing = False
        for label in cfg(function).order:
            block = function.blocks[label]
            for value in filter(_points, block.parameters):
                if value not in incoming:
                    continue
                roots = _union([_of(x, values) for x in incoming[value]])
                growing = growing or roots != values.get(value, _NONE_YET)
                values[value] = roots
            for op in block.ops:
                for result in filter(_points, op.results):
                    values[result] = _result(op, values)
    return {value: roots or None for value, roots in values.items()}


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


def _result(op: Op, values: Mapping[Value, Roots]) -> Roots:
    """The parameters that a result of `op` may point into."""
    through = [_of(x, values) for x in op.inputs if _points(x)]
    if op.effects & ACCESSES or not through:
        return None
    return _union(through)


def _union(each: list[Roots]) -> Roots:
    defined = [x for x in each if x is not None]
    return _NONE_YET.union(*defined) if len(defined) == len(each) else None


def _of(operand: Operand, values: Mapping[Value, Roots]) -> Roots:
    """The roots of `operand` as far as they are known yet."""
    return values.get(operand, _NONE_YET) if isinstance(operand, Value) else None


def _points(operand: Operand) -> bool:
    return isinstance(element_of(operand.type), Pointer)
