"""Block pointers (`tt.make_tensor_ptr`, up to Triton 3.7): a pointer with extents, strides and the
offsets of a block. An access uses pointers to elements, as after Triton's pass
`triton-rewrite-tensor-pointer`, and is masked in the dimensions of `boundaryCheck`. Branches and
loops pass all values that a block pointer consists of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.ttir.types import BlockPointerType, Stated
from tileir.types import I64, Tile, Type, pointer, tile

NamedValue: TypeAlias = "Expr | BlockPointer"
"""The value of a name of the text."""


@attrs.frozen(eq=False)
class BlockPointer:
    """The block of `type` at `offsets` of an array at `base`. Numbers are i64."""

    type: BlockPointerType
    base: Expr
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offsets: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The values that it consists of."""
        return (self.base, *self.extents, *self.strides, *self.offsets)

    def pointers(self, b: Builder) -> Expr:
        """A pointer to each element."""
        kind = self.type.block
        total: Expr | None = None
        for axis, stride in enumerate(self.strides):
            step = b.mul(self._index(b, axis), b.splat(stride, self._along(axis)))
            step = step.broadcast_to(*kind.shape)
            total = step if total is None else b.add(total, step)
        assert total is not None
        bases = b.splat(self.base, tile(pointer(kind.element), kind.shape))
        return b.getelementptr(bases, total)

    def mask(self, b: Builder, axes: Sequence[int]) -> Expr | None:
        """The mask of elements within the extents of `axes`; None without axes."""
        inside: Expr | None = None
        for axis in axes:
            index, kind = self._index(b, axis), self._along(axis)
            start = b.icmp(index, b.constant(kind, 0), predicate="sge")[0]
            end = b.icmp(index, b.splat(self.extents[axis], kind), predicate="slt")[0]
            in_bounds = b.and_(start, end).broadcast_to(*self.type.block.shape)
            inside = in_bounds if inside is None else b.and_(inside, in_bounds)
        return inside

    def _index(self, b: Builder, axis: int) -> Expr:
        """The positions of the block along `axis`."""
        size = self.type.block.shape[axis]
        start = b.splat(self.offsets[axis], tile(I64, (size,)))
        positions = b.add(start, b.sext(b.arange(0, size), tile(I64, (size,))))
        return positions.reshape(*self._along(axis).shape)

    def _along(self, axis: int) -> Tile:
        """The type of a number for each position along `axis`."""
        shape = [1] * len(self.type.block.shape)
        shape[axis] = self.type.block.shape[axis]
        return Tile(I64, tuple(shape))


def parts(values: Sequence[NamedValue]) -> list[Expr]:
    """The values that `values` consist of, in order."""
    return [p for x in values for p in (x.parts if isinstance(x, BlockPointer) else (x,))]


def part_types(types: Sequence[Stated]) -> list[Type]:
    """The types of the values that values of `types` consist of."""
    return [p for t in types for p in _part_types(t)]


def _part_types(kind: Stated) -> list[Type]:
    if not isinstance(kind, BlockPointerType):
        return [kind]
    return [pointer(kind.block.element), *[I64] * (3 * len(kind.block.shape))]


def assemble(types: Sequence[Stated], exprs: Sequence[Expr]) -> list[NamedValue]:
    """Values of `types` of what they consist of."""
    remaining = iter(exprs)
    return [_assemble(kind, remaining) for kind in types]


def _assemble(kind: Stated, remaining: Iterator[Expr]) -> NamedValue:
    if not isinstance(kind, BlockPointerType):
        return next(remaining)
    rank = len(kind.block.shape)
    base, *numbers = [next(remaining) for _ in range(3 * rank + 1)]
    groups = (tuple(numbers[i:j]) for i, j in pairwise(range(0, 3 * rank + 1, rank)))
    return BlockPointer(kind, base, *groups)
