"""Drawings of tiles: elements are squares, the last dimension runs along rows, and planes are one
below another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, product
from math import prod

import attrs

from tileir.layout import Layout, Vector, delinearize
from tileir.tools.view.svg import SMALL, area, subpath, text

Owner = tuple[int, int, int]
"""Warp, lane, register."""

Cell = tuple[str, str, str]
"""Colour, label and description of an element."""

LONGEST = 384
"""Elements of a row of a drawing that is not broken."""

_THIN = 3.0
"""Elements smaller than this have no gap between them."""


@cache
def owners(layout: Layout, shape: Vector) -> Mapping[Vector, tuple[Owner, ...]]:
    """The owners of each element, the first owner first."""
    result: dict[Vector, list[Owner]] = {}
    axes = [_moves(layout, axis) for axis in ("warp", "lane", "register")]
    for (w, warp), (n, lane), (r, register) in product(*map(enumerate, axes)):
        parts = zip(warp, lane, register, shape, strict=True)
        at = tuple((a[0] ^ b[0] ^ c[0]) + a[1] + b[1] + c[1] for a, b, c, _ in parts)
        if all(x < n for x, n in zip(at, shape, strict=True)):
            result.setdefault(at, []).append((w, n, r))
    return {at: tuple(owners_of_element) for at, owners_of_element in result.items()}


def _moves(layout: Layout, axis: str) -> list[list[tuple[int, int]]]:
    """For each index of `axis` and each dimension, what the index changes by exclusive or and what
    it adds."""
    extents = layout.atom_extents
    moves: list[list[tuple[int, int]]] = []
    for index in range(layout.size(axis)):
        at = layout.coordinate(**{axis: index})
        moves.append([(x % n, x - x % n) for x, n in zip(at, extents, strict=True)])
    return moves


@attrs.frozen
class TileDrawing:
    """Shapes, and the space that they take."""

    parts: Sequence[str]
    width: float
    height: float


@attrs.frozen
class TileFrame:
    """The frame of the drawing of a tile of `shape`. Rows longer than `wrap` are broken, and only
    the first `rows` rows are drawn, each `scale` pixels high."""

    shape: Vector
    wrap: int
    rows: int
    scale: float

    @property
    def whole(self) -> bool:
        """Whether the whole tile is drawn."""
        return self.rows >= _rows(self.shape, self.wrap)


def fit_frame(
    shape: Vector, wide: float, high: float, most: float, short: int = 64, least: float = 0.5
) -> TileFrame:
    """The frame that fits `wide` by `high` pixels with elements of `least` to `most` pixels. Rows
    that do not fit are left out. Rows of a tile of one dimension, and very long rows, are broken
    after `short` elements."""
    wrap = min(shape[-1], short) if len(shape) == 1 or shape[-1] > LONGEST else shape[-1]
    rows = _rows(shape, wrap)
    scale = min(most, wide / wrap, max(high / rows, least))
    return TileFrame(shape, wrap, min(rows, max(1, int(high / scale))), scale)


def _rows(shape: Vector, wrap: int) -> int:
    return prod(shape[:-1]) * -(-shape[-1] // wrap)


def drawing(frame: TileFrame, cells: Mapping[Vector, Cell]) -> TileDrawing:
    """One shape for all equal elements, with a segment for each of their runs along a row."""
    scale = frame.scale
    shapes: dict[Cell, list[str]] = {}
    labels: list[str] = []
    kind = "cell" if scale >= _THIN else "flat"
    result = list(runs(frame, cells))
    for column, row, count, rows, cell in _blocks(result) if kind == "flat" else _single(result):
        x, y, width = column * scale, row * scale, count * scale
        shapes.setdefault(cell, []).append(subpath(x, y, width, rows * scale))
        if scale >= 10 and len(cell[1]) * SMALL < width:
            labels.append(text(x + width / 2, y + scale / 2 + 3, cell[1], "in", "middle"))
    areas = [area(path, fill, title, kind) for (fill, _, title), path in shapes.items()]
    return TileDrawing([*areas, *labels], frame.wrap * scale, frame.rows * scale)


Run = tuple[int, int, int, Cell]
"""First column, row, number of elements and what they are."""


def runs(frame: TileFrame, cells: Mapping[Vector, Cell]) -> Iterator[Run]:
    """Yield runs of equal neighbours along a row of a drawing."""
    shape, wrap = frame.shape, frame.wrap
    lines = -(-shape[-1] // wrap)
    for row in range(frame.rows):
        first = row % lines * wrap
        plane = delinearize(row // lines, shape[:-1])
        columns = range(min(wrap, shape[-1] - first))
        row_cells = [(cells.get((*plane, first + column)), column) for column in columns]
        for cell, run in groupby(row_cells, lambda pair: pair[0]):
            result = [column for _, column in run]
            if cell is not None:
                yield result[0], row, len(result), cell


Block = tuple[int, int, int, int, Cell]
"""First column, row, number of columns and of rows, and what they are."""


def _single(runs_of_row: Sequence[Run]) -> Iterator[Block]:
    for column, row, count, cell in runs_of_row:
        yield column, row, count, 1, cell


def _blocks(row_runs: Sequence[Run]) -> Iterator[Block]:
    """Yield groups of equal runs that are one below the other."""
    columns: dict[tuple[int, int, Cell], list[int]] = {}
    for column, row, count, cell in row_runs:
        columns.setdefault((column, count, cell), []).append(row)
    for (column, count, cell), rows in columns.items():
        for _, group in groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):
            consecutive = [row for _, row in group]
            yield column, consecutive[0], count, len(consecutive), cell


def shape_text(shape: Sequence[int]) -> str:
    """Extents as text."""
    return "x".join(map(str, shape))
