"""Affine forms of values: the results of the affine analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from tileir.analysis.polynomial import Lane, Polynomial
from tileir.op import Op
from tileir.values import Value


@attrs.frozen(weakref_slot=False)
class AffineForm:
    """`base` + `offset`: an integer (no base), or a pointer, `offset` in elements.

    The form is exact if none of the ops `assuming` wraps as a signed operation. If one wraps, the
    value may be another number."""

    base: Value | None
    offset: Polynomial
    assuming: frozenset[Op] = frozenset()

    def stride(self, dimension: int) -> Polynomial | None:
        """Distance of neighbours along `dimension` of the tile; None where it varies."""
        return self.offset.coefficient(Lane(dimension))


@attrs.frozen(weakref_slot=False)
class MaskComparison:
    """A comparison of two integers of a mask, lane by lane: `left` `relation` `right`."""

    left: AffineForm
    relation: str
    right: AffineForm


Form: TypeAlias = AffineForm | tuple[MaskComparison, ...] | None
"""An integer or pointer; the bounds that make up a mask; nothing."""

Facts: TypeAlias = Sequence[Form]
