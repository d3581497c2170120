"""Threads for which no tile of a kernel has an element."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.layout import Layout
from tileir.layout_algebra import replication
from tileir.op import Op
from tileir.passmanager.registry import remark
from tileir.types import Tile


def idle(function: Function) -> Iterator[Diagnostic]:
    """A remark (TIR0754) at the op of `function`, whose tiles have layouts, that keeps most
    threads busy, if there are more: how many, and how few warps would do."""
    tiles = _layouts(function)
    if not tiles:
        return
    layout = tiles[0][0]
    lanes, warps = layout.size("lane"), layout.size("warp")
    most, op = max(((_busy(each), op) for each, op in tiles), key=lambda pair: pair[0])
    if most < lanes * warps:
        message = f"{lanes * warps - most} of {lanes * warps} threads duplicate elements of others"
        enough = -(-most // lanes)
        if enough < warps:
            message += f": {enough} warp{'s' * (enough > 1)} would do"
        yield remark("TIR0754", message, op.location)


def fewest_warps(function: Function, warps: int) -> int:
    """A number of warps that suffice for `function`, whose tiles have layouts for `warps`: less by
    powers of two, as long as the others duplicate all elements of theirs. All of `warps`, if code
    that is not the compiler's may tell threads apart."""
    tiles = _layouts(function)
    if not tiles or any(Effects.OUTSIDE in op.effects for op in function.ops):
        return warps
    owners = max(_busy(layout) for layout, _ in tiles)
    while warps % 2 == 0 and owners <= tiles[0][0].size("lane") * warps // 2:
        warps //= 2
    return warps


def _layouts(function: Function) -> list[tuple[Layout, Op]]:
    """The layouts of tiles, and the ops that compute these."""
    tiles = [(v.type, op) for op in function.ops for v in op.results if isinstance(v.type, Tile)]
    return [(tile.layout, op) for tile, op in tiles if tile.layout is not None]


def _busy(layout: Layout) -> int:
    """Threads that own an element that no earlier thread owns."""
    return layout.size("lane") * layout.size("warp") // replication(layout)
