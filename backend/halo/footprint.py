"""What several windows of one buffer cover together: rows and columns, and where each lies.

An address is `base` + `origin` + `rows` r + `columns` c in elements: lanes and rounds of loops step
through r and c, which are counted from the least that is read. Where no two things that are stepped
by belong together, as with a row stride that is only known at run time, rows are told from columns
by that; among numbers, the larger steps are between rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import TypeAlias

import attrs

from tileir.analysis.polynomial import Lane, Polynomial, Symbol, number
from tileir.backend.halo.split_forms import SplitForm, common_generators, divided, multiple, scaled
from tileir.ops.memory import Load
from tileir.types import shape_of

Step: TypeAlias = tuple[int, int]
"""Rows and columns."""

_NOWHERE = (0, 0)
_PARTS = (1, 2, 3, 4)


@attrs.frozen
class WindowLoad:
    """A load in rounds of loops: where it reads relative to the buffer's pointer, and the numbers
    of what moves in each round."""

    op: Load
    form: SplitForm
    rounds: Sequence[Mapping[Symbol, int]]
    fixed: Mapping[Symbol, int]
    """What is one number in all rounds, which `form` does not count among what moves."""

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.op.pointer.type)


@attrs.frozen
class Window:
    """A load as a window of the union: `steps` through rows and columns by symbol, the place
    where all that moves is 0, and the places of element 0 in all rounds."""

    read: WindowLoad
    steps: Mapping[Symbol, Step]
    first: Step
    places: frozenset[Step]

    def lane(self, dim: int) -> Step:
        """Rows and columns from one element to the next along `dim`."""
        return self.steps.get(Lane(dim), _NOWHERE)


@attrs.frozen
class Footprint:
    """`height` x `width` elements that `windows` cover, each element by one at least."""

    origin: Polynomial
    rows: Polynomial
    columns: Polynomial
    height: int
    width: int
    windows: tuple[Window, ...]

    @property
    def loaded(self) -> int:
        """Elements of all windows that differ in where they are; what is the same element along
        a whole dimension of a tile counts once."""
        return sum(_elements(steps) * len(places) for steps, places in self._by_steps().items())

    def _by_steps(self) -> dict[tuple[tuple[int, Step], ...], set[Step]]:
        found: dict[tuple[tuple[int, Step], ...], set[Step]] = {}
        for window in self.windows:
            extents = enumerate(window.read.shape)
            found.setdefault(tuple((n, window.lane(d)) for d, n in extents), set()).update(
                window.places
            )
        return found


def union(reads: Sequence[WindowLoad]) -> Footprint | None:
    """The smallest union of `reads`, which read through one pointer; None where they do not
    cover rows and columns without gaps."""
    found = [u for rows, columns in _units(reads) if (u := _union(reads, rows, columns))]
    return min(found, key=lambda u: u.height * u.width, default=None)


def _elements(steps: tuple[tuple[int, Step], ...]) -> int:
    return prod(extent for extent, step in steps if any(step))


def _units(reads: Sequence[WindowLoad]) -> Iterator[tuple[Polynomial, Polynomial]]:
    """What one row and one column may be apart."""
    steps = [step for read in reads for step in read.form.steps.values()]
    apart = [Polynomial({m: c}) for shift in _shifts(reads) for m, c in shift.terms.items()]
    steps += [step for step in apart if step.constant is None]
    for rows, columns in _pairs(steps):
        for parts in ((i, j) for i in _PARTS for j in _PARTS):
            halves = divided(rows, parts[0]), divided(columns, parts[1])
            if halves[0] is not None and halves[1] is not None and (rows.terms or parts[0] == 1):
                yield halves[0], halves[1]


def _shifts(reads: Sequence[WindowLoad]) -> list[Polynomial]:
    return [read.form.rest - reads[0].form.rest for read in reads]


def _pairs(steps: Sequence[Polynomial]) -> Iterator[tuple[Polynomial, Polynomial]]:
    sizes = sorted({abs(s.constant) for s in steps if s.constant})
    named = common_generators(s for s in steps if s.constant is None)
    none = number(0)
    if not named and sizes:
        yield none, number(gcd(*sizes))
        for cut in range(1, len(sizes)):
            yield number(gcd(*sizes[cut:])), number(gcd(*sizes[:cut]))
    elif len(named) == 1:
        if sizes:
            yield named[0], number(gcd(*sizes))
        else:
            yield none, named[0]
    elif len(named) == 2 and not sizes:
        yield named[0], named[1]
        yield named[1], named[0]


def _union(reads: Sequence[WindowLoad], rows: Polynomial, columns: Polynomial) -> Footprint | None:
    """The union in rows and columns so far apart; None where something reads between them."""
    found: list[Window] = []
    for read, shift in zip(reads, _shifts(reads), strict=True):
        window = _window(read, shift, rows, columns)
        if window is None:
            return None
        found.append(window)
    taken = [_taken(w) for w in found]
    low = [min(place[d] for w in found for place in w.places) for d in (0, 1)]
    windows = tuple(_moved(w, (-low[0], -low[1])) for w in found)
    extents = _covered(windows, taken)
    if extents is None:
        return None
    origin = reads[0].form.rest + scaled(rows, low[0]) + scaled(columns, low[1])
    return Footprint(origin, rows, columns, *extents, windows)


def _window(
    read: WindowLoad, shift: Polynomial, rows: Polynomial, columns: Polynomial
) -> Window | None:
    steps: dict[Symbol, Step] = {}
    for symbol, step in read.form.steps.items():
        found = _place(step, rows, columns)
        if found is None or (isinstance(symbol, Lane) and (all(found) or min(found) < 0)):
            return None
        steps[symbol] = found
    first = _place(shift, rows, columns)
    if first is None:
        return None
    moves = [s for s in steps if not isinstance(s, Lane)]
    places = frozenset(
        (
            first[0] + sum(steps[s][0] * at[s] for s in moves),
            first[1] + sum(steps[s][1] * at[s] for s in moves),
        )
        for at in read.rounds
    )
    return Window(read, steps, first, places)


def _place(form: Polynomial, rows: Polynomial, columns: Polynomial) -> Step | None:
    """How many `rows` and `columns` make `form`."""
    count = _count_rows(form, rows)
    if count is None:
        return None
    rest = multiple(form - scaled(rows, count), columns)
    return None if rest is None else (count, rest)


def _count_rows(form: Polynomial, rows: Polynomial) -> int | None:
    if not rows.terms:
        return 0
    if (size := rows.constant) is not None:
        value = form.constant
        return None if value is None else (2 * value + size) // (2 * size)
    monomial = max(rows.terms, key=len)
    count, left = divmod(form.terms.get(monomial, 0), rows.terms[monomial])
    return None if left else count


def _moved(window: Window, by: Step) -> Window:
    places = frozenset((r + by[0], c + by[1]) for r, c in window.places)
    first = (window.first[0] + by[0], window.first[1] + by[1])
    return attrs.evolve(window, first=first, places=places)


def _taken(window: Window) -> tuple[set[int], set[int]]:
    """Rows and columns of a window whose element 0 is at (0, 0)."""
    found: tuple[set[int], set[int]] = ({0}, {0})
    for dim, extent in enumerate(window.read.shape):
        for axis, step in enumerate(window.lane(dim)):
            if step:
                found[axis].update([n + step * i for n in found[axis] for i in range(extent)])
    return found


def _covered(windows: Sequence[Window], taken: Sequence[tuple[set[int], set[int]]]) -> Step | None:
    """Rows and columns that windows cover from (0, 0); None where they leave one out."""
    held: dict[int, int] = {}
    for window, (rows, columns) in zip(windows, taken, strict=True):
        bits = sum(1 << c for c in columns)
        for at_row, at_column in window.places:
            for row in rows:
                held[row + at_row] = held.get(row + at_row, 0) | bits << at_column
    whole = max(held.values())
    width = whole.bit_length()
    full = whole == (1 << width) - 1 and all(row == whole for row in held.values())
    return (len(held), width) if full and max(held) == len(held) - 1 else None
