"""Tiles of iterations: which points a tile holds, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any

import attrs

from tileir.builder.builder import Builder
from tileir.builder.contraction.affine import Index
from tileir.builder.expr import Expr


@attrs.frozen(slots=False, eq=False)
class TiledAxis:
    """Indices and their ranges, outermost first, iterated in tiles of `tile` points.

    The lanes of a tile follow the innermost index; all other indices are constant in a tile. If the
    axis is `flat`, lanes follow all indices as one linearized index.
    """

    ranges: tuple[tuple[Index, range], ...]
    tile: int = 1
    flat: bool = False

    @property
    def is_flat(self) -> bool:
        """Whether lanes follow all indices, linearized."""
        return self.flat and self.tile > 1

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices, outermost first."""
        return tuple(index for index, _ in self.ranges)

    @cached_property
    def points(self) -> int:
        """Points in all."""
        return prod(len(span) for _, span in self.ranges)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each index; of a flat axis, one number."""
        if self.is_flat:
            return (-(-self.points // self.tile),)
        *outer, inner = [len(span) for _, span in self.ranges] or [1]
        return (*outer, -(-inner // self.tile))

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return prod(self.counts)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Points between neighbours along each index."""
        extents = [len(span) for _, span in self.ranges]
        return tuple(prod(extents[place + 1 :]) for place in range(len(extents)))


@attrs.frozen(slots=False, eq=False)
class IndexValues:
    """Values of an index in one tile: `start`, which all lanes share, and the offsets of the lanes;
    `span` contains every value that a lane may have, including those beyond the last point."""

    start: Any
    span: range
    at: AxisTile | None = None

    @property
    def lanes(self) -> Expr | None:
        """The offsets of the lanes, along one dimension; None if all are 0."""
        return None if self.at is None else self.at.lanes_of(self)


@attrs.frozen(slots=False, eq=False)
class AxisTile:
    """Tile `number` of an axis. On a flat axis, `linear` has the linearized indices of the lanes,
    from `start` on."""

    b: Builder
    axis: TiledAxis
    number: Any
    index_values: Mapping[Index, IndexValues] | None = None

    def fresh(self) -> AxisTile:
        """The same with new values: values of a loop must not be used after it."""
        return AxisTile(self.b, self.axis, self.number, self.places)

    @cached_property
    def arange(self) -> Expr:
        """0, 1, ... along the axis."""
        return self.b.arange(self.axis.tile)

    @cached_property
    def start(self) -> Any:
        """The first point of a flat axis's tile."""
        return self.number * self.axis.tile

    @cached_property
    def places(self) -> Mapping[Index, IndexValues]:
        """The value of each index."""
        if self.index_values is not None:
            return {i: attrs.evolve(p, at=p.at and self) for i, p in self.index_values.items()}
        return self._flat() if self.axis.is_flat else self._inner()

    def _inner(self) -> dict[Index, IndexValues]:
        index_values: dict[Index, IndexValues] = {}
        number, axis = self.number, self.axis
        for place, (index, span) in reversed(list(enumerate(axis.ranges))):
            count, inner = axis.counts[place], place == len(axis.ranges) - 1
            digit = modulo(number, count) if place else number
            number = quotient(number, count) if place else number
            step = axis.tile if inner else 1
            wide = range(span.start, span.start + count * step)
            lanes = self if inner and axis.tile > 1 else None
            index_values[index] = IndexValues(scale_and_shift(digit, step, span.start), wide, lanes)
        return index_values

    def _flat(self) -> dict[Index, IndexValues]:
        index_values: dict[Index, IndexValues] = {}
        for place, (index, span) in enumerate(self.axis.ranges):
            last = self.axis.blocks * self.axis.tile - 1
            stop = span.stop if place else span.start + last // self.axis.strides[0] + 1
            index_values[index] = IndexValues(span.start, range(span.start, stop), self)
        return index_values

    def lanes_of(self, place: IndexValues) -> Expr:
        """The offsets of the lanes for an index."""
        if not self.axis.is_flat:
            return self.arange
        number = next(n for n, (i, _) in enumerate(self.axis.ranges) if self.places[i] is place)
        return self.digits[number]

    @cached_property
    def linear(self) -> Expr:
        """The number of each point of a flat axis."""
        return scale_and_shift(self.start, 1, 0) + self.arange

    @cached_property
    def digits(self) -> tuple[Expr, ...]:
        """The digits of `linear` by the extents of a flat axis."""
        digits: list[Expr] = []
        for place, (stride, (_, span)) in enumerate(
            zip(self.axis.strides, self.axis.ranges, strict=True)
        ):
            digit = self.linear if stride == 1 else self.linear.udiv(stride)
            digits.append(digit.urem(len(span)) if place else digit)
        return tuple(digits)


def quotient(x: Any, n: int) -> Any:
    """x // n, for x >= 0."""
    return x if n == 1 else x // n if isinstance(x, int) else x.udiv(n)


def modulo(x: Any, n: int) -> Any:
    """x % n, for x >= 0."""
    return 0 if n == 1 else x % n if isinstance(x, int) else x.urem(n)


def scale_and_shift(x: Any, multiplier: int, more: int) -> Any:
    """`x * multiplier + more`."""
    x = x * multiplier if multiplier != 1 else x
    return x + more if isinstance(x, int) or more else x
