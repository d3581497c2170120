"""Blocks that producer threads load because their rows are not aligned enough for a tensor map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, cast

import attrs

from tileir.backend.warp_specialize.rings import StagedAccess, as_rows, columns_read
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.gpu import LocalStore
from tileir.ops.hints import MultipleOf
from tileir.ops.shape import Reshape
from tileir.types import I32, Descriptor, Tile, shape_of
from tileir.values import Constant, Operand, Value, constant

_CHUNK = 4096
"""Elements of a chunk: 32 registers per producer thread."""


def chunk_shape(block: Sequence[int]) -> tuple[int, ...]:
    """The shape of a chunk of a block: one index of the first dimensions, then the most rows that
    divide the block and fit."""
    shape = list(block)
    for dim in range(len(shape) - 1):
        inner_size = prod(shape) // shape[dim]
        most = max(1, _CHUNK // inner_size)
        shape[dim] = max(n for n in range(1, shape[dim] + 1) if block[dim] % n == 0 and n <= most)
        if shape[dim] > 1:
            break
    return tuple(shape)


def blocks_read(function: Function, loads: Sequence[Any]) -> dict[Value, tuple[int, ...]]:
    """The shape of the part of a descriptor's blocks that is read after `loads`, by descriptor."""
    blocks: dict[Value, tuple[int, ...]] = {}
    for op in loads:
        rows, columns = op.block().shape[:-1], columns_read(function, op)
        most = max(columns, blocks.get(op.descriptor, (0,))[-1])
        blocks[op.descriptor] = (*rows, most)
    return blocks


@attrs.frozen(eq=False)
class CooperativeLoads:
    """Loads by threads, chunk by chunk. `chunks` has the descriptor of chunks by the descriptor of
    whole blocks."""

    blocks: Mapping[Value, tuple[int, ...]]
    """The part of a block that is read, by descriptor: all rows of the first columns."""
    chunks: dict[Value, Value] = attrs.field(factory=dict[Value, Value])

    def make_chunk_descriptor(self, maker: MakeDescriptor) -> Op:
        """The op that makes the descriptor of chunks of the blocks of `maker`."""
        element = maker.to.block.element  # type: ignore[union-attr]
        chunk = chunk_shape(self.blocks[maker.result])
        chunk_maker = MakeDescriptor(
            maker.base, Descriptor(Tile(element, chunk)), maker.dimensions,
            padding=maker.padding, location=maker.location,
        )  # fmt: skip
        self.chunks[maker.result] = chunk_maker.result
        return chunk_maker

    def load_block(self, load: StagedAccess, buffer: Value, stage: Operand) -> Iterator[Op]:
        """The ops that load the block of `load` to a stage of `buffer`."""
        op, element = load.op, load.element
        block = self.blocks[cast(Value, op.descriptor)]
        chunk = chunk_shape(block)
        starts = [range(0, n, step) for n, step in zip(block, chunk, strict=True)]
        for number, start in enumerate(product(*starts)):
            indices: list[Operand] = []
            for index, offset in zip(op.indices, start, strict=True):
                indices.append(index)
                if offset:
                    yield (step := Add(index, constant(I32, offset), location=op.location))
                    indices[-1] = step.result
            read = DescriptorLoad(
                self.chunks[cast(Value, op.descriptor)], tuple(indices), location=op.location
            )
            yield read
            rows = as_rows(chunk)
            value = read.result
            if shape_of(value.type) != rows:
                yield (flat := Reshape(value, Tile(element, rows)))
                value = flat.result
            offsets = (number * rows[0], 0)
            yield LocalStore(value, buffer, stage, offsets=offsets, location=op.location)


def with_alignment_hints(maker: MakeDescriptor, unit: int) -> list[Op]:
    """`maker` with hints (`multiple_of`) that its base is a multiple of `unit` bytes, and, where
    rows are contiguous, that the row strides and the row length are."""
    ops: list[Op] = []
    base, pairs = _with_hint(maker.base, unit, ops), list(maker.dimensions)
    if isinstance(pairs[-1], Constant) and pairs[-1].value == 1:
        size, inner = maker.to.block.element.bytes, len(pairs) - 2  # type: ignore[union-attr]
        for index in (*range(1, inner, 2), inner):
            pairs[index] = _with_hint(pairs[index], unit // size, ops)
    return [*ops, attrs.evolve(maker, base=base, dimensions=tuple(pairs))]


def _with_hint(value: Operand, unit: int, ops: list[Op]) -> Operand:
    """`value` with the hint that it is a multiple of `unit`."""
    if not isinstance(value, Value) or unit < 2:
        return value
    ops.append(hint := MultipleOf(value, values=(unit,)))
    return hint.result
