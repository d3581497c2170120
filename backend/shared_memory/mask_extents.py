"""The extents of an access along each dimension of its tile that a mask allows."""

from __future__ import annotations

from typing import Any

from tileir.analysis.affine_mod32 import AddressForms
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.layout import differs_in_units
from tileir.ops.shape import ExpandDims, Reshape
from tileir.types import shape_of
from tileir.values import Constant, Operand, Value

_BELOW = {"slt": 0, "ult": 0, "sle": 1, "ule": 1}
"""By predicate, how much the least number that is not accessed exceeds the right operand."""

_LARGEST = (1 << 31) - 1


def extents(
    mask: Operand, shape: tuple[int, ...], forms: AddressForms, function: Function
) -> tuple[int, ...]:  # fmt: skip
    """For each dimension of a tile of `shape`, how many of its first elements `mask` may select:
    it compares their number, or a multiple of it, with a constant."""
    counts, defined = list(shape), definitions(function)
    pending: list[tuple[Operand, tuple[int, ...]]] = [(mask, tuple(range(len(shape))))]
    while pending:
        value, dims = pending.pop()
        op: Any = defined.get(value) if isinstance(value, Value) else None
        if op is None:
            continue
        if op.mnemonic == "and":
            pending += [(x, dims) for x in op.inputs]
        elif op.mnemonic == "broadcast" and len(shape_of(op.inputs[0].type)) == len(dims):
            pending.append((op.inputs[0], dims))
        elif isinstance(op, (ExpandDims, Reshape)):
            old, new = shape_of(op.inputs[0].type), shape_of(value.type)
            if differs_in_units(old, new):
                long = iter([d for d, n in zip(dims, new, strict=True) if n > 1])
                pending.append((op.inputs[0], tuple([next(long) if n > 1 else -1 for n in old])))
        elif op.mnemonic == "icmp" and value is op.results[0] and isinstance(op.rhs, Constant):
            _bound(op, dims, counts, forms, function)
    return tuple(counts)


def _bound(
    op: Any, dims: tuple[int, ...], counts: list[int], forms: AddressForms, function: Function
) -> None:
    """Reduce the extent in `counts` of the dimension that `op` compares with a constant."""
    excess, form = _BELOW.get(op.predicate_.value), forms.of(op.lhs)
    if excess is None or form is None or form.terms:
        return
    shape = shape_of(op.lhs.type)
    moving = [d for d, n in enumerate(shape) if n > 1 and form.strides[d]]
    low, high = ranges(function).of(op.lhs)
    if len(moving) != 1 or low < 0 or high > _LARGEST:
        return
    start, step, dim = form.start, form.strides[moving[0]], dims[moving[0]]
    if start < 0 or step < 0 or start + step * (counts[dim] - 1) > _LARGEST:
        return  # the form is known modulo 2^32
    bound = op.rhs.bits if op.predicate_.value.startswith("u") else int(op.rhs.value)
    end = bound + excess
    counts[dim] = min(counts[dim], max(1, -(-(end - start) // step)))
