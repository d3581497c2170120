"""Loads of tiles whose elements are all one element of memory: a scalar is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tileir.analysis.alignment import alignment
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.dce import dce
from tileir.passes.scalarize import Scalarizer
from tileir.types import Tile, element_of, shape_of
from tileir.values import Constant, Operand


def load_scalars(function: Function, blocks: Iterable[str]) -> Function:
    """`function` with a scalar load and a splat in place of each load in `blocks` all of whose
    elements have one address and one mask, such as the scale of a block of columns.

    A scalar is carried in one register where a pipeline loads it ahead. A tile would be copied to
    shared memory, once per element.
    """
    changed = dict(function.blocks)
    for label in blocks:
        block = function.blocks[label]
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, Load) and _may_be_uniform(op):
                ops += _as_scalar(function, op) or (op,)
            else:
                ops.append(op)
        if len(ops) != len(block.ops):
            changed[label] = attrs.evolve(block, ops=tuple(ops))
    if all(changed[label] is function.blocks[label] for label in changed):
        return function
    return dce(function.with_blocks(changed))


def _may_be_uniform(op: Load) -> bool:
    plain = not op.volatile and op.predicate is None and isinstance(op.results[0].type, Tile)
    return plain and (op.other is None or isinstance(op.other, Constant))


def _as_scalar(function: Function, op: Load) -> tuple[Op, ...]:
    """A scalar load and a splat in place of `op`; () where its elements may differ."""
    shape = shape_of(op.results[0].type)
    operands: list[Operand] = [op.pointer] if op.mask is None else [op.pointer, op.mask]
    facts = alignment(function)
    if any(
        equal < extent
        for operand in operands
        for equal, extent in zip(facts.of(operand).constancy, shape, strict=True)
    ):
        return ()
    scalarizer = Scalarizer(definitions(function))
    scalars = [scalarizer.at(operand, (0,) * len(shape)) for operand in operands]
    if any(scalar is None for scalar in scalars):
        return ()
    element: Any = element_of(op.results[0].type)
    other = None if op.other is None else Constant(element, op.other.bits)  # type: ignore[union-attr]
    pointer, mask = scalars[0], scalars[1] if len(scalars) > 1 else None
    load = op.evolve(pointer=pointer, mask=mask, other=other, results=())
    splat = Splat(load.results[0], op.results[0].type, results=op.results, location=op.location)
    return (*scalarizer.ops, load, splat)
