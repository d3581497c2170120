"""Results written by descriptors, by way of shared memory and tensor maps."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

import attrs

from tileir.backend.layouts.warpgroups import ROWS
from tileir.backend.roles.rings import Staged, as_rows
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorStore, MakeDescriptor
from tileir.ops.gpu import Barrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, TensorMap, TmaStore, TmaWait
from tileir.ops.shape import Reshape
from tileir.types import I32, AddressSpace, Descriptor, Tile, element_of, pointer, shape_of
from tileir.values import Operand, constant


@attrs.frozen(eq=False)
class Outlet:
    """Where a store passes through shared memory: a buffer of slots that each hold all rows of so
    many columns, and the descriptor of blocks of that size, or of parts of it that follow each
    other along `axis`: warpgroups copy the rows they multiplied."""

    staged: Staged
    buffer: SharedAlloc
    map: TensorMap
    axis: int

    @staticmethod
    def of(staged: Staged, maker: MakeDescriptor) -> Outlet:
        """The outlet of a store whose descriptor `maker` makes: slots of a panel, two so that one
        is written while the other is read."""
        kind = cast(Descriptor, maker.to).block
        extents, axis = _part(kind.shape[:-1])
        block = Tile(kind.element, (*extents, staged.panel))
        buffer = SharedAlloc(
            pointer(staged.element, AddressSpace.SHARED),
            shape=(slots_of(staged), staged.rows, staged.panel), swizzle=staged.swizzle,
            panel=staged.panel, location=staged.op.location,
        )  # fmt: skip
        made = TensorMap(
            maker.base, Descriptor(block), maker.dimensions, swizzle=staged.swizzle,
            location=maker.location,
        )  # fmt: skip
        return Outlet(staged, buffer, made, axis)


def _part(extents: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Extents of parts of as many rows as a warpgroup multiplies at a time, and the dimension along
    which they follow each other; the whole where there are no such parts."""
    rows = prod(extents)
    if rows % ROWS:
        return extents, 0
    for axis, extent in enumerate(extents):
        others = rows // extent
        if ROWS % others == 0 and extent % (ROWS // others) == 0 and set(extents[:axis]) <= {1}:
            return (*extents[:axis], ROWS // others, *extents[axis + 1 :]), axis
    return extents, 0


def slots_of(staged: Staged) -> int:
    """Slots of the buffer of a store."""
    return min(2, staged.columns // staged.panel)


def outlet_bytes(staged: Staged) -> int:
    """Bytes of the buffer of a store."""
    return slots_of(staged) * staged.rows * (16 << staged.swizzle)


def storing(function: Function, outlets: Mapping[Op, Outlet]) -> Function:
    """`function` with the stores that have an outlet written there first, panel by panel, and
    copied from there. A slot is written again when what was copied from it has been read."""
    if not outlets:
        return function
    blocks = {label: _block(block, outlets) for label, block in function.blocks.items()}
    return function.with_blocks(blocks)


def _block(block: Block, outlets: Mapping[Op, Outlet]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, DescriptorStore) and op in outlets:
            ops += _stored(op, outlets[op])
        elif isinstance(op, Return):
            ops += [TmaWait(), op]
        else:
            ops.append(op)
    return attrs.evolve(block, ops=tuple(ops))


def _stored(op: DescriptorStore, outlet: Outlet) -> list[Op]:
    """As many panels at a time as the buffer has slots; one, where there are more panels, so that
    one is written while the other is read."""
    ops: list[Op] = []
    value, width = _flat(op.value, ops), outlet.staged.panel
    panels, count = outlet.staged.columns // width, outlet.buffer.shape[0]
    together = count if panels == count else 1
    again = panels % count != 0  # the last slot is the next round's first
    for first in range(0, panels, together):
        ops += [TmaWait(pending=count - together if first or not again else 0), Barrier()]
        ops += [
            LocalStore(
                value, outlet.buffer.result, constant(I32, panel % count),
                columns=(panel * width, width), location=op.location,
            )
            for panel in range(first, first + together)
        ]  # fmt: skip
        ops += [AsyncFence(), Barrier()]
        for panel in range(first, first + together):
            ops += _copied(op, outlet, panel)
    return ops


def _copied(op: DescriptorStore, outlet: Outlet, panel: int) -> list[Op]:
    """A panel copied from its slot."""
    last, slot = op.indices[-1], constant(I32, panel % outlet.buffer.shape[0])
    moved = [Add(last, constant(I32, panel * outlet.staged.panel))] if panel else []
    indices = (*op.indices[:-1], moved[0].result if moved else last)
    copy = TmaStore(
        outlet.map.result, outlet.buffer.result, slot, indices, axis=outlet.axis,
        location=op.location,
    )  # fmt: skip
    return [*moved, copy]


def _flat(value: Operand, ops: list[Op]) -> Operand:
    """A tile as rows."""
    shape = as_rows(shape_of(value.type))
    if shape == shape_of(value.type):
        return value
    made = Reshape(value, Tile(element_of(value.type), shape))  # type: ignore[arg-type]
    ops.append(made)
    return made.result
