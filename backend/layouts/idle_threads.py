"""Threads for which no tile of a kernel has an element."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.layout import Layout
from tileir.layout_algebra import replication
from tileir.passmanager.registry import remark
from tileir.types import Tile


def idle(function: Function) -> Iterator[Diagnostic]:
    """A remark (TIR0754) at the op of `function`, whose tiles have layouts, that keeps most
    threads busy, if there are more: how many, and how few warps would do."""
    tiles = [(v.type, op) for op in function.ops for v in op.results if isinstance(v.type, Tile)]
    busy = [(_busy(tile.layout), op) for tile, op in tiles if tile.layout is not None]
    if not busy:
        return
    layout: Layout = tiles[0][0].layout
    lanes, warps = layout.size("lane"), layout.size("warp")
    most, op = max(busy, key=lambda pair: pair[0])
    if most < lanes * warps:
        message = f"{lanes * warps - most} of {lanes * warps} threads duplicate elements of others"
        enough = -(-most // lanes)
        if enough < warps:
            message += f": {enough} warp{'s' * (enough > 1)} would do"
        yield remark("TIR0754", message, op.location)


def _busy(layout: Layout) -> int:
    """Threads that own an element that no earlier thread owns."""
    return layout.size("lane") * layout.size("warp") // replication(layout)
