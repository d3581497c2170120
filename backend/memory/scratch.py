"""Shared memory that ops use for themselves: reductions across warps, layout conversions.

Every op has bytes of its own while they fit; larger needs share the memory behind, one after
another, which costs a barrier more (`tileir.backend.memory.sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tileir.backend.layouts.halves import stays
from tileir.backend.lower.conversion import conversion_bytes, placement
from tileir.backend.lower.reduction import reduction_bytes
from tileir.backend.lower.scan import scan_bytes
from tileir.backend.memory.dot_staging import staging
from tileir.backend.memory.shared import SharedTile
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function
from tileir.layout import differs_in_units
from tileir.op import Op
from tileir.types import Tile, element_of

STATIC_LIMIT = 49152
"""Bytes a block may have without asking at launch (CUDA C++ Programming Guide, "Shared Memory")."""

_OWN_LIMIT = 4096
"""Needs up to this many bytes are kept apart."""

_LINE = 128
"""Bytes of all banks together, which swizzled buffers begin at a multiple of."""

BUFFERS = frozenset({"gpu.shared_alloc"})
"""Ops whose memory outlives them, which nothing shares."""


@attrs.frozen
class Plan:
    """`offsets` of the ops that need shared memory, with `sizes`, and bytes in all."""

    offsets: Mapping[Op, int]
    sizes: Mapping[Op, int]
    size: int

    @property
    def dynamic(self) -> bool:
        """Whether the memory must be asked for at launch."""
        return self.size > STATIC_LIMIT


def plan(function: Function, target: Target) -> Plan:
    """Offsets for every op of `function`. Raises `CompileError` (TIR0708) where they exceed what
    `target` has."""
    sizes = dict(_needs(function))
    offsets: dict[Op, int] = {}
    top = 0
    for op, size in sizes.items():
        if op.mnemonic in BUFFERS:
            continue
        if size <= _OWN_LIMIT and top + size <= STATIC_LIMIT // 4:
            offsets[op], top = top, _aligned(top + size)
    for op, size in sizes.items():
        if op.mnemonic in BUFFERS:
            offsets[op] = -(-top // _LINE) * _LINE
            top = _aligned(offsets[op] + size)
    end = top
    for op, size in sizes.items():
        if op not in offsets:
            offsets[op], end = top, max(end, top + size)
    if end > target.shared_bytes:
        largest = max(sizes, key=lambda o: sizes[o])
        message = f"{largest.mnemonic} needs {end} bytes of shared memory, {target.name} has "
        raise CompileError(
            Diagnostic("TIR0708", message + str(target.shared_bytes), largest.location)
        )
    return Plan(offsets, sizes, end)


ATOMICS = frozenset({"atomic_rmw", "atomic_cas", "atomic_load"})
"""Ops whose old values nobody needs to be told where nobody reads them."""


def _needs(function: Function) -> Iterator[tuple[Op, int]]:
    read = {value for op in function.ops for value in op.operands}
    for op in function.ops:
        need = NEEDS.get(op.mnemonic)
        unread = op.mnemonic in ATOMICS and op.results[0] not in read
        size = 0 if need is None or unread else need(op)
        if size:
            yield op, _aligned(size)


def _conversion(op: Any) -> int:
    return conversion_bytes(op.source.type, op.layout)


def _operand(op: Any) -> int:
    """Room for the first operand, a tile."""
    return placement(op.inputs[0].type).bytes


def _result(op: Any) -> int:
    return placement(op.results[0].type).bytes


def _reshape(op: Any) -> int:
    source, tile = op.value.type, op.result.type
    if differs_in_units(source.shape, tile.shape):
        return 0
    moved = source.layout.reshape(source.shape, tile.shape)
    return 0 if moved == tile.layout else source.size * source.element.bytes


def _atomic(op: Any) -> int:
    """Old values that one thread tells the others: a scalar's, or those of a tile that several
    threads hold."""
    kind = op.result.type
    if not isinstance(kind, Tile):
        return element_of(kind).bytes  # type: ignore[union-attr]
    layout = kind.layout
    free = layout.free_bits("lane") or layout.free_bits("warp")
    idle = any(not any(d.step) for axis in ("lane", "warp") for d in layout.digits(axis))
    return placement(kind).bytes if free or idle else 0


def _dot(op: Any) -> int:
    found = staging(op)
    return 0 if found is None else found.bytes


def _unsplat(op: Any) -> int:
    tile = op.value.type
    return 0 if all(n == 1 for n in tile.layout.extents) else placement(tile).bytes


def _histogram(op: Any) -> int:
    return 4 * op.result.type.size


def _buffer(op: Any) -> int:
    return op.shape[0] * SharedTile.of(op).bytes


NEEDS: dict[str, Callable[[Any], int]] = {
    "gpu.shared_alloc": _buffer,
    "gpu.convert_layout": _conversion,
    "reduce": reduction_bytes,
    "reshape": _reshape,
    "atomic_rmw": _atomic,
    "atomic_cas": _atomic,
    "join": lambda op: 0 if stays(op) else _result(op),
    "split": lambda op: 0 if stays(op) else _operand(op),
    "cat": lambda op: 0 if stays(op) else _result(op),
    "gather": _operand,
    "extract_slice": _operand,
    "insert_slice": lambda op: placement(op.small.type).bytes,
    "dot": _dot,
    "scan": scan_bytes,
    "unsplat": _unsplat,
    "histogram": _histogram,
    "atomic_load": _atomic,
}
"""Bytes of shared memory by mnemonic."""


def _aligned(size: int) -> int:
    return -(-size // 16) * 16
