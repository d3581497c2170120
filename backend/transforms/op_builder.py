"""Making ops in passes: elementwise arithmetic between operands, literals and spread scalars."""

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
    """The ops that stand for one op, in order; they are where it was."""

    source: Op
    ops: list[Op] = attrs.field(factory=list)

    def add(self, op: Op) -> Value:
        """Append `op`; its result."""
        self.ops.append(attrs.evolve(op, location=self.source.location))
        return self.ops[-1].result

    def last(self, op: Op) -> None:
        """Append the op that does what the source did, under its predicate, giving its results."""
        same = [v.type for v in op.results] == [v.type for v in self.source.results]
        results = self.source.results if same else op.results
        placed = attrs.evolve(
            op, location=self.source.location, predicate=self.source.predicate, results=results
        )
        self.ops.append(placed)

    def wide(self, x: Operand) -> Operand:
        """An integer scalar or tile as i64."""
        kind = with_element(x.type, I64)
        if isinstance(x, Constant):
            return Constant(kind, int(x.value) & ((1 << 64) - 1))
        return x if x.type is kind else self.add(SExt(x, kind))

    def spread(self, x: Operand, shape: Sequence[int]) -> Operand:
        """A scalar in every element of a tile of `shape`."""
        kind = tile(element_of(x.type), tuple(shape))  # type: ignore[arg-type]
        if isinstance(x, Constant):
            return Constant(kind, x.bits)
        return self.add(Splat(x, kind))

    def along(self, x: Operand, axis: int, shape: Sequence[int]) -> Operand:
        """A tile of one dimension spread over all others of `shape`."""
        element, size = element_of(x.type), shape_of(x.type)[0]
        if len(shape) == 1:
            return x
        thin = tuple(size if d == axis else 1 for d in range(len(shape)))
        placed = self.add(Reshape(x, tile(element, thin)))  # type: ignore[arg-type]
        return self.widened(placed, tuple(shape))

    def widened(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        """A tile with its extents of 1 as long as `shape` says."""
        if shape_of(x.type) == shape:
            return x
        return self.add(Broadcast(x, tile(element_of(x.type), shape)))  # type: ignore[arg-type]

    def reshaped(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        """The elements in the same order in another shape."""
        if shape_of(x.type) == shape:
            return x
        return self.add(Reshape(x, tile(element_of(x.type), shape)))  # type: ignore[arg-type]

    def range(self, count: int) -> Value:
        """0, 1, ... as i64."""
        return self.add(MakeRange(Tile(I64, (count,))))

    def number(self, kind: Type, number: int) -> Constant:
        """An integer literal of `kind`."""
        bits = element_of(kind).bits  # type: ignore[union-attr]
        return Constant(kind, number & ((1 << bits) - 1))
