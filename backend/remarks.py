"""Remarks on each line of a kernel: how it is compiled, and what prevents better code.

Passes emit remarks when they run. The remarks of this module are derived on demand from the kernel
with layouts, so that compilation does not pay for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tileir.backend.layouts.access_widths import AccessWidths, is_access
from tileir.backend.layouts.anchors import contiguous_dim, neighbours_first, vector_run
from tileir.backend.layouts.idle_threads import idle
from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import SharedAlloc
from tileir.passmanager.registry import remark
from tileir.types import Pointer, Tile

_BYTES = 16
"""The widest access of one thread (PTX ISA, ld: .v4.b32)."""


def access_remarks(function: Function) -> Iterator[Diagnostic]:
    """Yield remarks about `function`, whose tiles have layouts: TIR0754 for threads without work,
    TIR0755 for its accesses to global memory, TIR0756 for its pipelined loads."""
    yield from idle(function)
    yield from dict.fromkeys(_pipelined_loads(function))
    yield from dict.fromkeys(_accesses(function))


def _pipelined_loads(function: Function) -> Iterator[Diagnostic]:
    for op in function.ops:
        if isinstance(op, SharedAlloc):
            stages, *shape = op.shape
            if stages < 2:
                continue
            kind = cast(Pointer, op.result.type).pointee
            tile = f"{kind}<{', '.join(map(str, shape))}>"
            message = f"pipelined: {tile} is copied {stages - 1} iterations ahead, {stages} stages"
            yield remark("TIR0756", message, op.location)


def _accesses(function: Function) -> Iterator[Diagnostic]:
    contiguity = AccessWidths(function)
    for op in function.ops:
        if is_access(op) and op.mnemonic in ("load", "store"):
            yield _access(op, contiguity)


def _access(op: Op, contiguity: AccessWidths) -> Diagnostic:
    """A remark on the number of elements that a thread accesses at once, and on what prevents
    more."""
    tile = cast(Any, op.inputs[0].type)
    size = tile.element.pointee.bytes
    dim, most = contiguous_dim(op, contiguity), max(1, _BYTES // size)
    run = vector_run(neighbours_first(tile.layout, dim), dim)
    width = min(run, most, contiguity.width(op, dim))
    at_once = f"{width} elements ({width * size} bytes) at a time"
    message = f"{op.mnemonic}: {at_once if width > 1 else 'element by element'}"
    if width < most:
        message += f", as {_limit(op, contiguity, dim, 2 * width, run)}"
    return remark("TIR0755", message, op.location)


def _limit(op: Op, contiguity: AccessWidths, dim: int, wider: int, run: int) -> str:
    """The reason why an access has less than `wider` elements along `dim`."""
    tile = cast(Tile, op.inputs[0].type)
    facts, size = contiguity.facts.of(op.inputs[0]), cast(Pointer, tile.element).pointee.bytes
    if tile.shape[dim] % wider:
        return f"an extent of {tile.shape[dim]} is not a multiple of {wider}"
    if facts.contiguity[dim] % wider:
        return f"no {wider} neighbours have consecutive addresses"
    alignment = facts.multiple_at(dim, wider)
    if alignment < size:
        return "the alignment of the addresses is unknown"
    if alignment % (wider * size):
        return f"the addresses are provably multiples of {alignment} bytes only"
    if contiguity.width(op, dim) < wider:
        return f"its mask may differ between {wider} neighbours"
    return f"a thread owns {run} neighbour{'s' * (run != 1)} only"
