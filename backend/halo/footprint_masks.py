"""Which elements of a union are read: the masks of its windows, told by rows and columns.

A comparison of a mask is one of two things. Either it says the same of an element whichever window
reads it (`inside the image`): then it is a comparison of the element's row and column. Or it looks
at the index along one dimension of the tile alone (`inside the output`): then an element is read
if any index that reaches it passes, and the index that passes most easily decides. Every window
must make all comparisons, or make others that imply them; so no element is loaded that no window
would have loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import TypeAlias

import attrs

from tileir.analysis.affine import AffineForms
from tileir.analysis.affine_forms import Affine, Bound
from tileir.analysis.polynomial import Iteration, Lane, Polynomial, ProgramIndex, Symbol, number
from tileir.analysis.ranges import Ranges
from tileir.backend.halo.footprint import Footprint, Window
from tileir.backend.halo.split_forms import Moving, SplitForm, divided, scaled, settled, split_form
from tileir.op import Op
from tileir.values import Operand, Value


@attrs.frozen
class HalfPlane:
    """`rows` r + `columns` c + `rest` >= 0 of the element in row r and column c of the union."""

    rows: Polynomial
    columns: Polynomial
    rest: Polynomial


@attrs.frozen
class IndexBound:
    """`step` i + `rest` >= 0 of the index i along dimension `dim` of the windows. The index that
    decides for a row (a column, if `axis` is 1) r is max(r - `reach`, r mod `apart`) / `stride`,
    rounded up; with a positive step, min(r / `stride`, `last`), rounded down."""

    dim: int
    step: int
    rest: Polynomial
    axis: int
    stride: int
    reach: int
    apart: int
    last: int


Condition: TypeAlias = HalfPlane | IndexBound


def conditions(
    union: Footprint, forms: AffineForms, bounds: Ranges, moving: Moving, updates: frozenset[Op]
) -> list[Condition] | None:
    """What all windows ask together; None where they ask different things, or something else."""
    asked = [_asked(w, forms, moving, updates) for w in union.windows]
    own = [one for one in asked if one is not None]
    if len(own) < len(asked):
        return None
    found: list[Condition] = []
    for window, comparisons in zip(union.windows, own, strict=True):
        for one in comparisons:
            kind = next(_shared(one, window, union, own, bounds), None)
            if kind is None:
                return None
            if kind not in found:
                found.append(kind)
    return found if _separate(found) else None


def _shared(
    one: SplitForm,
    window: Window,
    union: Footprint,
    asked: Sequence[Sequence[SplitForm]],
    bounds: Ranges,
) -> Iterator[Condition]:
    """What a comparison of `window` may be that all windows make, or imply by those they make."""
    for kind in (_inside(one, window), _index(one, window, union)):
        if kind is not None and all(
            _implied(_of_window(kind, other), comparisons, bounds)
            for other, comparisons in zip(union.windows, asked, strict=True)
        ):
            yield kind


def _asked(
    window: Window, forms: AffineForms, moving: Moving, updates: frozenset[Op]
) -> list[SplitForm] | None:
    """The comparisons of a window's mask, as what must be 0 or more."""
    mask: Operand | None = window.read.op.mask
    if mask is None:
        return []
    found = forms.bounds(mask)
    if found is None:
        return None
    made = [_positive(bound, updates) for bound in found]
    split = [split_form(form, moving) for form in made if form is not None]
    whole = [settled(part, window.read.fixed) for part in split if part is not None]
    return whole if len(whole) == len(found) else None


def _positive(bound: Bound, updates: frozenset[Op]) -> Polynomial | None:
    """The form that is 0 or more where `bound` holds."""
    left, right = bound.left, bound.right
    if (left.assuming | right.assuming) - updates:
        return None
    return _difference(bound.relation, left, right)


def _difference(relation: str, left: Affine, right: Affine) -> Polynomial | None:
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


def _inside(asked: SplitForm, window: Window) -> HalfPlane | None:
    """A comparison as one of rows and columns; None where it looks at anything else."""
    factors = [number(0), number(0)]
    for axis in (0, 1):
        for symbol, step in window.steps.items():
            if step[axis] and not step[1 - axis]:
                found = divided(asked.steps.get(symbol, number(0)), step[axis])
                if found is None:
                    return None
                factors[axis] = found
    for symbol in (*window.steps, *asked.steps):
        step = window.steps.get(symbol, (0, 0))
        expected = scaled(factors[0], step[0]) + scaled(factors[1], step[1])
        if asked.steps.get(symbol, number(0)) != expected:
            return None
    first = scaled(factors[0], window.first[0]) + scaled(factors[1], window.first[1])
    return HalfPlane(factors[0], factors[1], asked.rest - first)


def _index(asked: SplitForm, window: Window, union: Footprint) -> IndexBound | None:
    """A comparison of one index of the tile; None where it looks at anything else."""
    if len(asked.steps) != 1:
        return None
    ((symbol, form),) = asked.steps.items()
    size = form.constant
    if not isinstance(symbol, Lane) or size is None:
        return None
    dim, step = symbol.dimension, window.lane(symbol.dimension)
    if not any(step):
        return None
    axis = 0 if step[0] else 1
    others = {n for w in union.windows for n in _others(w, dim, axis)}
    apart = gcd(*others) if step[axis] == 1 else 1
    last = window.read.shape[dim] - 1
    made = IndexBound(dim, size, asked.rest, axis, step[axis], max(others), apart or 1, last)
    return made if _exact(made, union) else None


def _exact(made: IndexBound, union: Footprint) -> bool:
    """Whether the index that decides is that which reaches a row, or column, and passes most
    easily, for all of them."""
    extent = (union.height, union.width)[made.axis]
    reached: dict[int, set[int]] = {at: set() for at in range(extent)}
    if not _alike(union) or not _independent(union):
        return False
    for window in union.windows:
        others = _others(window, made.dim, made.axis)
        for index in range(made.last + 1):
            for other in others:
                reached[made.stride * index + other].add(index)
    return all(
        found and decides(made, at) == _easiest(made, found) for at, found in reached.items()
    )


def _alike(union: Footprint) -> bool:
    """Whether all windows are tiles of one shape that step alike."""
    shape = union.windows[0].read.shape
    lanes = [[w.lane(dim) for dim in range(len(shape))] for w in union.windows]
    return all(w.read.shape == shape for w in union.windows) and all(x == lanes[0] for x in lanes)


def _independent(union: Footprint) -> bool:
    """Whether windows are at every row in which one is and every column in which one is."""
    places = {place for window in union.windows for place in window.places}
    rows, columns = ({place[d] for place in places} for d in (0, 1))
    return len(places) == len(rows) * len(columns)


def _others(window: Window, dim: int, axis: int) -> set[int]:
    """What places and other dimensions of a window add along an axis."""
    found = {place[axis] for place in window.places}
    for other, extent in enumerate(window.read.shape):
        step = window.lane(other)[axis]
        if other != dim and step:
            found = {n + step * i for n in found for i in range(extent)}
    return found


def _easiest(made: IndexBound, indices: Iterable[int]) -> int:
    return max(indices) if made.step > 0 else min(indices)


def decides(made: IndexBound, at: int) -> int:
    """The index that decides for row, or column, `at`."""
    if made.step > 0:
        return min(at // made.stride, made.last)
    return -(-max(at - made.reach, at % made.apart) // made.stride)


def _separate(found: Sequence[Condition]) -> bool:
    """Whether an element that passes every comparison is read by one index that passes all: at
    most one dimension along each axis is looked at, and from one side."""
    indices = [c for c in found if isinstance(c, IndexBound)]
    sides = {(c.axis, c.dim, c.step > 0) for c in indices}
    return len({axis for axis, _, _ in sides}) == len(sides)


def _of_window(kind: Condition, window: Window) -> SplitForm:
    """A condition as comparison of what moves in `window`."""
    if isinstance(kind, IndexBound):
        return SplitForm({Lane(kind.dim): number(kind.step)}, kind.rest)
    steps = {
        symbol: scaled(kind.rows, step[0]) + scaled(kind.columns, step[1])
        for symbol, step in window.steps.items()
    }
    first = scaled(kind.rows, window.first[0]) + scaled(kind.columns, window.first[1])
    return SplitForm({s: p for s, p in steps.items() if p.terms}, kind.rest + first)


def _implied(wanted: SplitForm, asked: Sequence[SplitForm], bounds: Ranges) -> bool:
    """Whether `wanted` is 0 or more wherever all that is `asked` is."""
    if _never_negative((wanted.rest, *wanted.steps.values()), wanted.steps, bounds):
        return True
    for one in asked:
        spare = (wanted.rest - one.rest).constant
        if one.steps == wanted.steps and spare is not None and spare >= 0:
            return True
    return False


def _never_negative(
    forms: Iterable[Polynomial], moving: Mapping[Symbol, Polynomial], bounds: Ranges
) -> bool:
    """Whether sums of `forms` times what moves have no negative term."""
    return all(_natural(s, bounds) for s in moving) and all(
        factor >= 0 and all(_natural(s, bounds) for s in monomial)
        for form in forms
        for monomial, factor in form.terms.items()
    )


def _natural(symbol: Symbol, bounds: Ranges) -> bool:
    if isinstance(symbol, Value):
        return bounds.of(symbol)[0] >= 0
    return isinstance(symbol, (Lane, Iteration, ProgramIndex))


def needs_select(found: Sequence[Condition]) -> bool:
    """Whether a window holds elements that its own mask leaves out."""
    return any(isinstance(c, IndexBound) for c in found)


def along(found: Sequence[Condition]) -> Iterator[tuple[int | None, Condition]]:
    """Conditions with the axis that alone decides them; None where both do."""
    for one in found:
        if isinstance(one, IndexBound):
            yield one.axis, one
        else:
            yield (0 if not one.columns.terms else 1 if not one.rows.terms else None), one
