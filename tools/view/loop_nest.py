"""The loop nest of an op: parallel loops over warps and lanes, a sequential loop over registers,
and the body with its coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tileir.layout import Layout, Vector
from tileir.op import Op
from tileir.tools.view.loops import DrawnLoop, loops
from tileir.tools.view.naming import ValueNames
from tileir.types import Tile
from tileir.values import Operand, Value

_REGISTERS = "ijkmnopq"
_AXES = (("warp", "w"), ("lane", "l"), ("register", ""))


@attrs.frozen
class IterationSpace:
    """The iteration space of an op: the tile whose elements are computed, and for a dot the number
    of multiplications per element (K)."""

    op: Op
    tile: Tile
    steps: int = 1

    @property
    def shape(self) -> Vector:
        """Extents of the iteration space."""
        return self.tile.shape if self.steps == 1 else (*self.tile.shape, self.steps)


def space(op: Op) -> IterationSpace | None:
    """The iteration space of `op`: the elements of its largest tile, and K for a dot; None if it
    has no tile."""
    values = (*op.results, *op.inputs)
    tiles = [v.type for v in values if isinstance(v.type, Tile) and v.type.layout is not None]
    if not tiles:
        return None
    if op.mnemonic == "dot":
        result: Any = op
        return IterationSpace(op, result.c.type, result.a.type.shape[-1])
    return IterationSpace(op, max(tiles, key=lambda tile: tile.size))


@attrs.frozen
class Counter:
    """A loop and the name of its variable."""

    axis: str
    name: str
    loop: DrawnLoop


def counters(layout: Layout) -> list[Counter]:
    """The loops of a layout, outermost first: warps, lanes, registers."""
    counts: list[Counter] = []
    for axis, letter in _AXES:
        every = loops(layout, axis)
        for i, loop in reversed(list(enumerate(every))):
            name = f"{letter}{i}" if letter else _REGISTERS[(len(every) - 1 - i) % len(_REGISTERS)]
            counts.append(Counter(axis, name, loop))
    return counts


def coordinate(counts: Sequence[Counter], dim: int) -> str:
    """The coordinate along `dim`, as an expression of the loop variables."""
    terms: list[str] = []
    for counter in counts:
        step = counter.loop.step[dim]
        if step:
            joint = "^" if counter.loop.crossed else ""
            terms.append(f"{joint}{counter.name if step == 1 else f'{step} {counter.name}'}")
    return " + ".join(terms).replace("+ ^", "^ ").lstrip("^") or "0"


def lines(space: IterationSpace, names: ValueNames) -> Iterator[str]:
    """Yield the loops and their body, as text."""
    result = counters(space.tile.layout)
    indent = ""
    for axis, words in (("warp", "warps"), ("lane", "lanes")):
        every = [c for c in result if c.axis == axis and any(c.loop.step)]
        if every:
            yield f"{indent}at once {_ranges(every)}    # {words}"
            indent += "  "
    for counter in result:
        if counter.axis == "register":
            yield f"{indent}for {_ranges([counter])}"
            indent += "  "
    if space.steps > 1:
        yield f"{indent}for s in 0..{space.steps}    # K"
        indent += "  "
    yield indent + _body(space, names, result)


def _ranges(counts: Sequence[Counter]) -> str:
    return ", ".join(f"{c.name} in 0..{c.loop.count}" for c in counts)


def _body(space: IterationSpace, names: ValueNames, counts: Sequence[Counter]) -> str:
    at = [coordinate(counts, dim) for dim in range(len(space.tile.shape))]
    if space.steps > 1:
        result: Any = space.op
        *planes, row, column = at
        a = f"{names.operand(result.a)}[{', '.join([*planes, row, 's'])}]"
        b = f"{names.operand(result.b)}[{', '.join([*planes, 's', column])}]"
        return f"{names.results(space.op)}[{', '.join(at)}] += {a} * {b}"
    place = f"[{', '.join(at)}]"
    inputs = ", ".join(_element(v, names, place) for v in space.op.inputs)
    tiled = any(isinstance(v.type, Tile) for v in space.op.results)
    left = names.results(space.op) + (place if tiled else "")
    return f"{left} = {space.op.mnemonic} {inputs}" if left else f"{space.op.mnemonic} {inputs}"


def _element(operand: Operand, names: ValueNames, place: str) -> str:
    """The operand at a position. Literals and scalars are the same everywhere."""
    tiled = isinstance(operand, Value) and isinstance(operand.type, Tile)
    return names.operand(operand) + (place if tiled else "")
