"""Replacement of loads of tiles whose elements all have one address by scalar loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    loads = [op for label in blocks for op in function.blocks[label].ops]
    scalars = [_as_scalar(function, op) for op in loads if isinstance(op, Load)]
    replaced = {x.load: x.ops for x in scalars if x is not None}
    if not replaced:
        return function
    after: dict[Op, list[Op]] = {}
    for scalar in scalars:
        for op, origin in scalar.address.items() if scalar is not None else ():
            after.setdefault(origin, []).append(op)
    changed = {
        label: attrs.evolve(
            block,
            ops=tuple(
                x for op in block.ops for x in (*replaced.get(op, (op,)), *after.get(op, ()))
            ),
        )
        for label, block in function.blocks.items()
    }
    return dce(function.with_blocks(changed))


@attrs.frozen
class _ScalarLoad:
    """The ops in place of a load of a tile, and the scalar ops that compute its address, each with
    the op of a tile that it follows."""

    load: Op
    ops: tuple[Op, ...]
    address: Mapping[Op, Op]


def _may_be_uniform(op: Load) -> bool:
    plain = not op.volatile and op.predicate is None and isinstance(op.results[0].type, Tile)
    return plain and (op.other is None or isinstance(op.other, Constant))


def _as_scalar(function: Function, op: Load) -> _ScalarLoad | None:
    """A scalar load and a splat in place of `op`; two loads where the first element of a vector may
    differ from the others; None where more elements may."""
    if not _may_be_uniform(op):
        return None
    shape = shape_of(op.results[0].type)
    if op.mask is not None and not are_equal(function, op.mask):
        return None
    equal = are_equal(function, op.pointer)
    if not equal and (len(shape) != 1 or not are_equal_after_first(function, op.pointer)):
        return None
    scalarizer = Scalarizer(definitions(function), traps=True)
    first = (0,) * len(shape)
    pointers = [scalarizer.at(op.pointer, place) for place in (first, *([] if equal else [(1,)]))]
    mask = None if op.mask is None else scalarizer.at(op.mask, first)
    if None in pointers or (mask is None) != (op.mask is None):
        return None
    element: Any = element_of(op.results[0].type)
    other = None if op.other is None else Constant(element, op.other.bits)  # type: ignore[union-attr]
    loads = [op.evolve(pointer=x, mask=mask, other=other, results=()) for x in pointers]
    kind, place = op.results[0].type, op.location
    splats = [Splat(load.results[0], kind, location=place) for load in loads]
    if equal:
        ops = (*loads, attrs.evolve(splats[0], results=op.results))
        return _ScalarLoad(op, ops, scalarizer.origins)
    lanes = MakeRange(Tile(I32, shape), location=place)
    is_first = ICmp(
        lanes.result, Constant(Tile(I32, shape), 0), predicate_=IntegerPredicate.EQ, location=place
    )
    both = Select(
        is_first.results[0], splats[0].result, splats[1].result, results=op.results, location=place
    )
    return _ScalarLoad(op, (*loads, *splats, lanes, is_first, both), scalarizer.origins)
