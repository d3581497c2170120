"""Range inference, iterative: a position with one index of unknown range bounds that index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tileir.builder.contraction import AffineIndex, Index
from tileir.frontends.sources import Wrong

_Uses: TypeAlias = Sequence[tuple[AffineIndex, int]]


def infer_ranges(
    indices: Sequence[Index], ranges: Mapping[Index, range], uses: _Uses, guarded: _Uses = ()
) -> dict[Index, range]:
    """Infer the range of every index.

    Clauses state `ranges`; the other ranges are as large as the extents of the tensors allow. In
    each iteration, every position with one index of unknown range bounds that index for all values
    of the other indices. Several bounds are intersected. Conditionally read positions (`guarded`)
    are used only in iterations in which no other position bounds an index. Raises Wrong if an
    iteration bounds no index and indices of unknown range are left.
    """
    result = dict(ranges)
    while unbounded := [index for index in indices if index not in result]:
        limits = _limits(uses, result) or _limits(guarded, result)
        if not limits:
            raise Wrong(
                "TIR1404", f"the range of {_names(unbounded)} is ambiguous: {_advice(unbounded)}"
            )
        result.update(limits)
    return result


def _limits(uses: _Uses, ranges: Mapping[Index, range]) -> dict[Index, range]:
    limits: dict[Index, range] = {}
    for position, extent in uses:
        unknown = [i for i in position.indices if i not in ranges]
        if len(unknown) == 1:
            (index,) = unknown
            span = _solve(position, extent, index, ranges)
            limits[index] = _intersection(limits.get(index, span), span)
    return limits


def _solve(
    position: AffineIndex, extent: int, index: Index, ranges: Mapping[Index, range]
) -> range:
    """The values of `index` with `0 <= position < extent` for all values of the indices of known
    range."""
    n = position.coefficient(index)
    remainder = position - index * n
    if any(not ranges[i] for i in remainder.indices):
        return range(0)
    span = remainder.interval(ranges)
    low, high = -span.start, extent - 1 - (span.stop - 1)
    if n < 0:
        low, high, n = -high, -low, -n
    first, last = -(-low // n), high // n
    return range(first, max(first, last + 1))


def _intersection(x: range, y: range) -> range:
    start, stop = max(x.start, y.start), min(x.stop, y.stop)
    return range(start, max(start, stop))


def _names(indices: Sequence[Index]) -> str:
    return ", ".join(index.name for index in indices)


def _advice(indices: Sequence[Index]) -> str:
    return f"write `where {indices[0].name} in 0:...`"
