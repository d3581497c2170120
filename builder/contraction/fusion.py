"""Fusion of stages: a stage is computed where it is read, instead of in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from tileir.builder.contraction.affine import AffineIndex, Index, affine
from tileir.builder.contraction.element_types import kind_of
from tileir.builder.contraction.functions import compute_type
from tileir.builder.contraction.stage import ComputeStage
from tileir.builder.contraction.terms import (
    Apply,
    Cast,
    Choose,
    Number,
    Read,
    Reduce,
    Tensor,
    Term,
    as_guarded_read,
    map_terms,
    reads,
    substitute,
    walk,
)
from tileir.builder.contraction.tile_sizes import matrix_sides
from tileir.types import Element

CHEAP = 8
"""The most functions in a stage that may be recomputed for every element that reads it."""


def fuse(stages: Sequence[ComputeStage], results: Iterable[Tensor]) -> tuple[ComputeStage, ...]:
    """Remove dead stages, and inline stages into their readers where that saves memory traffic.

    `stages` are in dependence order. Elementwise stages are inlined unless much would be
    recomputed. A reduction is inlined into the only elementwise stage that reads it element by
    element. The tensors `results` are always written. No value changes.
    """
    remaining = list(stages)
    for output in [s.output for s in stages if s.output not in results]:
        stage = next(s for s in remaining if s.output is output)
        readers = [s for s in remaining if _reads_of(s.term, output)]
        if not readers or (inlinable(stage) and _worth(stage, readers)):
            remaining = [inline(s, stage) for s in remaining if s is not stage]
    return tuple(remaining)


def inlinable(stage: ComputeStage) -> bool:
    """Whether its elements can be computed at any position."""
    return stage.at == tuple(affine(i) for i, _ in stage.elements)


def inline(reader: ComputeStage, stage: ComputeStage) -> ComputeStage:
    """Return `reader` with reads of the output of `stage` replaced by the term of `stage`.

    The term is rounded as if it were stored to memory and loaded.
    """
    return attrs.evolve(reader, term=_with(reader.term, stage))


def _with(term: Term, stage: ComputeStage) -> Term:
    read = map_terms(term, lambda part: _with(part, stage))
    if not isinstance(read, Read) or read.tensor is not stage.output:
        return read
    by = {
        index: at
        for (index, _), at in zip(stage.elements, read.at, strict=True)
        if isinstance(at, AffineIndex)
    }
    result = as_read(stage.output.element, substitute(stage.term, by))
    return guard(result, read) if read.guards else result


def guard(term: Term, read: Read) -> Term:
    """`term` where the guards of `read` hold, else 0."""
    if isinstance(term, Read):
        return attrs.evolve(term, guards=(*term.guards, *read.guards))
    return Choose(read.guards, term, Number(0))


def as_read(element: Element, term: Term) -> Term:
    """`term` as it is after it was stored as `element` and read."""
    term = as_guarded_read(term)
    if isinstance(term, Read) and term.tensor.element is element:
        return term
    kind = kind_of(term)
    exact = compute_type(element) is element
    if exact and kind is element and not (isinstance(term, Number) and term.element is None):
        return term
    stored = Cast(element, term)
    return stored if exact else Cast(compute_type(element), stored)


# Profitability ------------------------------------------------------------------------------


def _worth(stage: ComputeStage, readers: Sequence[ComputeStage]) -> bool:
    result = [r for reader in readers for r in _reads_of(reader.term, stage.output)]
    if any(not isinstance(at, AffineIndex) for read in result for at in read.at):
        return False
    work = sum(isinstance(t, (Apply, Reduce)) for t in walk(stage.term))
    if any(isinstance(t, Reduce) for t in walk(stage.term)):
        return len(readers) == 1 and _element_by_element(stage, readers[0], result)
    if isinstance(as_guarded_read(stage.term), (Read, Number)):
        return True
    is_recomputed = any(_in_reduction(reader.term, stage.output) for reader in readers)
    if is_recomputed or len(readers) > 1:
        return work <= CHEAP and not (is_recomputed and any(_is_matmul(r) for r in readers))
    return len(set(result)) * work <= 4 * CHEAP


def _element_by_element(stage: ComputeStage, reader: ComputeStage, reads: Sequence[Read]) -> bool:
    """Whether every element of a stage is needed once, by one element of its reader."""
    if any(isinstance(t, Reduce) for t in walk(reader.term)):
        return False
    spans: Mapping[Index, range] = dict(reader.elements)
    positions = {read.at for read in reads}
    if len(positions) != 1 or any(read.guards for read in reads):
        return False
    indices = [
        at.indices[0] for at in positions.pop() if isinstance(at, AffineIndex) and at.indices
    ]
    same = [spans.get(i) for i in indices] == [span for _, span in stage.elements]
    exact = {affine(i) for i in indices} == {at for read in reads for at in read.at}
    return same and exact and set(indices) == spans.keys()


def _reads_of(term: Term, tensor: Tensor) -> list[Read]:
    return [read for read in reads(term) if read.tensor is tensor]


def _in_reduction(term: Term, tensor: Tensor) -> bool:
    inner = (t for t in walk(term) if isinstance(t, Reduce))
    return any(_reads_of(t, tensor) for t in inner)


def _is_matmul(stage: ComputeStage) -> bool:
    result = (t for t in walk(stage.term) if isinstance(t, Reduce))
    return any(matrix_sides(stage, t) is not None for t in result)
