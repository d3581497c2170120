"""Minima and maxima of extended numbers are computed before the extension."""

from __future__ import annotations

import attrs

from tileir.ir import Function
from tileir.op import Op
from tileir.ops.cast import FPExt
from tileir.ops.reduce import FLOAT_EXTREMES, Reduce
from tileir.passes.dce import dce
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import BF16, F16, element_of
from tileir.values import Operand


def narrow_extremes(function: Function) -> Function:
    """`function` in which minima and maxima along an axis of extended f16 or bf16 numbers are
    extended afterwards.

    before:
        %wide = fpext f32<256, 64> %x
        %most = reduce f32<64> %wide {combiner = fmaxnum}
    after:
        %narrow = reduce bf16<64> %x {combiner = fmaxnum}
        %most = fpext f32<64> %narrow

    An extension is exact and keeps the order, the signs of zeros and NaNs. A thread then has half
    as many registers, and compares two numbers by one instruction.
    """
    changed = rewrite(function, {Reduce.mnemonic: _narrow})
    return function if changed is function else dce(changed)


def _narrow(op: Op, walk: Walk) -> Answer:
    if not isinstance(op, Reduce) or op.combiner not in FLOAT_EXTREMES or op.predicate is not None:
        return op
    source = _before_extension(op.values[0], walk)
    if source is None:
        return op
    narrow = attrs.evolve(op, values=(source,), results=(), comments=())
    return narrow, FPExt(narrow.results[0], to=op.results[0].type, location=op.location)


def _before_extension(value: Operand, walk: Walk) -> Operand | None:
    """The f16 or bf16 numbers of which `value` is the extension; None if it is no such."""
    extension = walk.definition(value)
    if not isinstance(extension, FPExt) or extension.predicate is not None:
        return None
    return extension.value if element_of(extension.value.type) in (F16, BF16) else None
