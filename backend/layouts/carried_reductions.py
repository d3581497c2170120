"""Layouts of tiles that a loop carries and reduces in every iteration.

An example is the inversion of a triangular tile by forward substitution: each iteration reduces the
rows that are done, and replaces the next one. The iterations wait for each other, so the time of a
reduction counts: each exchange between lanes takes as long as twenty other instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.reduction_plan import lanes_along, warps_along
from tileir.ir import Function
from tileir.layout import Layout, Repeat, Vector, layout
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.layouts.anchors import AnchorLayouts
    from tileir.backend.layouts.preferences import LayoutPreference

_LANES = 32
_WORD = 4
_EXCHANGE = 4
"""The cost of an exchange between lanes, in words that a thread adds: what follows waits for it."""
_BARRIER = 8
"""The cost of an exchange between warps, in exchanges between lanes."""


@attrs.frozen
class CarriedReductions:
    """Reductions of the tiles of a component: their axes, each with how often it runs, and the
    number of warps."""

    axes: tuple[tuple[int, int], ...]
    warps: int

    @classmethod
    def of(
        cls, function: Function, members: Iterable[Value], reductions: Iterable[tuple[Any, int]],
        warps: int,
    ) -> CarriedReductions:  # fmt: skip
        """The ones of `reductions` that run in loops, if a loop carries one of `members`. None if
        one is of no matrix, or if a result is turned, as it then moves between lanes anyway."""
        repeated = [(op, times) for op, times in reductions if times > 1]
        defined, readers = definitions(function), uses(function)
        is_carried = repeated and any(value not in defined for value in members)
        if not is_carried or any(_is_no_matrix(op) or is_turned(op, readers) for op, _ in repeated):
            return cls((), warps)
        return cls(tuple((op.axis, times) for op, times in repeated), warps)

    def layouts(self, shape: Vector) -> list[Layout]:
        """The layouts of a tile of `shape` in which threads own columns along the axes."""
        axes = dict.fromkeys(axis for axis, _ in self.axes)
        layouts = (layout_of_columns(shape, axis, self.warps) for axis in axes)
        return [layout for layout in layouts if layout is not None]

    def cost(
        self, source: Layout, votes: Iterable[LayoutPreference], anchors: AnchorLayouts
    ) -> int:
        """The cost for a tile in `source`, in bytes. Warps also wait for each other in conversions
        in loops to the layouts that `votes` request, next to the bytes that these move."""
        waits = self.axes and self.warps > 1
        barrier = _EXCHANGE * _BARRIER * _WORD * _LANES * self.warps if waits else 0
        converted = sum(v.times for v in votes if v.times > 1 and v.cost_in(source, anchors))
        reductions = (times * reduced_bytes(source, axis, self.warps) for axis, times in self.axes)
        return sum(reductions, barrier * converted)


def layout_of_columns(shape: Vector, axis: int, num_warps: int) -> Layout | None:
    """A layout of a matrix in which threads own as much as possible along `axis`: lanes, then
    warps, move along the other dimension. Lanes that are left divide `axis`, warps that are left
    have the same elements. None unless both extents are powers of two."""
    if len(shape) != 2 or any(extent & (extent - 1) for extent in shape):
        return None
    other = 1 - axis
    lanes = min(_LANES, shape[other])
    warps = min(num_warps & -num_warps, shape[other] // lanes)
    divided = min(_LANES // lanes, shape[axis])
    return layout(
        2,
        repeats=(
            Repeat("register", shape[axis] // divided, axis),
            Repeat("lane", lanes, other),
            Repeat("lane", divided, axis),
            Repeat("lane", _LANES // lanes // divided, None),
            Repeat("warp", warps, other),
            Repeat("warp", num_warps // warps, None),
            Repeat("register", shape[other] // lanes // warps, other),
        ),
    )


def reduced_bytes(source: Layout, axis: int, num_warps: int) -> int:
    """The cost of a reduction of a tile in `source` along `axis`, in bytes that threads combine.
    Lanes exchange their results until all of them have those of the elements that they own."""
    words, exchanges = source.slice(axis).size("register"), 0
    steps = len(lanes_along(source, axis))
    halvings = min(steps, words.bit_length() - 1)
    for step in range(1, halvings + 1):
        exchanges += 2 * (words >> step)  # they divide the words, and get the others' at the end
    exchanges += (steps - halvings) * max(1, words >> halvings)
    exchanges += _BARRIER * (warps_along(source, axis) > 1)
    return (source.size("register") + _EXCHANGE * exchanges) * _WORD * _LANES * num_warps


def _is_no_matrix(op: Any) -> bool:
    return len(shape_of(op.inputs[0].type)) != 2


def is_turned(op: Any, readers: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether the result of the reduction `op` of a matrix, or a vector computed from it, becomes a
    matrix whose elements differ along the reduced axis."""
    waiting, seen = [*op.results], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for reader in readers.get(value, ()):
            result = reader.results[0] if reader.results else None
            if result is None or not isinstance(result.type, Tile):
                continue
            shape = shape_of(result.type)
            if len(shape) == 2 and shape[op.axis] != 1:
                return True
            if len(shape) == 1:
                waiting.append(result)
    return False
