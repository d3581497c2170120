"""Accesses to global memory by the threads of a kernel with layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from tileir.analysis.loops import loops
from tileir.backend.layouts.access_widths import AccessWidths, is_access
from tileir.backend.layouts.anchors import contiguous_dim, neighbours_first, vector_run
from tileir.backend.target import VECTOR_BYTES
from tileir.ir import Function
from tileir.layout import Layout
from tileir.types import Tile


@attrs.frozen
class TileAccess:
    """An access to a tile by a thread: the number of elements that the thread owns, the bytes of
    one element, and the number of elements per instruction. `scattered`: no neighbours have
    provably contiguous addresses, for instance because indices come from a table."""

    elements: int
    size: int
    width: int
    scattered: bool

    @property
    def instructions(self) -> float:
        """The number of instructions per thread."""
        return self.elements / self.width


def accesses(function: Function, ops: Iterable[Any]) -> Iterator[TileAccess]:
    """Yield the accesses of those of `ops`, ops of `function`, that access tiles."""
    contiguity = AccessWidths(function)
    for op in ops:
        if is_access(op) and isinstance(op.inputs[0].type, Tile):
            kind: Any = op.inputs[0].type
            layout = kind.layout
            if isinstance(layout, Layout):
                size = kind.element.pointee.bytes
                dim = contiguous_dim(op, contiguity)
                widest = max(1, VECTOR_BYTES // size)
                run = vector_run(neighbours_first(layout, dim), dim)
                width = min(run, contiguity.width(op, dim), widest)
                scattered = max(contiguity.runs(op.inputs[0])) == 1
                yield TileAccess(layout.size("register"), size, width, scattered)


def scattered_access_count(listed: Iterable[TileAccess], warps: int) -> float:
    """The number of instructions for scattered accesses, over all `warps` warps."""
    return sum(each.instructions for each in listed if each.scattered) * warps


def by_depth(function: Function) -> tuple[list[Any], list[Any]]:
    """The ops of the innermost loops, and all other ops."""
    loop_forest = loops(function)
    depths = {label: loop_forest.depth(label) for label in function.blocks}
    deepest = max(depths.values())
    inner: list[Any] = []
    outer: list[Any] = []
    for label, depth in depths.items():
        (inner if depth == deepest else outer).extend(function.blocks[label].ops)
    return inner, outer
