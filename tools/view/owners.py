"""The picture `owners`: the owner of each element of a tile. It shows the block tile, the
micro-tile of a warp and the nano-tile of a thread (MAPL 2019, Figure 5), then the tile itself,
coloured by warp and lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from tileir.layout import Layout, Vector
from tileir.tools.view.input import Subject
from tileir.tools.view.loops import loops, nano_tile
from tileir.tools.view.naming import ValueNames
from tileir.tools.view.svg import (
    LINE,
    MARGIN,
    Sheet,
    clip,
    group,
    text,
    thread_colour,
    warp_colour,
)
from tileir.tools.view.tiles import Cell, Owner, TileDrawing, drawing, fit_frame, owners, shape_text
from tileir.types import Tile, Type

_WRAP, _MOST, _WIDE, _HIGH, _LEAST = 128, 4096, 940.0, 320.0, 4.0
"""Sizes of the drawing by thread: elements per row, the maximum number of segments; width and
height in pixels, and the minimum size of an element."""

_PANEL = 290
"""Pixels of each of the three parts of the hierarchy."""

_HOW = (
    "The hue is the warp, the lightness the lane, the number in a segment the owner lane. "
    "From left to right: the tile of a block and its warps, the micro-tile that a warp covers at "
    "once, and the nano-tile of side-by-side elements of one thread, by register. Below, the tile."
)


def picture(subject: Subject) -> str:
    """The SVG of each layout of the kernel, drawn with the largest tile that has it; or of the
    layout of the requested value."""
    required = subject.find_value(*subject.laid_out_functions)
    sheet = Sheet(f"{subject.name}: which thread owns which element")
    sheet.words(_HOW, "soft")
    if required is not None and not isinstance(required.type, Tile):
        sheet.words(f"{subject.value} is a scalar: every thread has it")
    result = _kinds(subject.laid_out_names)
    kinds = _drop_replicated(result) if required is None else _of(required.type, result)
    warps = max((kind.layout.size("warp") for kind in kinds), default=0)
    sheet.legend([(warp_colour(w), f"warp {w}") for w in range(min(warps, 8))])
    for kind, values in kinds.items():
        _draw(sheet, kind, values)
    left = len(result) - len(kinds)
    if left and required is None:
        sheet.skip(12)
        words = f"{left} layouts of tiles that several threads hold alike (rows, columns) are left"
        sheet.words(words + " out; --value %x shows that of %x", "soft")
    return sheet.done()


def _kinds(names: ValueNames) -> dict[Tile, list[str]]:
    """The largest tile of each layout, and the values that have it."""
    result: dict[Layout, Tile] = {}
    values: dict[Layout, list[str]] = {}
    for value, name in names.of.items():
        kind = value.type
        if isinstance(kind, Tile) and kind.layout is not None:
            earlier = result.get(kind.layout)
            result[kind.layout] = kind if earlier is None or kind.size > earlier.size else earlier
            values.setdefault(kind.layout, []).append(name)
    return {kind: values[layout] for layout, kind in result.items()}


def _of(kind: Type, kinds: dict[Tile, list[str]]) -> dict[Tile, list[str]]:
    """The tile of one value, and the values with the same layout."""
    if not isinstance(kind, Tile):
        return {}
    values = next((v for other, v in kinds.items() if other.layout == kind.layout), [])
    return {kind: values}


def _drop_replicated(kinds: dict[Tile, list[str]]) -> dict[Tile, list[str]]:
    """The tiles without replicated elements, or all tiles if there are none."""
    result = {k: v for k, v in kinds.items() if not _is_replicated(k.layout)}
    return result or kinds


def _is_replicated(layout: Layout) -> bool:
    return any(layout.free_bits(a) for a in ("lane", "warp")) or any(
        repeat.dim is None for repeat in layout.repeats
    )


def _draw(sheet: Sheet, kind: Tile, values: list[str]) -> None:
    sheet.skip(10)
    sheet.words(f"{shape_text(kind.shape)}: {clip(', '.join(values), 860)}", "head")
    for axis in ("warp", "lane", "register"):
        words = "; ".join(loop.words for loop in reversed(loops(kind.layout, axis))) or "1"
        sheet.words(f"{axis + 's:':11}{words}", "soft")
    levels = [_block_tile(kind), *_levels(kind)]
    height = max(level.height for level in levels)
    parts = [group(MARGIN + i * (_PANEL + 20), 0, v.parts) for i, v in enumerate(levels)]
    sheet.put(height + 6, parts, label="hierarchy")
    if not _small(kind):
        _by_thread(sheet, kind)


def _block_tile(kind: Tile) -> TileDrawing:
    """The tile coloured by thread if that fits, else by warp."""
    owned = owners(kind.layout, kind.shape).items()
    if _small(kind):
        cells = {at: (thread_colour(h[0][0], h[0][1]), "", _title(h)) for at, h in owned}
        return _panel(f"block tile {shape_text(kind.shape)}", kind.shape, cells, 14.0, 420)
    cells = {at: (warp_colour(h[0][0]), f"w{h[0][0]}", f"warp {h[0][0]}") for at, h in owned}
    return _panel(f"block tile {shape_text(kind.shape)}", kind.shape, cells)


def _small(kind: Tile) -> bool:
    """Whether every element of a tile can be drawn next to the micro-tile."""
    return kind.shape[-1] * 5 <= _PANEL and kind.size // kind.shape[-1] * 5 <= 400


def _levels(kind: Tile) -> Iterator[TileDrawing]:
    """Yield the micro-tile and the nano-tile, each at its own scale."""
    layout, nano, owned = kind.layout, nano_tile(kind.layout), owners(kind.layout, kind.shape)
    micro: dict[Vector, Cell] = {}
    inside: dict[Vector, Cell] = {}
    box = set(product(*map(range, nano)))
    first = {r: v for r, v in enumerate(layout.registers) if v in box}
    for lane, register in product(range(layout.size("lane")), first):
        at = layout.coordinate(register, lane, 0)
        if at in owned and at not in micro:
            micro[at] = (thread_colour(0, lane), str(lane), f"lane {lane}")
    for register, at in first.items():
        inside[at] = (thread_colour(0, 0), f"r{register}", f"register {register}")
    extents = tuple(max(at[d] for at in micro) + 1 for d in range(layout.rank))
    yield _panel(f"micro-tile of warp 0: {shape_text(extents)}", extents, micro)
    times = layout.size("register") // len(first)
    more = f", {times} times" if times > 1 else ""
    yield _panel(f"nano-tile of lane 0: {shape_text(nano)}{more}", nano, inside)


def _panel(
    title: str, shape: Vector, cells: Mapping[Vector, Cell], most: float = 24.0, high: float = 200
) -> TileDrawing:
    """A drawing below its title."""
    result = drawing(fit_frame(shape, _PANEL - 10, high, most), cells)
    head = text(0, 12, clip(title, _PANEL))
    parts = [head, group(0, LINE + 4, result.parts)]
    return TileDrawing(parts, result.width, LINE + 10 + result.height)


def _by_thread(sheet: Sheet, kind: Tile) -> None:
    """Draw the tile with each element in the colour of its owner thread."""
    window = (*([1] * len(kind.shape[:-2])), *kind.shape[-2:])
    columns = kind.shape[-1] if len(window) > 1 else min(kind.shape[-1], _WRAP)
    fragments = -(-columns // nano_tile(kind.layout)[-1])
    high = max(_LEAST, min(_HIGH, _MOST * _LEAST / fragments))
    frame = fit_frame(window, _WIDE, high, 9.0, _WRAP, _LEAST)
    cells = {
        at: (thread_colour(h[0][0], h[0][1]), "", _title(h))
        for at, h in owners(kind.layout, kind.shape).items()
    }
    part = "" if window == kind.shape and frame.whole else f", the first {frame.rows} rows drawn"
    sheet.words(f"{shape_text(kind.shape)} by thread{part}", "soft")
    result = drawing(frame, cells)
    sheet.put(result.height + 4, result.parts, MARGIN, label="tile")


def _title(owners_: Sequence[Owner]) -> str:
    names = list(dict.fromkeys(f"warp {w} lane {n}" for w, n, _ in owners_))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}"
