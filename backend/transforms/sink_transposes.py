"""Sinking of transposes below casts to narrower elements. If a dot's operand is the transposed
result of another dot, threads then exchange the narrow elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.analysis.uses import uses
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.shape import Trans
from tileir.passes.dce import dce
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import Tile, with_element
from tileir.values import Value


def sink_transposes(function: Function) -> Function:
    """`function` in which a transpose follows its only reader, if that is a cast to elements of
    fewer bits."""
    readers = uses(function)
    changed = rewrite(function, lambda op, walk: _sink_transpose(op, walk, readers))
    return function if changed is function else dce(changed)


def _sink_transpose(op: Op, walk: Walk, readers: Mapping[Value, Sequence[Op]]) -> Answer:
    if not (op.elementwise and len(op.inputs) == len(op.results) == 1) or op.predicate is not None:
        return op
    value, result = op.inputs[0], op.results[0]
    transpose = walk.definition(value)
    if type(value) is not Value or not isinstance(transpose, Trans) or transpose.predicate:
        return op
    new, old = result.type, value.type
    if not (isinstance(new, Tile) and isinstance(old, Tile)) or len(readers[value]) > 1:
        return op
    source, element = transpose.value, new.element
    if element.bits >= old.element.bits:
        return op
    cast = op.with_fields(
        **op.map_fields(lambda _: source, lambda _: with_element(source.type, element)),
        results=(), comments=(),
    )  # fmt: skip
    return cast, Trans(cast.results[0], order=transpose.order, location=transpose.location)
