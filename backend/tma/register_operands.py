"""Loads from which operand A of a dot is computed in registers: by conversions, scaling and
unpacking, and with operations on rows that belong to one dot."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from tileir.analysis.loops import loops
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.dot import Dot
from tileir.types import Tile, shape_of
from tileir.values import Value

_MAX_BOX, _ALIGNMENT, _PATTERN = 256, 128, 8
"""The most elements of a box along a dimension (CUDA driver API, "Tensor Map"), the alignment in
bytes of copies to shared memory, and the rows after which a swizzle repeats."""


def feeds_only_operand_a(function: Function, load: Op) -> bool:
    """Whether all values computed from a load are operands A of dots of its block, in a loop."""
    value = load.results[0]
    place = defining_blocks(function)
    if not _can_be_copied(value) or place[value] not in loops(function).innermost:
        return False
    ends = list(other_uses(function, value))
    return bool(ends) and all(
        isinstance(op, Dot) and _is_operand_a_only(op, v) and place[op.result] == place[value]
        for op, v in ends
    )


def _can_be_copied(value: Value) -> bool:
    """Whether TMA can copy a tile: it consists of whole swizzle patterns of rows, or is an aligned
    block without swizzle."""
    kind = value.type
    if not isinstance(kind, Tile) or prod(kind.shape[:-1]) % _PATTERN == 0:
        return isinstance(kind, Tile)
    return kind.shape[-1] <= _MAX_BOX and kind.size * kind.element.bytes % _ALIGNMENT == 0


def is_row(load: Any) -> bool:
    """Whether a load is of one row."""
    return prod(shape_of(load.results[0].type)[:-1]) == 1


def _is_operand_a_only(dot: Dot, value: Value) -> bool:
    return dot.a is value and value not in (dot.b, dot.c)


def other_uses(function: Function, value: Value) -> Iterator[tuple[Any, Value]]:
    """The uses of `value`, and of the tiles computed from it, except those that compute tiles."""
    seen, waiting = {value}, [value]
    while waiting:
        current = waiting.pop()
        for op in uses(function).get(current, ()):
            if not _computes_tiles_only(op):
                yield op, current
                continue
            fresh = [v for v in op.results if v not in seen]
            seen.update(fresh)
            waiting += fresh


def _computes_tiles_only(op: Op) -> bool:
    """Whether `op` only computes tiles, and is not a dot."""
    return (
        op.effects is Effects.PURE
        and not isinstance(op, Dot)
        and bool(op.results)
        and all(isinstance(v.type, Tile) for v in op.results)
    )


def register_operand_inputs(function: Function, dot: Dot) -> list[DescriptorLoad]:
    """The descriptor loads from which operand A of `dot` is computed in the block of the dot."""
    inputs: dict[DescriptorLoad, None] = {}
    waiting, origin, place = [dot.a], definitions(function), defining_blocks(function)
    seen: set[Any] = set()
    while waiting:
        value = waiting.pop()
        op = origin.get(value) if isinstance(value, Value) else None
        if op is None or op in seen or place[op.results[0]] != place[dot.result]:
            continue
        seen.add(op)
        if isinstance(op, DescriptorLoad):
            if op.predicate is None and feeds_only_operand_a(function, op):
                inputs[op] = None
        elif _computes_tiles_only(op):
            waiting += op.inputs
    return list(inputs)
