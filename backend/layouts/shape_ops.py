"""Shape ops that move nothing between threads, and the layouts of their operands and results.

Join, split and cat only rename registers where a digit of the register number selects the half of
the tile."""

from __future__ import annotations

from typing import Any, cast

from tileir.layout import AXES, Layout, Repeat, Vector, differs_in_units, layout
from tileir.op import Op
from tileir.types import Buffer, Tile, Type, shape_of


def join_layout(half: Layout) -> Layout:
    """The layout of two tiles of layout `half` joined along a new last dimension."""
    return _with_registers(half.expand_dims(half.rank), half.rank)


def split_layout(source: Layout) -> Layout | None:
    """The layout of each half of a tile split along its last dimension, of extent 2; None where the
    halves are owned by different threads."""
    last = source.rank - 1
    if source.extents[last] != 2 or not _by_registers(source, last, 1):
        return None
    return source.slice(last)


def cat_layout(half: Layout, axis: int) -> Layout:
    """The layout of two tiles of layout `half` concatenated along `axis`."""
    return _with_registers(half, axis)


def part_layout(source: Layout, axis: int, extent: int) -> Layout | None:
    """The layout of each half of a concatenation of two tiles of `extent` along `axis`; None where
    no register bit selects the half."""
    if source.extents[axis] != 2 * extent or not _by_registers(source, axis, extent):
        return None
    step = tuple(extent if d == axis else 0 for d in range(source.rank))
    register = tuple(v for v in source.register if v != step)
    if len(register) == len(source.register):
        return None
    inner_axes = (source.atom(axis_) for axis_ in AXES[1:])
    return layout(source.rank, register, *inner_axes, repeats=source.repeats)


def _with_registers(half: Layout, axis: int) -> Layout:
    atoms = (half.atom(a) for a in AXES)
    return layout(half.rank, *atoms, repeats=(*half.repeats, Repeat("register", 2, axis)))


def _by_registers(source: Layout, axis: int, step: int) -> bool:
    """Whether registers alone, by nothing else at once, move by `step` and more along `axis`."""
    for name in AXES[1:]:
        if any(v[axis] >= step for v in source.atom(name)):
            return False
        if any(d.step[axis] >= step for d in source.digits(name)):
            return False
    moving = [v for v in source.register if v[axis] >= step]
    return all(sum(v) == v[axis] == step for v in moving)


def result_layout(op: Op, layout: Layout) -> Layout | None:
    """The layout of the result of a join, split or concatenation whose first operand has layout
    `layout`, so that nothing moves."""
    attributes: Any = op
    if op.mnemonic == "join":
        return join_layout(layout)
    if op.mnemonic == "split":
        return split_layout(layout)
    low, high = attributes.low.type.shape, attributes.high.type.shape
    fits = low == high and layout.extents[attributes.axis] == low[attributes.axis]
    return cat_layout(layout, attributes.axis) if fits else None


def operand_layout_of(op: Op, result: Layout) -> Layout | None:
    """The layout that operands of such an op need when its result has layout `result`; None where
    the elements change hands."""
    attributes: Any = op
    if op.mnemonic == "join":
        return split_layout(result)
    if op.mnemonic == "split":
        return join_layout(result)
    low, high = attributes.low.type.shape, attributes.high.type.shape
    return part_layout(result, attributes.axis, low[attributes.axis]) if low == high else None


def layout_before(op: Op, result: Layout) -> Layout | None:
    """The layout that the operand of a reshape, or operands of such an op, need when the result has
    layout `result`; None where the elements change hands."""
    if op.mnemonic in HALVES:
        return operand_layout_of(op, result)
    return result.reshape(shape_of(op.results[0].type), shape_of(op.inputs[0].type))


def layout_after(op: Op, source: Layout) -> Layout | None:
    """The layout of the result of a reshape, or of such an op, whose operand has layout `source`;
    None where the elements change hands."""
    if op.mnemonic in HALVES:
        return result_layout(op, source)
    return source.reshape(shape_of(op.inputs[0].type), shape_of(op.results[0].type))


def stays(op: Op) -> bool:
    """Whether, by the types of such an op, every element stays in its thread."""
    result, first = op.results[0].type, op.inputs[0].type
    if not isinstance(result, Tile) or not isinstance(first, Tile):
        return False
    operand_layout = operand_layout_of(op, result.layout)
    operands = [v.type for v in op.inputs]
    if any(r.type is not result for r in op.results):
        return False
    return operand_layout is not None and all(
        isinstance(t, Tile) and t.layout == operand_layout for t in operands
    )


def origin(op: Op, half: int, v: Vector) -> tuple[int, Vector]:
    """The operand of such an op, and the coordinate in it, of the element at `v` of its result
    `half`."""
    if op.mnemonic == "join":
        return v[-1], v[:-1]
    if op.mnemonic == "split":
        return 0, (*v, half)
    axis: int = cast(Any, op).axis
    low = cast(Tile, op.inputs[0].type).shape[axis]
    part, offset = divmod(v[axis], low)
    return part, (*v[:axis], offset, *v[axis + 1 :])


HALVES = frozenset({"join", "split", "cat"})
"""The ops that this is about."""


# Ops whose elements are all elements of the operand -----------------------------------------

_CHEAP_SHAPES = frozenset({"make_range", "splat", "broadcast", "expand_dims", "trans"})


def is_layout_only(op: Op) -> bool:
    """Whether every element of the result stands where one of the operand does."""
    if op.mnemonic == "reshape":
        return differs_in_units(shape_of(op.inputs[0].type), shape_of(op.results[0].type))
    return op.mnemonic in _CHEAP_SHAPES


def dimension_of_operand(op: Op, dim: int) -> int | None:
    """The dimension of the operand of an op that `is_layout_only` which becomes dimension `dim` of
    the result; None where all elements along `dim` are one of the operand, or there is none."""
    if not any(isinstance(v.type, Tile) for v in op.inputs):
        return None
    attributes: Any = op
    source, result = shape_of(op.inputs[0].type), shape_of(op.results[0].type)
    if op.mnemonic == "broadcast":
        return dim if source[dim] == result[dim] else None
    if op.mnemonic == "expand_dims":
        return dim - 1 if dim > attributes.axis else dim
    if op.mnemonic == "trans":
        return attributes.order[dim]
    position = sum(n > 1 for n in result[:dim])
    return [d for d, n in enumerate(source) if n > 1][position]


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


def transposed_layout(op: Op, layout: Layout) -> Layout:
    """The layout of the result of a `trans` whose operand has `layout`."""
    return layout.transpose(_order(op, layout.rank))


def _order(op: Op, rank: int) -> tuple[int, ...]:
    order = cast(Any, op).order
    return tuple(reversed(range(rank))) if order is None else order


def tile_type_of(type: Type) -> Type:
    """The type itself; for a buffer, the type of its tiles."""
    return type.tile if isinstance(type, Buffer) else type
