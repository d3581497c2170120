"""Loads that become first factors of dots by ops on registers: conversions, scales, unpacking,
rows that go with every row of a product."""

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

_WIDEST, _LINE, _PATTERN = 256, 128, 8
"""Elements of a box along a dimension (CUDA driver API, "Tensor Map"), bytes that copies to shared
memory begin at multiples of, and rows after which a swizzle repeats."""


def feeds_only_operand_a(function: Function, load: Op) -> bool:
    """Whether all that comes of a load are first factors of dots, in the same round of a loop."""
    value = load.results[0]
    place = defining_blocks(function)
    if not _is_copied(value) or place[value] not in loops(function).innermost:
        return False
    ends = list(other_uses(function, value))
    return bool(ends) and all(
        isinstance(op, Dot) and _is_first(op, v) and place[op.result] == place[value]
        for op, v in ends
    )


def _is_copied(value: Value) -> bool:
    """Whether a copy brings a tile: whole patterns of rows, or what makes a slot without one."""
    kind = value.type
    if not isinstance(kind, Tile) or prod(kind.shape[:-1]) % _PATTERN == 0:
        return isinstance(kind, Tile)
    return kind.shape[-1] <= _WIDEST and kind.size * kind.element.bytes % _LINE == 0


def is_row(load: Any) -> bool:
    """Whether a load is of one row."""
    return prod(shape_of(load.results[0].type)[:-1]) == 1


def _is_first(dot: Dot, value: Value) -> bool:
    return dot.a is value and value not in (dot.b, dot.c)


def other_uses(function: Function, value: Value) -> Iterator[tuple[Any, Value]]:
    """The ops where `value`, or what registers make of it, is used for anything else."""
    seen, waiting = {value}, [value]
    while waiting:
        current = waiting.pop()
        for op in uses(function).get(current, ()):
            if not _in_registers(op):
                yield op, current
                continue
            made = [v for v in op.results if v not in seen]
            seen.update(made)
            waiting += made


def _in_registers(op: Op) -> bool:
    """Whether `op` makes tiles of tiles, and nothing else."""
    return (
        op.effects is Effects.PURE
        and not isinstance(op, Dot)
        and bool(op.results)
        and all(isinstance(v.type, Tile) for v in op.results)
    )


def register_operand_inputs(function: Function, dot: Dot) -> list[DescriptorLoad]:
    """The blocks of tensors that the first factor of `dot` is made of in its own block."""
    found: dict[DescriptorLoad, None] = {}
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
                found[op] = None
        elif _in_registers(op):
            waiting += op.inputs
    return list(found)
