"""Results written by descriptors, by way of shared memory and tensor maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

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
    many columns, and the descriptor of blocks of that size."""

    staged: Staged
    buffer: SharedAlloc
    map: TensorMap

    @staticmethod
    def of(staged: Staged, maker: MakeDescriptor) -> Outlet:
        """The outlet of a store whose descriptor `maker` makes: slots of a panel, two so that one
        is written while the other is read."""
        kind = cast(Descriptor, maker.to).block
        block = Tile(kind.element, (*kind.shape[:-1], staged.panel))
        buffer = SharedAlloc(
            pointer(staged.element, AddressSpace.SHARED),
            shape=(slots_of(staged), staged.rows, staged.panel), swizzle=staged.swizzle,
            panel=staged.panel, location=staged.op.location,
        )  # fmt: skip
        made = TensorMap(
            maker.base, Descriptor(block), maker.dimensions, swizzle=staged.swizzle,
            location=maker.location,
        )  # fmt: skip
        return Outlet(staged, buffer, made)


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
    ops: list[Op] = []
    value, width = _flat(op.value, ops), outlet.staged.panel
    buffer, count = outlet.buffer.result, outlet.buffer.shape[0]
    again = outlet.staged.columns // width % count != 0  # the last slot is the next round's first
    for index, first in enumerate(range(0, outlet.staged.columns, width)):
        slot, last = constant(I32, index % count), op.indices[-1]
        if first:
            moved = Add(last, constant(I32, first))
            ops.append(moved)
            last = moved.result
        indices = (*op.indices[:-1], last)
        ops += [
            TmaWait(pending=count - 1 if index or not again else 0),
            Barrier(),
            LocalStore(value, buffer, slot, columns=(first, width), location=op.location),
            AsyncFence(),
            Barrier(),
            TmaStore(outlet.map.result, buffer, slot, indices, location=op.location),
        ]
    return ops


def _flat(value: Operand, ops: list[Op]) -> Operand:
    """A tile as rows."""
    shape = as_rows(shape_of(value.type))
    if shape == shape_of(value.type):
        return value
    made = Reshape(value, Tile(element_of(value.type), shape))  # type: ignore[arg-type]
    ops.append(made)
    return made.result
