"""Reductions of many values to few elements, in two steps: partial results in parallel, then their
combination."""

from __future__ import annotations

from math import prod

import attrs

from tileir.builder.contraction.affine import AffineBound, Index, affine
from tileir.builder.contraction.element_types import scalar_kind
from tileir.builder.contraction.functions import JOININGS
from tileir.builder.contraction.kernel import grid_of
from tileir.builder.contraction.stage import ComputeStage
from tileir.builder.contraction.terms import Read, Reduce, Tensor, Term, map_terms, substitute, walk
from tileir.builder.contraction.tile_sizes import INSTANCES, matrix_sides, tiling

LEAST = 1 << 14
"""The fewest values that an instance combines."""


def split_reduction(stage: ComputeStage) -> tuple[ComputeStage, ...]:
    """`stage`; if its only reduction is over many points for few elements, a stage of partial
    results and one that combines them."""
    reductions = [term for term in walk(stage.term) if isinstance(term, Reduce)]
    if len(reductions) != 1 or not _divides(stage, reductions[0]):
        return (stage,)
    (term,) = reductions
    chosen = tiling(stage)
    instances = grid_of(chosen)
    values = prod(len(span) for _, span in term.over) * prod(axis.tile for axis in chosen.axes)
    longest = max((len(span) for _, span in term.over), default=0)
    parts = min(INSTANCES // max(1, instances), values // LEAST, longest)
    if instances >= INSTANCES // 4 or parts < 2:
        return (stage,)
    return _in_two(stage, term, parts)


def _divides(stage: ComputeStage, term: Reduce) -> bool:
    """Whether partial results can be combined: the result for no points must be the identity."""
    if matrix_sides(stage, term) is not None:
        return False
    return term.empty is None or term.empty == JOININGS[term.kind].neutral(scalar_kind(term))


def _in_two(stage: ComputeStage, term: Reduce, parts: int) -> tuple[ComputeStage, ComputeStage]:
    """The longest index as `part * length + inner`."""
    index, span = max(term.over, key=lambda x: len(x[1]))
    length = -(-len(span) // parts)
    part, inner, outer = Index("part"), Index(index.name), Index("part")
    place = part * length + inner + span.start
    over = tuple((inner, range(length)) if i is index else (i, s) for i, s in term.over)
    where = [bound.substitute({index: place}) for bound in term.where]
    if length * parts != len(span):
        where.append(AffineBound(place, span.start, span.stop))
    result = attrs.evolve(
        term, over=over, of=substitute(term.of, {index: place}), where=tuple(where), empty=None
    )
    shape = (*(len(s) for _, s in stage.elements), parts)
    partial = Tensor(f"{stage.output.name}_parts", scalar_kind(term), shape)
    at = tuple(affine(i) - s.start for i, s in stage.elements)
    elements = (*stage.elements, (part, range(parts)))
    first = ComputeStage(partial, elements, (*at, affine(part)), result, stage.location)
    read = Read(partial, (*at, affine(outer)))
    joined = Reduce(term.kind, ((outer, range(parts)),), read, empty=term.empty)
    return first, attrs.evolve(stage, term=_with(stage.term, term, joined))


def _with(term: Term, old: Term, new: Term) -> Term:
    return new if term is old else map_terms(term, lambda part: _with(part, old, new))
