"""Results written by descriptors, by way of shared memory and tensor maps."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorStore
from tileir.ops.gpu import Barrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, TmaStore, TmaWait
from tileir.ops.shape import Reshape
from tileir.types import I32, Tile, element_of, shape_of
from tileir.values import Operand, Value, constant


def storing(function: Function, buffers: Mapping[Op, SharedAlloc]) -> Function:
    """`function` with the stores that have a buffer written there first, and copied from there. A
    buffer is written again when what was copied from it has been read."""
    if not buffers:
        return function
    blocks = {label: _block(block, buffers) for label, block in function.blocks.items()}
    return function.with_blocks(blocks)


def _block(block: Block, buffers: Mapping[Op, SharedAlloc]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, DescriptorStore) and op in buffers:
            ops += _stored(op, buffers[op].result)
        elif isinstance(op, Return):
            ops += [TmaWait(), op]
        else:
            ops.append(op)
    return attrs.evolve(block, ops=tuple(ops))


def _stored(op: DescriptorStore, buffer: Value) -> list[Op]:
    ops: list[Op] = [TmaWait(), Barrier()]
    value = _flat(op.value, ops)
    slot = constant(I32, 0)
    ops += [
        LocalStore(value, buffer, slot, location=op.location),
        AsyncFence(),
        Barrier(),
        TmaStore(op.descriptor, buffer, slot, op.indices, location=op.location),
    ]
    return ops


def _flat(value: Operand, ops: list[Op]) -> Operand:
    """A tile of rows and columns, dimensions of one element left out."""
    shape = tuple(n for n in shape_of(value.type) if n > 1)
    if shape == shape_of(value.type):
        return value
    made = Reshape(value, Tile(element_of(value.type), shape))  # type: ignore[arg-type]
    ops.append(made)
    return made.result
