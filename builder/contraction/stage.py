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
    """A stage: `output[at] = term` for every point of `elements` whose position is in the output.

    The points cover the output, each element once.
    """

    output: Tensor
    elements: tuple[tuple[Index, range], ...]
    at: tuple[AffineIndex, ...]
    term: Term
    location: Location | None = None

    @property
    def where(self) -> tuple[AffineBound, ...]:
        """The conditions under which a point exists."""
        ends = (AffineBound(affine(i), span.start, span.stop) for i, span in self.elements)
        inside = (AffineBound(e, 0, n) for e, n in zip(self.at, self.output.shape, strict=True))
        return (*inside, *ends)


@attrs.frozen(eq=False)
class Tiling:
    """The schedule of a stage.

    Each program instance computes a tile of `axes`. The axes contain every index of the elements
    once; neighbouring instances differ in the last axis. `walks` are the tiles of reductions; the
    reductions without one follow `choices`. `group` tiles along the first axis share one tile of
    the second axis before the next one begins, so that operands stay in the cache. The backend
    chooses every value that is None.
    """

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
    """Return the stage `output[indices] = term` for every element of the output, or for its only
    element if it has no dimension."""
    _check_points(term)
    spans = tuple((i, range(n)) for i, n in zip(indices, output.shape, strict=True))
    return ComputeStage(output, spans, tuple(affine(i) for i in indices), term, location)


def _check_points(term: Term) -> None:
    """Raises BuildError (TIR0802) for a reduction over 2^31 points or more."""
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
    """Return the stage `output[at] = term` over the points of the box `ranges` that satisfy the
    conditions.

    Terms with the same position are combined by `kind`; positions without a term get `empty`.
    Points whose position is not in the output write nothing. For the kind `assign`, all positions
    must differ.

    Raises BuildError (TIR0812) if that cannot be proved.
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
    """An assignment, with indices of a single value replaced by this value. Raises BuildError
    (TIR0812) for other indices, because several points would write one element."""
    for index, span in over:
        if len(span) > 1:
            message = f"elements are assigned more than once, for every {index} of {len(span)}"
            raise mistake("TIR0812", message)
    fixed = {index: AffineIndex((), span.start) for index, span in over}
    where = tuple(bound.substitute(fixed) for bound in where)
    return (), substitute(term, fixed), where
