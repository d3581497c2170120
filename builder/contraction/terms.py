"""Terms over indices: the expressions that compute an element of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index
from tileir.types import Element


@attrs.frozen(eq=False)
class Tensor:
    """A row-major array in memory. Two tensors differ even if their names are equal.

    The only element of a tensor `by_value` is passed as a scalar argument instead.
    """

    name: str
    element: Element
    shape: tuple[int, ...]
    by_value: bool = False

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance between neighbours along each dimension, in elements."""
        result = [1]
        for extent in reversed(self.shape[1:]):
            result.insert(0, result[0] * extent)
        return tuple(result[: len(self.shape)])

    def __repr__(self) -> str:
        return self.name


@attrs.frozen
class Number:
    """A literal; `element` None is the type of the other operand."""

    value: int | float | bool
    element: Element | None = None


@attrs.frozen
class Position:
    """The value of an index expression, an i32."""

    at: AffineIndex


@attrs.frozen
class Read:
    """An element of a tensor, at affine or computed (integer) positions.

    Where a `guard` is false, the value is 0 and nothing is read. A position outside of the tensor
    without a guard is undefined. Half precision is computed in f32, integers of fewer than 32 bits
    in i32.
    """

    tensor: Tensor
    at: tuple[AffineIndex | Term, ...]
    guards: tuple[AffineBound, ...] = ()


@attrs.frozen
class Apply:
    """An elementwise application of a function of `functions.FUNCTIONS`."""

    name: str
    arguments: tuple[Term, ...]


@attrs.frozen
class Cast:
    """A conversion, or rounding, to `element`."""

    element: Element
    of: Term


@attrs.frozen
class Choose:
    """A selection: `then` where all conditions are true, else `otherwise`."""

    where: tuple[AffineBound, ...]
    then: Term
    otherwise: Term


@attrs.frozen
class Reduce:
    """A reduction of `of` over the points of the box `over` at which the conditions are true.

    `kind` is `sum`, `product`, `max` or `min`; the order is not specified. Without any point the
    value is `empty`, or the identity of `kind` if `empty` is None.
    """

    kind: str
    over: tuple[tuple[Index, range], ...]
    of: Term
    where: tuple[AffineBound, ...] = ()
    empty: int | float | None = None


Term: TypeAlias = Number | Position | Read | Apply | Cast | Choose | Reduce
"""A scalar expression of the indices: the value of one element."""


def parts(term: Term) -> tuple[Term, ...]:
    """The terms that `term` is made of."""
    match term:
        case Read():
            return tuple(at for at in term.at if not isinstance(at, AffineIndex))
        case Apply():
            return term.arguments
        case Cast() | Reduce():
            return (term.of,)
        case Choose():
            return (term.then, term.otherwise)
        case _:
            return ()


def walk(term: Term) -> Iterator[Term]:
    """Iterate over `term` and all terms in it."""
    yield term
    for part in parts(term):
        yield from walk(part)


def reads(term: Term) -> Iterator[Read]:
    """Return all reads in `term`."""
    return (read for read in walk(term) if isinstance(read, Read))


def bounds(term: Term) -> tuple[AffineBound, ...]:
    """The conditions that `term` itself states."""
    match term:
        case Read():
            return term.guards
        case Choose() | Reduce():
            return term.where
        case _:
            return ()


def free(term: Term) -> frozenset[Index]:
    """Return the indices that `term` depends on."""
    indexes: set[Index] = set()
    for part in parts(term):
        indexes |= free(part)
    for bound in bounds(term):
        indexes |= set(bound.of.indices)
    if isinstance(term, Read):
        indexes |= {i for at in term.at if isinstance(at, AffineIndex) for i in at.indices}
    if isinstance(term, Position):
        indexes |= set(term.at.indices)
    if isinstance(term, Reduce):
        indexes -= {index for index, _ in term.over}
    return frozenset(indexes)


def map_terms(term: Term, change: Callable[[Any], Term]) -> Term:
    """`term` with `change` applied to the terms it is made of."""
    match term:
        case Read():
            at = tuple(x if isinstance(x, AffineIndex) else change(x) for x in term.at)
            return attrs.evolve(term, at=at)
        case Apply():
            return attrs.evolve(term, arguments=tuple(change(x) for x in term.arguments))
        case Cast() | Reduce():
            return attrs.evolve(term, of=change(term.of))
        case Choose():
            return attrs.evolve(term, then=change(term.then), otherwise=change(term.otherwise))
        case _:
            return term


def substitute(term: Term, by: Mapping[Index, AffineIndex]) -> Term:
    """Return `term` with indices replaced by expressions."""
    result = map_terms(term, lambda part: substitute(part, by))
    match result:
        case Position():
            return Position(result.at.substitute(by))
        case Read():
            at = tuple(x.substitute(by) if isinstance(x, AffineIndex) else x for x in result.at)
            return attrs.evolve(
                result, at=at, guards=tuple(g.substitute(by) for g in result.guards)
            )
        case Choose() | Reduce():
            return attrs.evolve(result, where=tuple(bound.substitute(by) for bound in result.where))
        case _:
            return result


def as_guarded_read(term: Term) -> Term:
    """A choice between a read and 0 as a guarded read."""
    match term:
        case Choose(where, Read() as read, Number(0)):
            return attrs.evolve(read, guards=(*read.guards, *where))
        case _:
            return term
