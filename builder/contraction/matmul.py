"""Reductions as dots: which multiplicands form operands A and B, and their tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index, affine
from tileir.builder.contraction.axes import AxisTile, TiledAxis
from tileir.builder.contraction.element_types import kind_of
from tileir.builder.contraction.emit import Emitter, guards
from tileir.builder.contraction.functions import call, compute_type
from tileir.builder.contraction.terms import (
    Apply,
    Cast,
    Number,
    Read,
    Reduce,
    Term,
    as_guarded_read,
    free,
)
from tileir.builder.contraction.tile_view import View, over
from tileir.builder.expr import Expr
from tileir.types import BF16, F16, F32, F64, I8, Element, Scalar

MATRICES = frozenset({F16, BF16, F32, F64, I8})
"""Element types of dot operands."""


@attrs.frozen
class MatmulOperands:
    """Operands A and B. The first `rows` dimensions of a view are the rows of the matrix, the
    others its columns."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    rows: int


def multiplicands(term: Term) -> tuple[Term, ...]:
    """The terms that `term` multiplies, or `term` itself."""
    if isinstance(term, Apply) and term.name == "mul":
        return tuple(x for part in term.arguments for x in multiplicands(part))
    if isinstance(term, Cast) and isinstance(term.of, Read) and kind_of(term.of) is term.element:
        return (term.of,)  # what a read is computed in anyway
    return (as_guarded_read(term),)


def sides_of(term: Reduce, view: View) -> MatmulOperands | None:
    """The multiplicands along the first dimensions of a view (operand A) and along the others
    (operand B). None where the reduction is not a dot: it does not add, or a multiplicand or a
    condition depends on dimensions of both sides."""
    if term.kind != "sum" or operand_element(term) is None:
        return None
    indices = [frozenset(at.axis.indices) for at in view.dimensions]
    for rows in range(1, view.rank):
        first, second = (frozenset[Index]().union(*x) for x in (indices[:rows], indices[rows:]))
        if (result := split(term, first, second)) is not None:
            return MatmulOperands(*result, rows)
    return None


def split(
    term: Reduce, rows: frozenset[Index], columns: frozenset[Index]
) -> tuple[tuple[Term, ...], tuple[Term, ...]] | None:
    """The multiplicands that depend on `rows`, and all others; None if one depends on `rows` and on
    `columns`, or if a side does not depend on the reduced indices."""
    result = multiplicands(term.of)
    depends = [free(x) for x in result]
    conditions = [frozenset(bound.of.indices) for bound in term.where]
    if any(d & rows and d & columns for d in (*depends, *conditions)):
        return None
    over_ = {index for index, _ in term.over}
    left = tuple(x for x, d in zip(result, depends, strict=True) if d & rows)
    right = tuple(x for x, d in zip(result, depends, strict=True) if not d & rows)
    if not left or not any(free(x) & columns for x in right):
        return None
    if not any(free(x) & over_ for x in left) or not any(free(x) & over_ for x in right):
        return None
    return left, right


def emit_dots(
    emitter: Emitter, term: Reduce, view: View, axis: TiledAxis, sides: MatmulOperands
) -> Expr:
    """Accumulate dots over the tiles of `axis`."""
    b, rows, columns = emitter.b, view.dimensions[: sides.rows], view.dimensions[sides.rows :]
    ends = tuple(AffineBound(affine(i), span.start, span.stop) for i, span in axis.ranges)
    ours = (*ends, *(x for x in term.where if not _along(x, columns)))
    theirs = (*ends, *(x for x in term.where if not _along(x, rows)))
    kind = operand_element(term)
    assert kind is not None
    shape = prod(view.shape[: sides.rows]), prod(view.shape[sides.rows :])
    total = b.var(b.zeros(shape, compute_type(kind)), name="total")
    with b.for_(0, axis.blocks, name="step", **emitter.loops) as number:
        at = AxisTile(b, axis, number)
        left = _tile(emitter, sides.left, view, (rows, (at,)), ours, kind)
        right = _tile(emitter, sides.right, view, ((at,), columns), theirs, kind)
        total.set(left.dot(right, total.get(), precision=emitter.precision))
    return total.get().reshape(*view.shape)


def _along(bound: AffineBound, dimensions: Sequence[AxisTile]) -> bool:
    return any(set(bound.of.indices) & set(at.axis.indices) for at in dimensions)


def _tile(
    emitter: Emitter,
    terms: Sequence[Term],
    view: View,
    order: tuple[Sequence[AxisTile], Sequence[AxisTile]],
    where: Sequence[AffineBound],
    kind: Scalar,
) -> Expr:
    """`terms` multiplied, as a matrix along both parts of `order` with elements of `kind`. It is 0
    where a condition fails, and is read in the order of memory."""
    new = [at for part in order for at in part if at not in view.dimensions]
    transposed = _runs_along(terms, order[0][-1])
    first, second = order[::-1] if transposed else order
    inner = over(view, new, (*first, *second))
    value = _multiply(emitter, terms, inner)
    missing = [x for x in inner.beyond(where) if not _is_covered(terms, x, inner)]
    if missing:
        value = emitter.b.where(inner.mask(missing), value, 0)
    value = value.to(kind).broadcast_to(*inner.shape)
    rows = prod(inner.shape[: len(first)])
    value = value.reshape(rows, prod(inner.shape) // rows)
    return value.T if transposed else value


def _multiply(emitter: Emitter, terms: Sequence[Term], view: View) -> Expr:
    if len(terms) == 1 and isinstance(terms[0], Read):
        return emitter.read(terms[0], view)
    result: Any = emitter.term(terms[0], view)
    for term in terms[1:]:
        result = call(emitter.b, "mul", (result, emitter.term(term, view)))
    return result if isinstance(result, Expr) else emitter.value(Number(result), view)


def _is_covered(terms: Sequence[Term], bound: AffineBound, view: View) -> bool:
    """Whether a single read is 0 where `bound` fails."""
    if len(terms) != 1 or not isinstance(terms[0], Read) or terms[0].tensor.by_value:
        return False
    return any(guard.implies(bound) for guard in view.beyond(guards(terms[0])))


def _runs_along(terms: Sequence[Term], at: AxisTile) -> bool:
    """Whether the elements of a single read are contiguous along the first dimension."""
    if len(terms) != 1 or not isinstance(terms[0], Read):
        return False
    return contiguous(terms[0]) in at.axis.indices[-1:]


def contiguous(read: Read) -> Index | None:
    """The index whose neighbours are neighbours in memory; the last of several."""
    result = neighbours(read)
    return result[-1] if result else None


def neighbours(read: Read) -> list[Index]:
    """The indices whose neighbours are neighbours in memory."""
    if not read.at or not isinstance(read.at[-1], AffineIndex):
        return []
    outer = {i for at in read.at[:-1] if isinstance(at, AffineIndex) for i in at.indices}
    return [i for i, n in read.at[-1].terms if n == 1 and i not in outer]


def operand_element(term: Reduce) -> Scalar | None:
    """The element type of the operands of a dot: that of memory or of a cast where all
    multiplicands have the same, else the type that `term` is computed in. None where a dot has no
    such operands."""
    stated = {_stated_element(x) for x in multiplicands(term.of)}
    kind = stated.pop() if len(stated) == 1 else None
    kind = kind_of(term) if kind is None else kind
    return kind if isinstance(kind, Scalar) and kind in MATRICES else None


def _stated_element(term: Term) -> Element | None:
    if isinstance(term, Read):
        return term.tensor.element
    if not isinstance(term, Cast):
        return None
    inner = term.of
    exact = isinstance(inner, Cast) and compute_type(inner.element) is term.element
    return inner.element if exact and isinstance(inner, Cast) else term.element
