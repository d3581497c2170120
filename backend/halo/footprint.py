"""The footprint of several windows of one buffer: its rows and columns, and the position of each
window in it.

The address of an element is `base` + `origin` + `rows` r + `columns` c, in elements. Lanes and
iterations of loops step through r and c, which begin at 0. `rows` and `columns` are generators of
all steps. A row stride that is only known at run time is a generator of its own; among constant
steps, the larger ones are between rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd, prod
from typing import TypeAlias

import attrs

from tileir.analysis.polynomial import Lane, Polynomial, Symbol, number
from tileir.backend.halo.split_forms import (
    SplitForm,
    common_generators,
    divide_exactly,
    quotient_by,
    scale,
)
from tileir.ops.memory import Load
from tileir.types import shape_of

Step: TypeAlias = tuple[int, int]
"""Rows and columns."""

_NOWHERE = (0, 0)
_PARTS = (1, 2, 3, 4)


@attrs.frozen(slots=False)
class WindowLoad:
    """A load in loops: its offset from the base pointer, in elements, and the values of the varying
    symbols in each iteration."""

    op: Load
    form: SplitForm
    iterations: Sequence[Mapping[Symbol, int]]
    fixed: Mapping[Symbol, int]
    """Symbols with one value in all iterations; `form` has that value folded in."""

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.op.pointer.type)

    @cached_property
    def values(self) -> Mapping[Symbol, Sequence[int]]:
        """The value of each symbol with a known value, in each iteration."""
        return {symbol: [at[symbol] for at in self.iterations] for symbol in self.iterations[0]}


@attrs.frozen
class Window:
    """A load as a window of the footprint: the steps in rows and columns of each symbol, the
    position where all varying symbols are 0, and the positions of element 0 in all iterations."""

    read: WindowLoad
    steps: Mapping[Symbol, Step]
    first: Step
    origins: frozenset[Step]

    def lane(self, dim: int) -> Step:
        """The step in rows and columns from one element to the next along `dim`."""
        return self.steps.get(Lane(dim), _NOWHERE)


@attrs.frozen
class Footprint:
    """A footprint of `height` x `width` elements around `windows`. The windows of one that
    `footprint_of` returns cover it without gaps."""

    origin: Polynomial
    rows: Polynomial
    columns: Polynomial
    height: int
    width: int
    windows: tuple[Window, ...]

    @property
    def elements_read(self) -> int:
        """The number of elements that all windows read. Windows at one position count once, and so
        does an element that is repeated along a whole dimension of a tile."""
        return sum(
            _distinct_elements(steps) * len(origins) for steps, origins in self._by_steps().items()
        )

    def _by_steps(self) -> dict[tuple[tuple[int, Step], ...], set[Step]]:
        origins: dict[tuple[tuple[int, Step], ...], set[Step]] = {}
        for window in self.windows:
            extents = enumerate(window.read.shape)
            origins.setdefault(tuple((n, window.lane(d)) for d, n in extents), set()).update(
                window.origins
            )
        return origins


def footprint_of(
    reads: Sequence[WindowLoad], is_useful: Callable[[Footprint], bool] = lambda _: True
) -> Footprint | None:
    """The smallest footprint of `reads`, which have one base pointer, for which `is_useful` is
    true; None if no footprint is covered without gaps."""
    candidates = (_footprint(reads, rows, columns) for rows, columns in _unit_candidates(reads))
    footprints = [u for u in candidates if u and is_useful(u) and _is_covered(u)]
    return min(footprints, key=lambda u: u.height * u.width, default=None)


def _distinct_elements(steps: tuple[tuple[int, Step], ...]) -> int:
    return prod(extent for extent, step in steps if any(step))


def _unit_candidates(reads: Sequence[WindowLoad]) -> Iterator[tuple[Polynomial, Polynomial]]:
    """Yield candidates for the distances between rows and between columns."""
    steps = [step for read in reads for step in read.form.steps.values()]
    distances = [Polynomial({m: c}) for shift in _shifts(reads) for m, c in shift.terms.items()]
    steps += [step for step in distances if step.constant is None]
    for rows, columns in _generator_pairs(steps):
        for parts in ((i, j) for i in _PARTS for j in _PARTS):
            units = divide_exactly(rows, parts[0]), divide_exactly(columns, parts[1])
            if units[0] is not None and units[1] is not None and (rows.terms or parts[0] == 1):
                yield units[0], units[1]


def _shifts(reads: Sequence[WindowLoad]) -> list[Polynomial]:
    return [read.form.rest - reads[0].form.rest for read in reads]


def _generator_pairs(steps: Sequence[Polynomial]) -> Iterator[tuple[Polynomial, Polynomial]]:
    sizes = sorted({abs(s.constant) for s in steps if s.constant})
    symbolic = common_generators(s for s in steps if s.constant is None)
    zero = number(0)
    if not symbolic and sizes:
        yield zero, number(gcd(*sizes))
        for cut in range(1, len(sizes)):
            yield number(gcd(*sizes[cut:])), number(gcd(*sizes[:cut]))
    elif len(symbolic) == 1:
        if sizes:
            yield symbolic[0], number(gcd(*sizes))
        else:
            yield zero, symbolic[0]
    elif len(symbolic) == 2 and not sizes:
        yield symbolic[0], symbolic[1]
        yield symbolic[1], symbolic[0]


def _footprint(
    reads: Sequence[WindowLoad], rows: Polynomial, columns: Polynomial
) -> Footprint | None:
    """The footprint of all windows with these distances between rows and columns. It may have gaps.
    None if an address is not on its grid."""
    windows: list[Window] = []
    for read, shift in zip(reads, _shifts(reads), strict=True):
        window = _window(read, shift, rows, columns)
        if window is None:
            return None
        windows.append(window)
    low = [min(place[d] for w in windows for place in w.origins) for d in (0, 1)]
    moved = tuple(_translate(w, (-low[0], -low[1])) for w in windows)
    height, width = (
        1 + max(max(place[d] for place in w.origins) + _reach(w, d) for w in moved) for d in (0, 1)
    )
    origin = reads[0].form.rest + scale(rows, low[0]) + scale(columns, low[1])
    return Footprint(origin, rows, columns, height, width, moved)


def _reach(window: Window, axis: int) -> int:
    """The last row or column of a window whose element 0 is at (0, 0)."""
    extents = enumerate(window.read.shape)
    return sum(window.lane(d)[axis] * (extent - 1) for d, extent in extents)


def _window(
    read: WindowLoad, shift: Polynomial, rows: Polynomial, columns: Polynomial
) -> Window | None:
    steps: dict[Symbol, Step] = {}
    for symbol, step in read.form.steps.items():
        position = _row_and_column(step, rows, columns)
        if position is None or (isinstance(symbol, Lane) and (all(position) or min(position) < 0)):
            return None
        steps[symbol] = position
    first = _row_and_column(shift, rows, columns)
    if first is None:
        return None
    moves = [s for s in steps if not isinstance(s, Lane)]
    origins = zip(*(_positions(read, steps, moves, first[d], d) for d in (0, 1)), strict=True)
    return Window(read, steps, first, frozenset(origins))


def _positions(
    read: WindowLoad, steps: Mapping[Symbol, Step], moves: Sequence[Symbol], first: int, axis: int
) -> list[int]:
    """The row or column of element 0 in each iteration, which `moves` by these steps."""
    positions = [first] * len(read.iterations)
    for symbol in moves:
        if step := steps[symbol][axis]:
            values = read.values[symbol]
            positions = [p + step * v for p, v in zip(positions, values, strict=True)]
    return positions


def _row_and_column(form: Polynomial, rows: Polynomial, columns: Polynomial) -> Step | None:
    """`form` as a number of rows and columns; None if it is not a sum of multiples of both
    distances."""
    count = _count_rows(form, rows)
    if count is None:
        return None
    column = quotient_by(form - scale(rows, count), columns)
    return None if column is None else (count, column)


def _count_rows(form: Polynomial, rows: Polynomial) -> int | None:
    if not rows.terms:
        return 0
    if (size := rows.constant) is not None:
        value = form.constant
        return None if value is None else (2 * value + size) // (2 * size)
    monomial = max(rows.terms, key=len)
    count, remainder = divmod(form.terms.get(monomial, 0), rows.terms[monomial])
    return None if remainder else count


def _translate(window: Window, offset: Step) -> Window:
    origins = frozenset((r + offset[0], c + offset[1]) for r, c in window.origins)
    first = (window.first[0] + offset[0], window.first[1] + offset[1])
    return attrs.evolve(window, first=first, origins=origins)


def _relative_offsets(window: Window) -> tuple[set[int], set[int]]:
    """The rows and the columns of a window whose element 0 is at (0, 0)."""
    offsets: tuple[set[int], set[int]] = ({0}, {0})
    for dim, extent in enumerate(window.read.shape):
        for axis, step in enumerate(window.lane(dim)):
            if step:
                offsets[axis].update([n + step * i for n in offsets[axis] for i in range(extent)])
    return offsets


def _is_covered(footprint: Footprint) -> bool:
    """Whether windows cover all elements."""
    if footprint.elements_read < footprint.height * footprint.width:
        return False
    columns_of_row: dict[int, int] = {}
    for window in footprint.windows:
        rows, columns = _relative_offsets(window)
        bits = sum(1 << c for c in columns)
        for at_row, at_column in window.origins:
            for row in rows:
                columns_of_row[row + at_row] = (
                    columns_of_row.get(row + at_row, 0) | bits << at_column
                )
    full_row = (1 << footprint.width) - 1
    return len(columns_of_row) == footprint.height and all(
        row == full_row for row in columns_of_row.values()
    )
