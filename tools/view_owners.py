"""Who holds which element of a tile: a square per element, its colour the warp, its lightness the
lane, registers and threads named where it is pointed at."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.ir import Function
from tileir.layout import Layout, Vector
from tileir.tools.view_svg import cell, document, shade, text
from tileir.types import Tile

_MOST, _SIZE, _LINE, _WRAP = 16384, 8, 18, 128
"""Elements drawn of a tile; pixels of an element and a line of text; elements of a row."""

Owner = tuple[int, int, int]
"""Warp, lane, register."""


def owners_picture(function: Function) -> str:
    """SVG of each layout of `function` with the largest tile that has it."""
    parts: list[str] = []
    y, width = 0.0, 420.0
    for kind in _kinds(function):
        drawn = list(_tile(kind, y))
        columns = min(kind.shape[-1], _WRAP)
        rows = -(-kind.shape[-1] // _WRAP) * (kind.size // kind.shape[-1])
        width, y = max(width, columns * _SIZE + 20.0), y + rows * _SIZE + 3 * _LINE
        parts += drawn
    return document(width, max(y, 20), parts)


def owners(layout: Layout, shape: Vector) -> dict[Vector, list[Owner]]:
    """Who holds each element, the first holder first."""
    found: dict[Vector, list[Owner]] = {}
    for warp in range(layout.size("warp")):
        for lane in range(layout.size("lane")):
            for register in range(layout.size("register")):
                at = layout.coordinate(register, lane, warp)
                if all(x < n for x, n in zip(at, shape, strict=True)):
                    found.setdefault(at, []).append((warp, lane, register))
    return found


def _kinds(function: Function) -> list[Tile]:
    """The largest tile of each layout, in order, of those that are not too large to draw."""
    found: dict[Layout, Tile] = {}
    for op in function.ops:
        for value in op.results:
            kind = value.type
            if isinstance(kind, Tile) and kind.layout is not None and kind.size <= _MOST:
                known = found.get(kind.layout)
                if known is None or kind.size > known.size:
                    found[kind.layout] = kind
    return list(found.values())


def _tile(kind: Tile, y: float) -> Iterator[str]:
    shape = "x".join(map(str, kind.shape))
    yield text(8, y + _LINE - 4, f"{kind.element}<{shape}>", "head")
    yield text(8, y + 2 * _LINE - 6, "colour: warp; lightness: lane")
    top, width = y + 2 * _LINE, kind.shape[-1]
    lines = -(-width // _WRAP)
    for at, holders in sorted(owners(kind.layout, kind.shape).items()):
        row = 0
        for x, n in zip(at[:-1], kind.shape[:-1], strict=True):
            row = row * n + x
        line = row * lines + at[-1] // _WRAP
        warp, lane, _ = holders[0]
        title = f"{list(at)}: " + ", ".join(f"w{w} l{n} r{r}" for w, n, r in holders[:4])
        left = 8 + at[-1] % _WRAP * _SIZE
        yield cell(left, top + line * _SIZE, _SIZE, shade(warp, lane), title)
