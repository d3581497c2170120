"""The mask of a footprint: the masks of its windows in terms of rows and columns.

A comparison in a mask is one of two kinds. A `HalfPlane` depends only on the position of the
element, whichever window reads it (`inside the image`). An `IndexBound` depends only on the index
along one dimension of the tile (`inside the output`): an element is then read if any index that
maps to it passes, and the most permissive of these indices decides. Every window must make each
comparison, or others that imply it. No element is then loaded that no window would have loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import TypeAlias

import attrs

from tileir.analysis.affine import AffineForms
from tileir.analysis.affine_forms import AffineForm, MaskComparison
from tileir.analysis.polynomial import Iteration, Lane, Polynomial, ProgramIndex, Symbol, number
from tileir.analysis.ranges import Ranges
from tileir.backend.halo.footprint import Footprint, Window
from tileir.backend.halo.split_forms import (
    SplitForm,
    Varies,
    divide_exactly,
    fold_fixed,
    scale,
    split_form,
)
from tileir.op import Op
from tileir.values import Operand, Value


@attrs.frozen
class HalfPlane:
    """`rows` r + `columns` c + `rest` >= 0 for the element in row r and column c."""

    rows: Polynomial
    columns: Polynomial
    rest: Polynomial


@attrs.frozen
class IndexBound:
    """`step` i + `rest` >= 0 for the index i along dimension `dim` of the windows. The deciding
    index of a row r (a column, if `axis` is 1) is max(r - `reach`, r mod `modulus`) / `stride`,
    rounded up; with a positive step, min(r / `stride`, `last`), rounded down."""

    dim: int
    step: int
    rest: Polynomial
    axis: int
    stride: int
    reach: int
    modulus: int
    last: int


Condition: TypeAlias = HalfPlane | IndexBound


def common_conditions(
    footprint: Footprint, forms: AffineForms, bounds: Ranges, varies: Varies, updates: frozenset[Op]
) -> list[Condition] | None:
    """The conditions that all windows of a footprint have in common; None where their masks differ
    or have another form."""
    per_window = [_mask_comparisons(w, forms, varies, updates) for w in footprint.windows]
    comparisons_by_window = [comparison for comparison in per_window if comparison is not None]
    if len(comparisons_by_window) < len(per_window):
        return None
    shared: list[Condition] = []
    for window, comparisons in zip(footprint.windows, comparisons_by_window, strict=True):
        for comparison in comparisons:
            kind = next(
                _conditions_of_all(comparison, window, footprint, comparisons_by_window, bounds),
                None,
            )
            if kind is None:
                return None
            if kind not in shared:
                shared.append(kind)
    return shared if _are_separable(shared) else None


def _conditions_of_all(
    comparison: SplitForm,
    window: Window,
    footprint: Footprint,
    comparisons_by_window: Sequence[Sequence[SplitForm]],
    bounds: Ranges,
) -> Iterator[Condition]:
    """The conditions equivalent to a comparison of `window` that the masks of all windows imply."""
    for kind in (
        _as_half_plane(comparison, window),
        _as_index_bound(comparison, window, footprint),
    ):
        if kind is not None and all(
            _is_implied(_in_window(kind, other), comparisons, bounds)
            for other, comparisons in zip(footprint.windows, comparisons_by_window, strict=True)
        ):
            yield kind


def _mask_comparisons(
    window: Window, forms: AffineForms, varies: Varies, updates: frozenset[Op]
) -> list[SplitForm] | None:
    """The comparisons of the mask of `window`, as forms that must be at least 0; None where a
    comparison is not affine."""
    mask: Operand | None = window.read.op.mask
    if mask is None:
        return []
    bounds = forms.bounds(mask)
    if bounds is None:
        return None
    at_least_zero = [_nonnegative_form(bound, updates) for bound in bounds]
    split = [split_form(form, varies) for form in at_least_zero if form is not None]
    settled_forms = [fold_fixed(part, window.read.fixed) for part in split if part is not None]
    return settled_forms if len(settled_forms) == len(bounds) else None


def _nonnegative_form(bound: MaskComparison, updates: frozenset[Op]) -> Polynomial | None:
    """The form that is at least 0 exactly where `bound` holds; None where there is none."""
    left, right = bound.left, bound.right
    if (left.assuming | right.assuming) - updates:
        return None
    return _difference(bound.relation, left, right)


def _difference(relation: str, left: AffineForm, right: AffineForm) -> Polynomial | None:
    match relation:
        case "slt":
            return right.offset - left.offset - number(1)
        case "sle":
            return right.offset - left.offset
        case "sgt":
            return left.offset - right.offset - number(1)
        case "sge":
            return left.offset - right.offset
        case _:
            return None


def _as_half_plane(comparison: SplitForm, window: Window) -> HalfPlane | None:
    """A comparison as a half plane; None where it depends on more than row and column."""
    coefficients = [number(0), number(0)]
    for axis in (0, 1):
        for symbol, step in window.steps.items():
            if step[axis] and not step[1 - axis]:
                coefficient = divide_exactly(comparison.steps.get(symbol, number(0)), step[axis])
                if coefficient is None:
                    return None
                coefficients[axis] = coefficient
    for symbol in (*window.steps, *comparison.steps):
        step = window.steps.get(symbol, (0, 0))
        expected = scale(coefficients[0], step[0]) + scale(coefficients[1], step[1])
        if comparison.steps.get(symbol, number(0)) != expected:
            return None
    first = scale(coefficients[0], window.first[0]) + scale(coefficients[1], window.first[1])
    return HalfPlane(coefficients[0], coefficients[1], comparison.rest - first)


def _as_index_bound(
    comparison: SplitForm, window: Window, footprint: Footprint
) -> IndexBound | None:
    """A comparison as a bound of one index of the tile; None where it depends on more."""
    if len(comparison.steps) != 1:
        return None
    ((symbol, form),) = comparison.steps.items()
    size = form.constant
    if not isinstance(symbol, Lane) or size is None:
        return None
    dim, step = symbol.dimension, window.lane(symbol.dimension)
    if not any(step):
        return None
    axis = 0 if step[0] else 1
    offsets = {n for w in footprint.windows for n in _offsets_along(w, dim, axis)}
    modulus = gcd(*offsets) if step[axis] == 1 else 1
    last = window.read.shape[dim] - 1
    bound = IndexBound(
        dim, size, comparison.rest, axis, step[axis], max(offsets), modulus or 1, last
    )
    return bound if _is_exact(bound, footprint) else None


def _is_exact(bound: IndexBound, footprint: Footprint) -> bool:
    """Whether the deciding index of every row (or column) is the most permissive index that maps
    to it."""
    extent = (footprint.height, footprint.width)[bound.axis]
    reached: dict[int, set[int]] = {at: set() for at in range(extent)}
    if not _have_one_shape(footprint) or not _origins_form_a_grid(footprint):
        return False
    for window in footprint.windows:
        offsets = _offsets_along(window, bound.dim, bound.axis)
        for index in range(bound.last + 1):
            for other in offsets:
                reached[bound.stride * index + other].add(index)
    return all(
        indices and deciding_index(bound, at) == _most_permissive(bound, indices)
        for at, indices in reached.items()
    )


def _have_one_shape(footprint: Footprint) -> bool:
    """Whether all windows have one shape and the same steps per lane."""
    shape = footprint.windows[0].read.shape
    lanes = [[w.lane(dim) for dim in range(len(shape))] for w in footprint.windows]
    return all(w.read.shape == shape for w in footprint.windows) and all(
        x == lanes[0] for x in lanes
    )


def _origins_form_a_grid(footprint: Footprint) -> bool:
    """Whether the positions of the windows are all pairs of some rows and some columns."""
    origins = {place for window in footprint.windows for place in window.origins}
    rows, columns = ({place[d] for place in origins} for d in (0, 1))
    return len(origins) == len(rows) * len(columns)


def _offsets_along(window: Window, dim: int, axis: int) -> set[int]:
    """The offsets along `axis` that the positions and the other dimensions of a window add."""
    offsets = {place[axis] for place in window.origins}
    for other, extent in enumerate(window.read.shape):
        step = window.lane(other)[axis]
        if other != dim and step:
            offsets = {n + step * i for n in offsets for i in range(extent)}
    return offsets


def _most_permissive(bound: IndexBound, indices: Iterable[int]) -> int:
    return max(indices) if bound.step > 0 else min(indices)


def deciding_index(bound: IndexBound, position: int) -> int:
    """The deciding index of row (or column) `position`."""
    if bound.step > 0:
        return min(position // bound.stride, bound.last)
    return -(-max(position - bound.reach, position % bound.modulus) // bound.stride)


def _are_separable(conditions: Sequence[Condition]) -> bool:
    """Whether one index satisfies all bounds of an element that satisfies each of them: at most one
    dimension per axis is bounded, and from one side."""
    indices = [c for c in conditions if isinstance(c, IndexBound)]
    sides = {(c.axis, c.dim, c.step > 0) for c in indices}
    return len({axis for axis, _, _ in sides}) == len(sides)


def _in_window(kind: Condition, window: Window) -> SplitForm:
    """A condition in terms of the varying symbols of `window`."""
    if isinstance(kind, IndexBound):
        return SplitForm({Lane(kind.dim): number(kind.step)}, kind.rest)
    steps = {
        symbol: scale(kind.rows, step[0]) + scale(kind.columns, step[1])
        for symbol, step in window.steps.items()
    }
    first = scale(kind.rows, window.first[0]) + scale(kind.columns, window.first[1])
    return SplitForm({s: p for s, p in steps.items() if p.terms}, kind.rest + first)


def _is_implied(form: SplitForm, comparisons: Sequence[SplitForm], bounds: Ranges) -> bool:
    """Whether `form` is at least 0 wherever all `comparisons` are."""
    if _never_negative((form.rest, *form.steps.values()), form.steps, bounds):
        return True
    for comparison in comparisons:
        spare = (form.rest - comparison.rest).constant
        if comparison.steps == form.steps and spare is not None and spare >= 0:
            return True
    return False


def _never_negative(
    forms: Iterable[Polynomial], varies: Mapping[Symbol, Polynomial], bounds: Ranges
) -> bool:
    """Whether `forms` and the varying symbols have no negative coefficient or symbol."""
    return all(_is_nonnegative(s, bounds) for s in varies) and all(
        coefficient >= 0 and all(_is_nonnegative(s, bounds) for s in monomial)
        for form in forms
        for monomial, coefficient in form.terms.items()
    )


def _is_nonnegative(symbol: Symbol, bounds: Ranges) -> bool:
    if isinstance(symbol, Value):
        return bounds.of(symbol)[0] >= 0
    return isinstance(symbol, (Lane, Iteration, ProgramIndex))


def needs_select(conditions: Sequence[Condition]) -> bool:
    """Whether the staged elements of a window include some that its own mask excludes."""
    return any(isinstance(c, IndexBound) for c in conditions)


def with_axes(conditions: Sequence[Condition]) -> Iterator[tuple[int | None, Condition]]:
    """Conditions with the one axis they depend on; None where they depend on both."""
    for condition in conditions:
        if isinstance(condition, IndexBound):
            yield condition.axis, condition
        else:
            yield (
                (0 if not condition.columns.terms else 1 if not condition.rows.terms else None),
                condition,
            )
