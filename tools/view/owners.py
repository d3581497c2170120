"""Who holds which element of a tile: block tile, micro-tile of a warp and nano-tile of a thread
(the paper's Figure 5), then the tile itself, coloured by warp and lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby, product
from math import prod

import attrs

from tileir.ir import Function
from tileir.layout import Layout, Vector
from tileir.tools.view.loops import loops, nano_tile
from tileir.tools.view.naming import Names
from tileir.tools.view.subject import Subject
from tileir.tools.view.svg import (
    LINE,
    MARGIN,
    SMALL,
    Sheet,
    area,
    clipped,
    group,
    piece,
    text,
    thread_colour,
    warp_colour,
)
from tileir.types import Tile, Type

_WRAP, _MOST, _WIDE = 128, 4096, 940
"""Elements of a row of a drawing; pieces of one; pixels of one."""

_PANEL = 290
"""Pixels of each of the three parts of the hierarchy."""

_HOW = (
    "The hue is the warp, the lightness the lane, the number in a piece the lane that holds it. "
    "From left to right: the tile of a block and its warps, the micro-tile that a warp covers at "
    "once, and the nano-tile of side-by-side elements of one thread, by register. Below, the tile."
)

Owner = tuple[int, int, int]
"""Warp, lane, register."""


def picture(subject: Subject) -> str:
    """SVG of each layout of the kernel with the largest tile that has it, or of the layout of
    the value asked for."""
    function, wanted = subject.laid_out, subject.named(subject.laid_out)
    sheet = Sheet(f"{subject.name}: who holds which element")
    sheet.words(_HOW, "soft")
    if wanted is not None and not isinstance(wanted.type, Tile):
        sheet.words(f"{subject.value} is a scalar: every thread holds it")
    found = _kinds(function)
    kinds = _whole(found) if wanted is None else _of(wanted.type, found)
    warps = max((kind.layout.size("warp") for kind in kinds), default=0)
    sheet.legend([(warp_colour(w), f"warp {w}") for w in range(min(warps, 8))])
    for kind, values in kinds.items():
        _draw(sheet, kind, values)
    left = len(found) - len(kinds)
    if left and wanted is None:
        sheet.skip(12)
        words = f"{left} layouts of tiles that several threads hold alike (rows, columns) are left"
        sheet.words(words + " out; --value %x shows that of %x", "soft")
    return sheet.done()


@cache
def owners(layout: Layout, shape: Vector) -> Mapping[Vector, list[Owner]]:
    """Who holds each element, the first holder first."""
    found: dict[Vector, list[Owner]] = {}
    sizes = [range(layout.size(axis)) for axis in ("warp", "lane", "register")]
    for warp, lane, register in product(*sizes):
        at = layout.coordinate(register, lane, warp)
        if all(x < n for x, n in zip(at, shape, strict=True)):
            found.setdefault(at, []).append((warp, lane, register))
    return found


def _kinds(function: Function) -> dict[Tile, list[str]]:
    """The largest tile of each layout, and the values that have it."""
    names, found = Names(function), dict[Layout, Tile]()
    values: dict[Layout, list[str]] = {}
    for value, name in names.of.items():
        kind = value.type
        if isinstance(kind, Tile) and kind.layout is not None:
            known = found.get(kind.layout)
            found[kind.layout] = kind if known is None or kind.size > known.size else known
            values.setdefault(kind.layout, []).append(name)
    return {kind: values[layout] for layout, kind in found.items()}


def _of(kind: Type, kinds: dict[Tile, list[str]]) -> dict[Tile, list[str]]:
    """The tile of one value, and the values that have its layout."""
    if not isinstance(kind, Tile):
        return {}
    values = next((v for other, v in kinds.items() if other.layout == kind.layout), [])
    return {kind: values}


def _whole(kinds: dict[Tile, list[str]]) -> dict[Tile, list[str]]:
    """Those whose elements one thread each holds, or all of them where there are none."""
    found = {k: v for k, v in kinds.items() if not _replicated(k.layout)}
    return found or kinds


def _replicated(layout: Layout) -> bool:
    return any(layout.free_bits(a) for a in ("lane", "warp")) or any(
        repeat.dim is None for repeat in layout.repeats
    )


def _draw(sheet: Sheet, kind: Tile, values: list[str]) -> None:
    layout, nano = kind.layout, nano_tile(kind.layout)
    shape = "x".join(map(str, kind.shape))
    sheet.skip(10)
    sheet.words(f"{shape}: {clipped(', '.join(values), 860)}", "head")
    for axis in ("warp", "lane", "register"):
        words = "; ".join(loop.words for loop in reversed(loops(layout, axis))) or "1"
        sheet.words(f"{axis + 's:':11}{words}", "soft")
    levels = [*([_whole_tile(kind)] if _small(kind) else [_by_warp(kind)]), *_levels(kind, nano)]
    heights = [level.height for level in levels]
    parts = [group(MARGIN + i * (_PANEL + 20), 0, v.parts) for i, v in enumerate(levels)]
    sheet.put(max(heights) + 6, parts, label="hierarchy")
    if _small(kind):
        return
    grid = _grid(kind, _window(kind), _WIDE)
    part = "" if _window(kind) == kind.shape else f", the first {_shown(_window(kind))}"
    sheet.words(f"{shape} by thread{part}", "soft")
    sheet.put(grid.height + 4, grid.parts, MARGIN, label="tile")


@attrs.frozen
class _Drawing:
    parts: list[str]
    height: float


def _small(kind: Tile) -> bool:
    """Whether every element of a tile can be drawn beside the micro-tile."""
    rows, columns = _flat(kind.shape, 64)
    return columns * 5 <= _PANEL and rows * 5 <= 330


def _whole_tile(kind: Tile) -> _Drawing:
    rows, columns = _flat(kind.shape, 64)
    scale = min(14.0, (_PANEL - 10) / columns, 420 / rows)
    held = owners(kind.layout, kind.shape).items()
    cells = {at: (thread_colour(h[0][0], h[0][1]), "", _title(h)) for at, h in held}
    parts = list(_pieces(kind.shape, cells, scale, rows, 64))
    return _titled(f"block tile {_shown(kind.shape)}", parts, rows * scale)


def _by_warp(kind: Tile) -> _Drawing:
    held = owners(kind.layout, kind.shape).items()
    cells = {at: (warp_colour(h[0][0]), f"w{h[0][0]}", f"warp {h[0][0]}") for at, h in held}
    return _panel(f"block tile {_shown(kind.shape)}", kind.shape, cells)


def _levels(kind: Tile, nano: Vector) -> Iterator[_Drawing]:
    """Micro-tile and nano-tile, each a drawing of its own scale."""
    layout, held = kind.layout, owners(kind.layout, kind.shape)
    micro: dict[Vector, tuple[str, str, str]] = {}
    inside: dict[Vector, tuple[str, str, str]] = {}
    box = set(product(*map(range, nano)))
    first = {r: v for r, v in enumerate(layout.registers) if v in box}
    for lane, register in product(range(layout.size("lane")), first):
        at = layout.coordinate(register, lane, 0)
        if at in held and at not in micro:
            micro[at] = (thread_colour(0, lane), str(lane), f"lane {lane}")
    for register, at in first.items():
        inside[at] = (thread_colour(0, 0), f"r{register}", f"register {register}")
    extents = [max(at[d] for at in micro) + 1 for d in range(layout.rank)]
    yield _panel(f"micro-tile of warp 0: {_shown(extents)}", tuple(extents), micro)
    times = layout.size("register") // len(first)
    more = f", {times} times" if times > 1 else ""
    yield _panel(f"nano-tile of lane 0: {_shown(nano)}{more}", nano, inside)


def _shown(shape: Vector | list[int]) -> str:
    return "x".join(map(str, shape))


Cells = Mapping[Vector, tuple[str, str, str]]
"""Colour, label and description by coordinate."""


def _panel(title: str, shape: Vector, cells: Cells) -> _Drawing:
    rows, columns = _flat(shape, 64)
    scale = max(2.0, min(24.0, (_PANEL - 10) / columns, 150 / rows))
    rows = min(rows, int(200 / scale))
    return _titled(title, list(_pieces(shape, cells, scale, rows, 64)), rows * scale)


def _titled(title: str, parts: list[str], height: float) -> _Drawing:
    """A drawing below its title."""
    head = text(0, 12, clipped(title, _PANEL))
    return _Drawing([head, group(0, LINE + 4, parts)], LINE + 10 + height)


def _grid(kind: Tile, window: Vector, wide: float) -> _Drawing:
    """The tile, each element in the colour of the thread that holds it."""
    cells = {
        at: (thread_colour(h[0][0], h[0][1]), str(h[0][1]), _title(h))
        for at, h in owners(kind.layout, kind.shape).items()
        if all(x < n for x, n in zip(at, window, strict=True))
    }
    rows, columns = _flat(window, _WRAP)
    scale = max(3.0, min(9.0, wide / columns))
    return _Drawing(list(_pieces(window, cells, scale, rows, _WRAP)), rows * scale)


def _title(holders: list[Owner]) -> str:
    names = list(dict.fromkeys(f"warp {w} lane {n}" for w, n, _ in holders))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}"


def _window(kind: Tile) -> Vector:
    """The part of a tile that is drawn: all planes but the first and, of what is too much for
    one picture, the later rows are left out."""
    *planes, rows, columns = (1, *kind.shape)
    columns = min(columns, 4096)
    runs = max(1, columns // nano_tile(kind.layout)[-1])
    rows = min(rows, max(1, _MOST // runs), 64)
    return (*([1] * len(planes)), rows, columns)[-len(kind.shape) :]


def _flat(shape: Vector, wrap: int) -> tuple[int, int]:
    """Rows and columns of a drawing of a tile, long rows broken."""
    columns = shape[-1]
    return prod(shape[:-1]) * -(-columns // wrap), min(columns, wrap)


def _pieces(shape: Vector, cells: Cells, scale: float, rows: int, wrap: int) -> Iterator[str]:
    """A shape for what is alike, of a piece for each of its runs along a row."""
    shapes: dict[tuple[str, str, str], list[str]] = {}
    labels: list[str] = []
    for column, row, count, cell in _runs(shape, cells, rows, wrap):
        x, y, width = column * scale, row * scale, count * scale
        shapes.setdefault(cell, []).append(piece(x, y, width, scale))
        if scale >= 10 and len(cell[1]) * SMALL < width:
            labels.append(text(x + width / 2, y + scale / 2 + 3, cell[1], "in", "middle"))
    for (fill, _, title), path in shapes.items():
        yield area(path, fill, title)
    yield from labels


Run = tuple[int, int, int, tuple[str, str, str]]
"""First column, row, number of cells and what they are."""


def _runs(shape: Vector, cells: Cells, rows: int, wrap: int) -> Iterator[Run]:
    """Neighbours along a row of a drawing that are alike."""
    lines = -(-shape[-1] // wrap)
    for row in range(rows):
        first = row % lines * wrap
        plane = _unravelled(row // lines, shape[:-1])
        columns = range(min(wrap, shape[-1] - first))
        held = [(cells.get((*plane, first + column)), column) for column in columns]
        for cell, run in groupby(held, lambda pair: pair[0]):
            found = [column for _, column in run]
            if cell is not None:
                yield found[0], row, len(found), cell


def _unravelled(index: int, shape: Vector) -> Vector:
    found: list[int] = []
    for n in reversed(shape):
        found.append(index % n)
        index //= n
    return tuple(reversed(found))
