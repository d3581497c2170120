"""One tensor, computed element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import attrs

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index, affine
from tileir.builder.contraction.axes import TiledAxis
from tileir.builder.contraction.solve_outputs import solve
from tileir.builder.contraction.terms import Choose, Number, Reduce, Tensor, Term, substitute, walk
from tileir.builder.errors import mistake
from tileir.errors import Location


@attrs.frozen(eq=False)
class ComputeStage:
    """`output[at] = term` for every point of `elements` that is in the output; together they
    cover it, each element once."""

    output: Tensor
    elements: tuple[tuple[Index, range], ...]
    at: tuple[AffineIndex, ...]
    term: Term
    location: Location | None = None

    @property
    def where(self) -> tuple[AffineBound, ...]:
        """The points that there are."""
        ends = (AffineBound(affine(i), span.start, span.stop) for i, span in self.elements)
        inside = (AffineBound(e, 0, n) for e, n in zip(self.at, self.output.shape, strict=True))
        return (*inside, *ends)


@attrs.frozen(eq=False)
class Tiling:
    """How a stage is computed: each instance a tile of `axes`, which hold every index of its
    elements once, the last with neighbouring instances; `walks` are the tiles of its reductions,
    others go as `choices` has it. `group`: so many tiles along the first axis share the second's
    before the next, which keeps what they read in the cache. What is None the backend chooses."""

    axes: tuple[TiledAxis, ...]
    walks: Mapping[Reduce, TiledAxis] = attrs.field(factory=dict[Reduce, TiledAxis])
    group: int = 1
    num_warps: int | None = None
    stages: int | None = None
    unroll: int | None = None
    precision: str = "ieee"


def elementwise(
    output: Tensor, indices: Sequence[Index], term: Term, location: Location | None = None
) -> ComputeStage:
    """`output[indices] = term` of every element; where the output has no dimension, of its only
    one."""
    _check_points(term)
    spans = tuple((i, range(n)) for i, n in zip(indices, output.shape, strict=True))
    return ComputeStage(output, spans, tuple(affine(i) for i in indices), term, location)


def _check_points(term: Term) -> None:
    """Raises BuildError (TIR0802) for a reduction that i32 does not count the points of."""
    for part in walk(term):
        if isinstance(part, Reduce):
            points = prod(span.stop - span.start for _, span in part.over)
            if points >= 1 << 31:
                raise mistake("TIR0802", f"a reduction over {points} points: fewer than 2^31")


def contraction(
    output: Tensor,
    at: Sequence[AffineIndex],
    kind: str,
    term: Term,
    ranges: Mapping[Index, range],
    where: Sequence[AffineBound] = (),
    empty: int | float | None = None,
    location: Location | None = None,
) -> ComputeStage:
    """`output[at] = term`, joined by `kind` where several points of the box `ranges` at which the
    conditions hold have one position; `empty` where none has. Points whose position is not in the
    output write nothing. Of the kind `assign` no two points may have one position.

    Raises BuildError (TIR0812) where that is not certain.
    """
    result = solve([affine(e) for e in at], output.shape, ranges)
    conditions = tuple(bound.substitute(result.substitution) for bound in where) + result.where
    inner = substitute(term, result.substitution)
    over = tuple((i, span) for i, span in result.over.items())
    if kind == "assign":
        over, inner, conditions = assignment(over, inner, conditions)
        zero = Number(0 if empty is None else empty)
        reduce: Term = Choose(conditions, inner, zero) if conditions else inner
    else:
        reduce = Reduce(kind, over, inner, conditions, empty)
    _check_points(reduce)
    return ComputeStage(output, tuple(result.elements.items()), result.at, reduce, location)


def assignment(
    over: tuple[tuple[Index, range], ...], term: Term, where: tuple[AffineBound, ...]
) -> tuple[tuple[tuple[Index, range], ...], Term, tuple[AffineBound, ...]]:
    """An assignment, with indices of one value replaced by it. Raises BuildError (TIR0812) for
    others: several points would write one element."""
    for index, span in over:
        if len(span) > 1:
            message = f"elements are assigned more than once, for every {index} of {len(span)}"
            raise mistake("TIR0812", message)
    fixed = {index: AffineIndex((), span.start) for index, span in over}
    where = tuple(bound.substitute(fixed) for bound in where)
    return (), substitute(term, fixed), where
