"""Matrices in shared memory, of which loops over chunks read slices."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

import attrs

from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import BlockBarrier, LocalGather, LocalStore, SharedAlloc
from tileir.ops.rearrange import ExtractSlice
from tileir.types import I32, Tile
from tileir.values import Value, constant

_ZERO = constant(I32, 0)


def store_sliced(function: Function, matrices: Container[Value]) -> Function:
    """`function` with `matrices` stored to shared memory where they are computed, once for all of
    their slices. Each thread reads the elements that it needs of a slice from there. A slice of
    registers would be stored as a whole in every iteration, between two barriers."""
    read = (op.value for op in function.ops if isinstance(op, ExtractSlice))
    sliced = dict.fromkeys(x for x in read if isinstance(x, Value) and x in matrices)
    buffers = {matrix: _buffer(matrix) for matrix in sliced}
    blocks = {
        label: attrs.evolve(block, ops=tuple([x for op in block.ops for x in _store(op, buffers)]))
        for label, block in function.blocks.items()
    }
    entry = next(iter(blocks))
    blocks[entry] = attrs.evolve(blocks[entry], ops=(*buffers.values(), *blocks[entry].ops))
    return function.with_blocks(blocks)


def _store(op: Op, buffers: dict[Value, SharedAlloc]) -> list[Op]:
    """`op` and the stores of its results; for a slice of a matrix in one of `buffers`, the op that
    reads it there. Threads wait before they store, for the reads of an earlier iteration."""
    if isinstance(op, ExtractSlice) and op.value in buffers:
        return [_read(op, buffers[op.value].results[0])]
    ops = [op]
    for matrix in op.results:
        if matrix in buffers:
            store = LocalStore(matrix, buffers[matrix].results[0], _ZERO)
            ops += [BlockBarrier(), store, BlockBarrier()]
    return ops


def _buffer(matrix: Value) -> SharedAlloc:
    kind = cast(Tile, matrix.type)
    return SharedTile(kind.element, kind.shape, 1, 0).allocate()


def _read(op: ExtractSlice, buffer: Value) -> Op:
    row, column = op.offsets
    read = LocalGather(
        buffer, _ZERO, row, column, op.results[0].type, rows=(1, 0), columns=(0, 1),
        location=op.location,
    )  # fmt: skip
    return attrs.evolve(read, results=op.results)
