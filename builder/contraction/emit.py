"""Terms as operations on tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tileir.builder.builder import Builder
from tileir.builder.contraction import functions
from tileir.builder.contraction.affine import AffineBound, AffineIndex
from tileir.builder.contraction.axes import TiledAxis
from tileir.builder.contraction.element_types import scalar_kind
from tileir.builder.contraction.terms import (
    Apply,
    Cast,
    Choose,
    Number,
    Position,
    Read,
    Reduce,
    Tensor,
    Term,
)
from tileir.builder.contraction.tile_view import View
from tileir.builder.expr import Expr
from tileir.types import I32, element_of


@attrs.frozen(eq=False)
class Emitter:
    """Emits the code of a stage.

    `arguments` are the pointers of tensors, and the values of tensors passed by value. `walks`
    returns the tiles of a reduction's axis, `reduces` emits a reduction, `precision` is the
    precision of dots.
    """

    b: Builder
    arguments: Mapping[Tensor, Expr]
    walks: Callable[[Reduce, View], TiledAxis]
    reduces: Callable[[Emitter, Reduce, View], Any]
    precision: str = "ieee"
    loops: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    """Options of loops."""

    def term(self, term: Term, view: View) -> Any:
        """`term` in a view: a number, or a value with the shape of the view, or with extent 1 along
        dimensions that it does not depend on."""
        if term not in view.values:
            view.values[term] = self._emit(term, view)
        return view.values[term]

    def value(self, term: Term, view: View) -> Expr:
        """`term` as a value."""
        expr = self.term(term, view)
        if isinstance(expr, Expr):
            return expr
        return self.b.constant(functions.number_kind(expr), expr)

    def _emit(self, term: Term, view: View) -> Any:
        match term:
            case Number():
                return self._number(term)
            case Position():
                return view.value(term.at)
            case Read():
                result = self.read(term, view)
                return result.to(functions.compute_type(term.tensor.element))
            case Apply():
                arguments = tuple(self.term(x, view) for x in term.arguments)
                return functions.call(self.b, term.name, arguments)
            case Cast():
                return self.value(term.of, view).to(term.element)
            case Choose():
                return self._emit_choice(term, view)
            case Reduce():
                return self.reduces(self, term, view)

    def _number(self, term: Number) -> Any:
        if term.element is None:
            return term.value
        return self.b.constant(term.element, term.value)

    def _emit_choice(self, term: Choose, view: View) -> Any:
        if any(bound.fails(view.spans) for bound in term.where):
            return self._arm(term, term.otherwise, view)
        mask = view.mask(term.where)
        if mask is None:
            return self._arm(term, term.then, view)
        arms = self.term(term.then, view), self.term(term.otherwise, view)
        return functions.call(self.b, "select", (mask, *arms))

    def _arm(self, term: Choose, arm: Term, view: View) -> Expr:
        """The arm of a choice whose conditions are constant; a number gets the common type."""
        result = self.term(arm, view)
        return result if isinstance(result, Expr) else self.b.constant(scalar_kind(term), result)

    # Memory -----------------------------------------------------------------------------------

    def read(self, term: Read, view: View) -> Expr:
        """The elements as they are in memory."""
        argument = self.arguments[term.tensor]
        if term.tensor.by_value:
            return argument
        if any(guard.fails(view.spans) for guard in term.guards):
            return self.b.constant(term.tensor.element, 0)
        pointer, mask = self.address(term.tensor, term.at, view), self.read_mask(term, view)
        zero = 0.0 if functions.is_float(self.b.undef(term.tensor.element)) else 0
        return pointer.load() if mask is None else pointer.load(mask, zero)

    def address(self, tensor: Tensor, at: tuple[AffineIndex | Term, ...], view: View) -> Expr:
        """Pointers to elements: a base that all lanes share, plus the offsets of the lanes."""
        constant_part, computed = AffineIndex(), None
        for stride, position in zip(tensor.strides, at, strict=True):
            if isinstance(position, AffineIndex):
                constant_part += position * stride
            else:
                result = self.value(position, view).to(I32) * stride
                computed = result if computed is None else computed + result
        shared, lanes = view.split(constant_part)
        pointer = self.arguments[tensor]
        if not isinstance(shared, int) or shared:
            pointer = pointer + shared
        for more in (lanes, computed):
            pointer = pointer if more is None else pointer + more
        return pointer

    def read_mask(self, term: Read, view: View) -> Any:
        """The mask of a read; None for all lanes."""
        mask = view.mask(guards(term))
        for position, extent in zip(term.at, term.tensor.shape, strict=True):
            if not isinstance(position, AffineIndex):
                inside = self.value(position, view).to(I32).ult(extent)
                mask = inside if mask is None else mask & inside
        return mask


def guards(term: Read) -> tuple[AffineBound, ...]:
    """The conditions of a read: its own ones, and that its position is in the tensor."""
    inside = (
        AffineBound(position, 0, extent)
        for position, extent in zip(term.at, term.tensor.shape, strict=True)
        if isinstance(position, AffineIndex)
    )
    return (*term.guards, *inside)


def element(value: Expr) -> Any:
    """The type of a value's elements."""
    return element_of(value.type)
