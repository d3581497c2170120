"""Construction of ops in passes: arithmetic on operands, literals and broadcast scalars."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.op import Op
from tileir.ops.cast import SExt
from tileir.ops.shape import Broadcast, MakeRange, Reshape, Splat
from tileir.types import I64, Tile, Type, element_of, shape_of, tile, with_element
from tileir.values import Constant, Operand, Value


@attrs.define
class OpBuilder:
    """The ops that replace op `source`, in order; they have its location."""

    source: Op
    ops: list[Op] = attrs.field(factory=list)

    def add(self, op: Op) -> Value:
        """Append `op`; returns its first result."""
        self.ops.append(attrs.evolve(op, location=self.source.location))
        return self.ops[-1].result

    def add_final(self, op: Op) -> None:
        """Append the op that replaces the source: it takes over its predicate and its results."""
        same = [v.type for v in op.results] == [v.type for v in self.source.results]
        results = self.source.results if same else op.results
        placed = attrs.evolve(
            op, location=self.source.location, predicate=self.source.predicate, results=results
        )
        self.ops.append(placed)

    def to_i64(self, x: Operand) -> Operand:
        """An integer scalar or tile sign-extended to i64."""
        kind = with_element(x.type, I64)
        if isinstance(x, Constant):
            return Constant(kind, int(x.value) & ((1 << 64) - 1))
        return x if x.type is kind else self.add(SExt(x, kind))

    def splat(self, x: Operand, shape: Sequence[int]) -> Operand:
        """A tile of `shape` with scalar `x` in every element."""
        kind = tile(element_of(x.type), tuple(shape))  # type: ignore[arg-type]
        if isinstance(x, Constant):
            return Constant(kind, x.bits)
        return self.add(Splat(x, kind))

    def broadcast_from_axis(self, x: Operand, axis: int, shape: Sequence[int]) -> Operand:
        """A tile of one dimension, placed along `axis` and broadcast to `shape`."""
        element, size = element_of(x.type), shape_of(x.type)[0]
        if len(shape) == 1:
            return x
        row_shape = tuple(size if d == axis else 1 for d in range(len(shape)))
        placed = self.add(Reshape(x, tile(element, row_shape)))  # type: ignore[arg-type]
        return self.broadcast(placed, tuple(shape))

    def broadcast(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        """`x` broadcast to `shape`."""
        if shape_of(x.type) == shape:
            return x
        return self.add(Broadcast(x, tile(element_of(x.type), shape)))  # type: ignore[arg-type]

    def reshape(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        """`x` reshaped to `shape`, in row-major order."""
        if shape_of(x.type) == shape:
            return x
        return self.add(Reshape(x, tile(element_of(x.type), shape)))  # type: ignore[arg-type]

    def range(self, count: int) -> Value:
        """The i64 tile 0, 1, ..., `count` - 1."""
        return self.add(MakeRange(Tile(I64, (count,))))

    def literal(self, kind: Type, number: int) -> Constant:
        """An integer literal of `kind`."""
        bits = element_of(kind).bits  # type: ignore[union-attr]
        return Constant(kind, number & ((1 << bits) - 1))
