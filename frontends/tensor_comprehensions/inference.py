"""Range inference: rounds in which positions with one unknown index bound it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tileir.builder.contraction import Affine, Index
from tileir.frontends.sources import Wrong

_Uses: TypeAlias = Sequence[tuple[Affine, int]]


def inferred(
    indices: Sequence[Index], said: Mapping[Index, range], uses: _Uses, guarded: _Uses = ()
) -> dict[Index, range]:
    """The range of every index: those `said` by clauses, and others as large as no position leaves
    its extent.

    In each round, every position with a single index that has no range yet bounds it, for all
    values of the indices that have one; of several such bounds the intersection counts. What a
    condition guards is looked at in rounds in which nothing else bounds an index. Raises Wrong
    where a round finds nothing and indices are left.
    """
    found = dict(said)
    while left := [index for index in indices if index not in found]:
        limits = _round(uses, found) or _round(guarded, found)
        if not limits:
            raise Wrong("TIR1404", f"the range of {_named(left)} is ambiguous: {_advice(left)}")
        found.update(limits)
    return found


def _round(uses: _Uses, found: Mapping[Index, range]) -> dict[Index, range]:
    limits: dict[Index, range] = {}
    for position, extent in uses:
        unknown = [i for i in position.indices if i not in found]
        if len(unknown) == 1:
            (index,) = unknown
            span = _solved(position, extent, index, found)
            limits[index] = _both(limits.get(index, span), span)
    return limits


def _solved(position: Affine, extent: int, index: Index, known: Mapping[Index, range]) -> range:
    """The values of `index` with `0 <= position < extent` for all values of what is known."""
    n = position.coefficient(index)
    rest = position - index * n
    if any(not known[i] for i in rest.indices):
        return range(0)
    span = rest.interval(known)
    low, high = -span.start, extent - 1 - (span.stop - 1)
    if n < 0:
        low, high, n = -high, -low, -n
    first, last = -(-low // n), high // n
    return range(first, max(first, last + 1))


def _both(x: range, y: range) -> range:
    start, stop = max(x.start, y.start), min(x.stop, y.stop)
    return range(start, max(start, stop))


def _named(indices: Sequence[Index]) -> str:
    return ", ".join(index.name for index in indices)


def _advice(indices: Sequence[Index]) -> str:
    return f"write `where {indices[0].name} in 0:...`"
