"""Reductions and scans of 64-bit integers that fit into 32 bits are computed in 32 bits."""

from __future__ import annotations

from functools import partial

import attrs

from tileir.analysis.ranges import Ranges, ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.cast import SExt, Trunc, ZExt
from tileir.ops.reduce import Combiner, Combining
from tileir.passes.dce import dce
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import I32, I64, Scalar, element_of, with_element
from tileir.values import Operand

_MODULAR = (Combiner.ADD, Combiner.MUL, Combiner.AND, Combiner.OR, Combiner.XOR)
"""Combiners of which the low bits of a result depend on the low bits of the operands alone."""
_ORDERED = (Combiner.SMIN, Combiner.SMAX)
_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1


def narrow_reductions(function: Function) -> Function:
    """`function` in which reductions and scans of 64-bit integers are computed in 32 bits where
    the ranges of their results allow it.

    before:
        %wide = zext i64<256> %flag
        %count = scan i64<256> %wide {combiner = add}
    after:
        %narrow = zext i32<256> %flag
        %total = scan i32<256> %narrow {combiner = add}
        %count = zext i64<256> %total

    A 64-bit integer takes two registers and two shuffles. Languages count flags in 64 bits.
    """
    if not any(map(_is_wide, function.ops)):
        return function
    rule = partial(_narrow, bounds=ranges(function))
    changed = rewrite(function, {"reduce": rule, "scan": rule})
    return function if changed is function else dce(changed)


def _is_wide(op: Op) -> bool:
    """Whether `op` combines 64-bit integers by a named combiner of which 32 bits may be enough."""
    return (
        isinstance(op, Combining)
        and op.combiner in (*_MODULAR, *_ORDERED)
        and element_of(op.values[0].type) is I64
        and op.predicate is None
    )


def _narrow(op: Op, walk: Walk, bounds: Ranges) -> Answer:
    if not isinstance(op, Combining) or not _is_wide(op):
        return op
    (result,), (source,) = op.results, op.values
    ordered = op.combiner in _ORDERED  # extremes of low halves are right if no element has more
    low, high = bounds.of(source if ordered else result)
    if low < _LEAST or high > _GREATEST:
        return op
    narrow = _in_32_bits(source, walk)
    total = attrs.evolve(op, values=(narrow[-1].results[0],), results=(), comments=())
    extension = ZExt if low >= 0 else SExt
    return (*narrow, total, extension(total.results[0], to=result.type, location=op.location))


def _in_32_bits(source: Operand, walk: Walk) -> list[Op]:
    """Ops of which the last one has the low 32 bits of `source`: not through 64 bits where they
    were extended."""
    kind = with_element(source.type, I32)
    extension = walk.definition(source)
    if isinstance(extension, (SExt, ZExt)) and extension.predicate is None:
        before = element_of(extension.value.type)
        if isinstance(before, Scalar) and before.bits < I32.bits:
            return [attrs.evolve(extension, to=kind, results=(), comments=())]
    return [Trunc(source, to=kind)]
