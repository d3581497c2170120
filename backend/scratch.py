"""Shared memory that ops use for themselves: reductions across warps, layout conversions.

Every op has bytes of its own while they fit; larger needs share the memory behind, one after
another, which costs a barrier more (`tileir.backend.sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tileir.backend.conversion import needs_memory, placement
from tileir.backend.reduction import reduction_bytes
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
        if size <= _OWN_LIMIT and top + size <= STATIC_LIMIT // 4:
            offsets[op], top = top, _aligned(top + size)
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


def _needs(function: Function) -> Iterator[tuple[Op, int]]:
    for op in function.ops:
        need = NEEDS.get(op.mnemonic)
        size = 0 if need is None else need(op)
        if size:
            yield op, _aligned(size)


def _conversion(op: Any) -> int:
    source = op.source.type
    return placement(source).bytes if needs_memory(source, op.layout) else 0


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
    """A scalar's old value, which one thread tells the others; a tile's stays where it is."""
    return 0 if isinstance(op.result.type, Tile) else element_of(op.result.type).bytes  # type: ignore[union-attr]


def _dot(op: Any) -> int:
    return sum(v.type.size * v.type.element.bytes for v in op.inputs[:2]) + 16


NEEDS: dict[str, Callable[[Any], int]] = {
    "gpu.convert_layout": _conversion,
    "reduce": reduction_bytes,
    "reshape": _reshape,
    "atomic_rmw": _atomic,
    "atomic_cas": _atomic,
    "join": _result,
    "split": _operand,
    "cat": _result,
    "gather": _operand,
    "extract_slice": _operand,
    "insert_slice": _operand,
    "dot": _dot,
}
"""Bytes of shared memory by mnemonic."""


def _aligned(size: int) -> int:
    return -(-size // 16) * 16
