"""Detection of threads that own no element of any tile of a kernel."""

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
    """Yield a remark (TIR0754) at the op of `function`, whose tiles have layouts, that keeps the
    most threads busy, if the block has more threads. It states the number of busy threads and the
    number of warps that suffice."""
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
    """The number of warps that suffice for `function`, whose tiles have layouts for `warps` warps.
    It is reduced by powers of two as long as the other warps own only copies of elements. It is
    `warps` if foreign code may distinguish threads."""
    tiles = _layouts(function)
    if not tiles or any(Effects.OUTSIDE in op.effects for op in function.ops):
        return warps
    owners = max(map(_busy, {layout for layout, _ in tiles}))
    while warps % 2 == 0 and owners <= tiles[0][0].size("lane") * warps // 2:
        warps //= 2
    return warps


def _layouts(function: Function) -> list[tuple[Layout, Op]]:
    """The layouts of tiles, and the ops that compute these."""
    tiles = [(v.type, op) for op in function.ops for v in op.results if isinstance(v.type, Tile)]
    return [(tile.layout, op) for tile, op in tiles if tile.layout is not None]


def _busy(layout: Layout) -> int:
    """The number of threads that own an element that no earlier thread owns."""
    return layout.size("lane") * layout.size("warp") // replication(layout)
