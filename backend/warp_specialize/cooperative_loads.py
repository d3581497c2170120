"""Blocks that threads load where no tensor map can: rows at addresses of fewer bytes."""

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
from tileir.ops.program import MultipleOf
from tileir.ops.shape import Reshape
from tileir.types import I32, Descriptor, Tile, shape_of
from tileir.values import Constant, Operand, Value, constant

_PIECE = 4096
"""Elements that the threads which load hold at once: 32 each."""


def chunk_shape(block: Sequence[int]) -> tuple[int, ...]:
    """The part of a block that is loaded at once: the first dimensions one by one, then as many
    rows as divide it."""
    found = list(block)
    for dim in range(len(found) - 1):
        rest = prod(found) // found[dim]
        most = max(1, _PIECE // rest)
        found[dim] = max(n for n in range(1, found[dim] + 1) if block[dim] % n == 0 and n <= most)
        if found[dim] > 1:
            break
    return tuple(found)


def blocks_read(function: Function, loads: Sequence[Any]) -> dict[Value, tuple[int, ...]]:
    """By descriptor, what is read of the blocks that `loads` load."""
    found: dict[Value, tuple[int, ...]] = {}
    for op in loads:
        rows, columns = op.block().shape[:-1], columns_read(function, op)
        most = max(columns, found.get(op.descriptor, (0,))[-1])
        found[op.descriptor] = (*rows, most)
    return found


@attrs.frozen(eq=False)
class CooperativeLoads:
    """Loads by threads: by pieces, through descriptors of blocks of their size, by the descriptors
    of the whole blocks."""

    blocks: Mapping[Value, tuple[int, ...]]
    """What is read of the blocks of a descriptor: all rows, and the first columns."""
    pieces: dict[Value, Value] = attrs.field(factory=dict[Value, Value])

    def made(self, maker: MakeDescriptor) -> Op:
        """What makes the descriptor of the pieces of the blocks of another."""
        element = maker.to.block.element  # type: ignore[union-attr]
        piece = chunk_shape(self.blocks[maker.result])
        made = MakeDescriptor(
            maker.base, Descriptor(Tile(element, piece)), maker.dimensions,
            padding=maker.padding, location=maker.location,
        )  # fmt: skip
        self.pieces[maker.result] = made.result
        return made

    def loaded(self, load: StagedAccess, buffer: Value, slot: Operand) -> Iterator[Op]:
        """What fills a slot with the block of `load`."""
        op, element = load.op, load.element
        block = self.blocks[cast(Value, op.descriptor)]
        piece = chunk_shape(block)
        across = [range(0, n, step) for n, step in zip(block, piece, strict=True)]
        for number, first in enumerate(product(*across)):
            indices: list[Operand] = []
            for at, moved in zip(op.indices, first, strict=True):
                indices.append(at)
                if moved:
                    yield (step := Add(at, constant(I32, moved), location=op.location))
                    indices[-1] = step.result
            read = DescriptorLoad(
                self.pieces[cast(Value, op.descriptor)], tuple(indices), location=op.location
            )
            yield read
            rows = as_rows(piece)
            value = read.result
            if shape_of(value.type) != rows:
                yield (flat := Reshape(value, Tile(element, rows)))
                value = flat.result
            offsets = (number * rows[0], 0)
            yield LocalStore(value, buffer, slot, offsets=offsets, location=op.location)


def with_alignment_hints(maker: MakeDescriptor, unit: int) -> list[Op]:
    """The same descriptor, of what is said to be multiples of `unit` bytes: the base, and where
    neighbours are neighbours in memory the distances of rows, and where they end."""
    ops: list[Op] = []
    base, pairs = _hinted(maker.base, unit, ops), list(maker.dimensions)
    if isinstance(pairs[-1], Constant) and pairs[-1].value == 1:
        size, inner = maker.to.block.element.bytes, len(pairs) - 2  # type: ignore[union-attr]
        for index in (*range(1, inner, 2), inner):
            pairs[index] = _hinted(pairs[index], unit // size, ops)
    return [*ops, attrs.evolve(maker, base=base, dimensions=tuple(pairs))]


def _hinted(value: Operand, unit: int, ops: list[Op]) -> Operand:
    """`value`, said to be a multiple of `unit`."""
    if not isinstance(value, Value) or unit < 2:
        return value
    ops.append(hint := MultipleOf(value, values=(unit,)))
    return hint.result
