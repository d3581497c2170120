"""Values of index expressions in one tile of some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tileir.builder.builder import Builder
from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index
from tileir.builder.contraction.axes import AxisTile, IndexValues
from tileir.builder.expr import Expr
from tileir.types import I1


@attrs.frozen(eq=False)
class View:
    """The values of every index in a tile. `dimensions` are the tiles of axes, in order; an index
    of none of them has the same value in all lanes."""

    b: Builder
    dimensions: tuple[AxisTile, ...]
    places: Mapping[Index, IndexValues]
    spans: Mapping[Index, range]
    values: dict[Any, Any] = attrs.field(factory=dict[Any, Any])
    """The values computed in this tile."""

    @property
    def rank(self) -> int:
        """Dimensions of its tiles."""
        return len(self.dimensions)

    def extents(self, indices: frozenset[Index]) -> tuple[int, ...]:
        """The shape of a value that depends on `indices`: extent 1 along all other dimensions."""
        return tuple(
            at.axis.tile if indices & set(at.axis.indices) else 1 for at in self.dimensions
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its tiles."""
        return tuple(at.axis.tile for at in self.dimensions)

    def split(self, at: AffineIndex) -> tuple[Any, Expr | None]:
        """An index expression, split into the part that all lanes share and a tile of the lanes'
        offsets."""
        start, lanes = at.constant, None
        linear, remaining_terms = self._linear(at)
        for index, n in at.terms:
            start = _plus(start, _times(self.places[index].start, n))
        for dimension, n in linear:
            tile = dimension.arange * n if n != 1 else dimension.arange
            start = _plus(start, _times(dimension.start, n))
            lanes = _plus(lanes, self.along(dimension, tile))
        for index, n in remaining_terms:
            place = self.places[index]
            if place.lanes is not None and place.at is not None:
                tile = place.lanes * n if n != 1 else place.lanes
                lanes = _plus(lanes, self.along(place.at, tile))
        return start, lanes

    def _linear(
        self, at: AffineIndex
    ) -> tuple[list[tuple[AxisTile, int]], list[tuple[Index, int]]]:
        """Flat axes that an expression goes along evenly, with its step; and its other terms."""
        result: list[tuple[AxisTile, int]] = []
        terms = dict(at.terms)
        for dimension in self.dimensions:
            axis = dimension.axis
            step = terms.get(axis.indices[-1], 0) if axis.is_flat else 0
            even = [
                terms.get(i, 0) == step * s for i, s in zip(axis.indices, axis.strides, strict=True)
            ]
            if step and all(even):
                result.append((dimension, step))
                for index in axis.indices:
                    terms.pop(index, None)
        return result, list(terms.items())

    def value(self, at: AffineIndex) -> Any:
        """An index expression, as a number or a value."""
        if at not in self.values:
            start, lanes = self.split(at)
            self.values[at] = start if lanes is None else _plus(lanes, start)
        return self.values[at]

    def along(self, dimension: AxisTile, tile: Expr) -> Expr:
        """A tile of one dimension, as one of all dimensions."""
        place = self.dimensions.index(dimension)
        key = tuple(slice(None) if n == place else None for n in range(self.rank))
        return tile if self.rank == 1 else tile[key]

    def beyond(self, where: Sequence[AffineBound]) -> tuple[AffineBound, ...]:
        """The parts of the conditions that are not certain in this tile, one condition per
        expression."""
        bounds: dict[AffineIndex, AffineBound] = {}
        for bound in where:
            beyond = bound.normal().beyond(self.spans)
            if beyond is not None:
                bounds[beyond.of] = beyond.conjunction(bounds.get(beyond.of, beyond))
        return tuple(bounds.values())

    def mask(self, where: Sequence[AffineBound]) -> Any:
        """The mask of the conditions; None if they are true in the whole tile."""
        result: Any = None
        for bound in self.beyond(where):
            holds = self._holds(bound)
            result = holds if result is None else result & holds
        return result

    def _holds(self, bound: AffineBound) -> Any:
        key = (bound,)
        if key not in self.values:
            self.values[key] = self._comparison(bound)
        return self.values[key]

    def _comparison(self, bound: AffineBound) -> Any:
        flat = self._end_of_flat(bound)
        if flat is not None:
            return self.along(flat, flat.linear) < flat.axis.points
        value, low, high = self.value(bound.of), bound.low, bound.high
        if isinstance(value, int):
            holds = (low is None or low <= value) and (high is None or value < high)
            return self.b.constant(I1, holds)
        if low is not None and high is not None:
            return (value >= low) & (value < high)
        return value >= low if high is None else value < high

    def _end_of_flat(self, bound: AffineBound) -> AxisTile | None:
        """The flat axis whose end a condition bounds."""
        if bound.low is not None or len(bound.of.terms) != 1 or bound.of.constant:
            return None
        ((index, n),) = bound.of.terms
        at = self.places[index].at
        if at is None or not at.axis.is_flat or n != 1:
            return None
        first, span = at.axis.ranges[0]
        return at if first is index and bound.high == span.stop else None


def over(view: View, ats: Sequence[AxisTile], order: Sequence[AxisTile]) -> View:
    """A view with more tiles of axes, and the dimensions `order`."""
    tiles = tuple(at if at in ats else at.fresh() for at in order if at.axis.tile > 1)
    places = dict(view.places)
    for at in (*ats, *tiles):
        places.update(at.places)
    spans = {index: place.span for index, place in places.items()}
    return View(view.b, tiles, places, spans)


def start(b: Builder, ats: Sequence[AxisTile]) -> View:
    """The view of the tiles of some axes."""
    return over(View(b, (), {}, {}), ats, ats)


def _plus(x: Any, y: Any) -> Any:
    if x is None or (isinstance(x, int) and x == 0):
        return y
    return x if isinstance(y, int) and y == 0 else x + y


def _times(x: Any, n: int) -> Any:
    return x if n == 1 else x * n
