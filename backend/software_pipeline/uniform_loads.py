"""Loads of tiles whose elements are all one element of memory: a scalar is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tileir.analysis.equal_elements import are_equal, are_equal_after_first
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate, Select
from tileir.ops.memory import Load
from tileir.ops.shape import MakeRange, Splat
from tileir.passes.dce import dce
from tileir.passes.scalarize import Scalarizer
from tileir.types import I32, Tile, element_of, shape_of
from tileir.values import Constant


def load_scalars(function: Function, blocks: Iterable[str]) -> Function:
    """`function` with a scalar load and a splat in place of each load in `blocks` all of whose
    elements have one address and one mask, such as the scale of a block of columns. The first
    element of a vector may have another address than the others.

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
    """A scalar load and a splat in place of `op`; two loads where the first element of a vector may
    differ from the others; () where more elements may."""
    shape = shape_of(op.results[0].type)
    if op.mask is not None and not are_equal(function, op.mask):
        return ()
    equal = are_equal(function, op.pointer)
    if not equal and (len(shape) != 1 or not are_equal_after_first(function, op.pointer)):
        return ()
    scalarizer = Scalarizer(definitions(function))
    first = (0,) * len(shape)
    pointers = [scalarizer.at(op.pointer, place) for place in (first, *([] if equal else [(1,)]))]
    mask = None if op.mask is None else scalarizer.at(op.mask, first)
    if None in pointers or (mask is None) != (op.mask is None):
        return ()
    element: Any = element_of(op.results[0].type)
    other = None if op.other is None else Constant(element, op.other.bits)  # type: ignore[union-attr]
    loads = [op.evolve(pointer=x, mask=mask, other=other, results=()) for x in pointers]
    kind, place = op.results[0].type, op.location
    splats = [Splat(load.results[0], kind, location=place) for load in loads]
    if equal:
        return (*scalarizer.ops, *loads, attrs.evolve(splats[0], results=op.results))
    lanes = MakeRange(Tile(I32, shape), location=place)
    is_first = ICmp(
        lanes.result, Constant(Tile(I32, shape), 0), predicate_=IntegerPredicate.EQ, location=place
    )
    both = Select(
        is_first.results[0], splats[0].result, splats[1].result, results=op.results, location=place
    )
    return (*scalarizer.ops, *loads, *splats, lanes, is_first, both)
