"""Reductions as loops over tiles."""

from __future__ import annotations

from typing import Any

from tileir.builder.contraction.affine import AffineBound, affine
from tileir.builder.contraction.axes import AxisTile, TiledAxis
from tileir.builder.contraction.element_types import scalar_kind
from tileir.builder.contraction.emit import Emitter, element
from tileir.builder.contraction.functions import JOININGS
from tileir.builder.contraction.matmul import emit_dots, sides_of
from tileir.builder.contraction.terms import Reduce, free
from tileir.builder.contraction.tile_view import View, over
from tileir.builder.expr import Expr
from tileir.types import I1

UNROLLED = 16
"""The most iterations of a loop that is unrolled."""


def emit_reduction(emitter: Emitter, term: Reduce, view: View) -> Any:
    """`term` in a view: by dots where its operands allow that."""
    if any(not span for _, span in term.over) or _never(term, view):
        return _of_nothing(emitter, term)
    axis = emitter.walks(term, view)
    sides = sides_of(term, view)
    if sides is not None and axis.tile > 1:
        return emit_dots(emitter, term, view, axis, sides)
    return _Loop(emitter, term, view, axis).run()


def _never(term: Reduce, view: View) -> bool:
    spans = {**view.spans, **dict(term.over)}
    return any(bound.fails(spans) for bound in term.where)


def _of_nothing(emitter: Emitter, term: Reduce) -> Any:
    kind = scalar_kind(term)
    neutral = JOININGS[term.kind].neutral(kind)
    return emitter.b.constant(kind, neutral if term.empty is None else term.empty)


class _Loop:
    """One reduction, elementwise: every lane combines its elements, then lanes are combined."""

    def __init__(self, emitter: Emitter, term: Reduce, view: View, axis: TiledAxis) -> None:
        self.emitter, self.b, self.term, self.view, self.axis = (
            emitter, emitter.b, term, view, axis,
        )  # fmt: skip
        ends = tuple(AffineBound(affine(i), span.start, span.stop) for i, span in axis.ranges)
        self.where = (*term.where, *ends)
        extents = over(view, [], view.dimensions).extents(free(term))
        self.shape = (*extents, axis.tile) if axis.tile > 1 else extents

    def run(self) -> Any:
        """Emit the loop and return its result, combined over all lanes."""
        if self.axis.blocks <= UNROLLED:
            total, any_point = self._unrolled_loop()
        else:
            total, any_point = self._loop()
        if self.axis.tile > 1:
            place = len(total.shape) - 1
            total = total.reduce(place, JOININGS[self.term.kind].op(element(total)))
            any_point = None if any_point is None else any_point.reduce(place, "or")
        if any_point is None:
            return total
        return self.b.where(any_point, total, self._empty)

    @property
    def _empty(self) -> Any:
        return self.term.empty

    def _unrolled_loop(self) -> tuple[Expr, Expr | None]:
        total, any_point = self._tile_values(0)
        for number in range(1, self.axis.blocks):
            value, holds = self._tile_values(number)
            total, any_point = self._combine(total, value), self._or(any_point, holds)
        return total, any_point

    def _loop(self) -> tuple[Expr, Expr | None]:
        kind = scalar_kind(self.term)
        neutral = self.b.constant(kind, JOININGS[self.term.kind].neutral(kind))
        total = self.b.var(self._full(neutral), name="total")
        any_point = self.b.var(self._full(self.b.constant(I1, 0)), name="seen")
        with self.b.for_(0, self.axis.blocks, name="step", **self.emitter.loops) as number:
            value, holds = self._tile_values(number)
            total.set(self._combine(total.get(), value))
            if holds is not None:
                any_point.set(any_point.get() | holds)
        return total.get(), None if holds is None else any_point.get()

    def _tile_values(self, number: Any) -> tuple[Expr, Expr | None]:
        """The values of one tile, with the identity where conditions are false; and the mask of the
        conditions, if it is requested."""
        at = AxisTile(self.b, self.axis, number)
        view = over(self.view, [at], (*self.view.dimensions, at))
        value = self.emitter.value(self.term.of, view).to(scalar_kind(self.term))
        joining = JOININGS[self.term.kind]
        mask = view.mask(self.where)
        neutral = joining.neutral(element(value))
        if mask is not None:
            value = self.b.where(mask, value, neutral)
        has_default = self.term.empty is not None and self.term.empty != neutral
        if not has_default or self._always():
            return self._full(value), None
        return self._full(value), self._full(self.b.constant(I1, 1) if mask is None else mask)

    def _always(self) -> bool:
        """Whether every element has at least one value to reduce."""
        spans = {**self.view.spans, **dict(self.term.over)}
        return all(bound.holds(spans) for bound in self.term.where)

    def _full(self, value: Expr) -> Expr:
        return value.broadcast_to(*self.shape) if self.shape else value

    def _combine(self, x: Expr, y: Expr) -> Expr:
        op = JOININGS[self.term.kind].op(element(x))
        return self.b.insert(op, x, y)

    def _or(self, x: Expr | None, y: Expr | None) -> Expr | None:
        return x if y is None or x is None else x | y
