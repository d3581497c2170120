"""Shape ops that move nothing between threads, and the layout of their operands."""

from __future__ import annotations

from typing import Any, cast

from tileir.layout import Layout, differs_in_units
from tileir.op import Op
from tileir.types import Tile, shape_of

_CHEAP_SHAPES = frozenset({"make_range", "splat", "broadcast", "expand_dims", "trans"})


def is_layout_only(op: Op) -> bool:
    """Whether every element of the result stands where one of the operand does."""
    if op.mnemonic == "reshape":
        return differs_in_units(shape_of(op.inputs[0].type), shape_of(op.results[0].type))
    return op.mnemonic in _CHEAP_SHAPES


def operand_layout(op: Op, operand: Tile, layout: Layout) -> Layout:
    """The layout an operand of such an op has when its result has `layout`."""
    if op.mnemonic == "expand_dims":
        return layout.slice(cast(Any, op).axis)
    if op.mnemonic == "reshape":
        return layout.with_units(shape_of(op.results[0].type), operand.shape)
    if op.mnemonic == "trans":
        order = _order(op, len(operand.shape))
        return layout.transpose(tuple(order.index(d) for d in range(len(order))))
    result = shape_of(op.results[0].type)
    for dim, (n, m) in enumerate(zip(operand.shape, result, strict=True)):
        if n != m:
            layout = layout.collapse(dim)
    return layout


def _order(op: Op, rank: int) -> tuple[int, ...]:
    order = cast(Any, op).order
    return tuple(reversed(range(rank))) if order is None else order
