"""Loads of overlapping windows from shared memory: `gpu.local_gather`."""

from __future__ import annotations

from typing import Any

from tileir.backend.codegen.emit.shared_addresses import add_terms, times
from tileir.backend.codegen.lowering import Fragment, Lowering
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.types import I32


def read_window(lowering: Lowering, op: Any, place: SharedTile, start: Any) -> Fragment:
    """The elements of `op` that a thread owns, loaded from the stage of `place` at byte `start`.
    Padding loads the window's first element."""
    thread, size, kind = lowering.thread, place.element.bytes, op.result.type
    row = times(thread, lowering.scalar(op.row), place.pitch)
    column = times(thread, lowering.scalar(op.column), size)
    first = add_terms(thread, [start, row, column])
    steps = [r * place.pitch + c * size for r, c in zip(op.rows, op.columns, strict=True)]
    values: list[Any] = []
    for register in range(kind.layout.size("register")):
        inside = lowering.inside(kind.layout, kind.shape, register)
        if inside == "false":
            values.append(thread.constant(place.element, 0))
            continue
        moved = [
            times(thread, lowering.coordinate(kind.layout, register, dim), step)
            for dim, step in enumerate(steps)
            if step
        ]
        at = add_terms(thread, [first, *moved])
        if inside is not None:
            at = thread.select(I32, inside, at, first)
        values += thread.load_shared(place.element, 1, at)
    return values
