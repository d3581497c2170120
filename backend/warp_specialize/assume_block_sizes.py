"""Assumptions, which the launcher guards, that sizes of blocks of scales are multiples of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs

from tileir.analysis.alignment import alignment
from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.software_pipeline.version_uniform_loads import quotients_of
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate, Mul
from tileir.ops.division import Division, SDiv, SRem
from tileir.ops.dot import Dot
from tileir.ops.hints import Assume
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.types import shape_of
from tileir.values import Operand, Value, constant


def assume_block_sizes(function: Function) -> Function:
    """Assume that block sizes are multiples of tile extents.

    The pass applies to a vector that a loop with dots loads at a quotient by a parameter, such as
    the scales of blocks of columns. The entry block assumes that the parameter is a multiple of the
    tile's extent, and the division is by that multiple. All lanes of a tile then have one address.
    """
    function_parameters = {p.value for p in function.parameters}
    changed: dict[Op, list[Op]] = {}
    first: dict[tuple[Value, int], list[Op]] = {}
    for division in _divisions(function):
        source = definitions(function).get(cast(Any, division.rhs))
        (extent,) = shape_of(division.result.type)
        if isinstance(source, Splat) and source.value in function_parameters:
            size = source.value
            if _begins_at_multiple(function, division.lhs, extent):
                ops = first.setdefault((size, extent), _multiple(size, extent))
                splat = Splat(ops[1].results[0], division.rhs.type)
                changed[division] = [splat, attrs.evolve(division, rhs=splat.result)]
    if not changed:
        return function
    blocks = {
        label: attrs.evolve(block, ops=tuple(x for op in block.ops for x in changed.get(op, (op,))))
        for label, block in function.blocks.items()
    }
    entry, label = [op for ops in first.values() for op in ops], function.entry.label
    blocks[label] = attrs.evolve(blocks[label], ops=(*entry, *blocks[label].ops))
    return function.with_blocks(blocks)


def _divisions(function: Function) -> Iterator[Division]:
    """Yield the divisions whose quotients decide whether the lanes of a load in a loop with dots
    have the same address."""
    result: dict[Op, None] = {}
    for loop in loops(function).by_header.values():
        ops = [op for label in loop.order for op in function.blocks[label].ops]
        if any(isinstance(op, Dot) for op in ops):
            for op in ops:
                if isinstance(op, Load) and len(shape_of(op.results[0].type)) == 1:
                    for value in quotients_of(function, loop, op.pointer):
                        result[definitions(function)[value]] = None
    return (cast(Division, op) for op in result)


def _begins_at_multiple(function: Function, operand: Operand, extent: int) -> bool:
    """Whether a vector is a range that begins at a multiple of its extent, possibly modulo a
    number."""
    source = definitions(function).get(operand) if isinstance(operand, Value) else None
    if isinstance(source, SRem):
        return _begins_at_multiple(function, source.lhs, extent)
    facts = alignment(function).of(operand)
    return facts.contiguity[0] >= extent and facts.multiple[0] % extent == 0


def _multiple(size: Value, extent: int) -> list[Op]:
    """The ops that compute the multiple of `extent` that `size` is assumed to be. It is the result
    of the second op."""
    quotient = SDiv(size, constant(size.type, extent))
    multiple = Mul(quotient.result, constant(size.type, extent))
    same = ICmp(multiple.result, size, predicate_=IntegerPredicate.EQ)
    return [quotient, multiple, same, Assume(same.results[0])]
