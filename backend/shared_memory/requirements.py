"""Shared-memory requirements: ranges that ops use while they run, and buffers.

The pass `allocate-shared` (`tileir.backend.shared_memory.allocate`) chooses the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.uses import base_pointer, definitions, uses
from tileir.backend.layouts.shape_ops import stays
from tileir.backend.target import STATIC_SHARED_BYTES
from tileir.effects import Effects
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.layout import differs_in_units
from tileir.op import Op
from tileir.ops.memory import Load, Store
from tileir.types import Tile, element_of

_BUFFER = "gpu.shared_alloc"

_ALIGNMENT = 16
"""The widest access of one thread, in bytes."""

_ORDERED = Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE
"""Effects whose order other threads may observe."""


class SharedRequirement(NamedTuple):
    """A requirement of shared memory: bytes, a multiple of 16, and the alignment of the first."""

    size: int
    alignment: int


@attrs.frozen(eq=False, repr=False)
class SharedMemoryPlan:
    """The `offsets` and `sizes` of the ops with shared-memory ranges, and the total bytes."""

    offsets: Mapping[Op, int]
    sizes: Mapping[Op, int]
    size: int

    @staticmethod
    def of(function: Function) -> SharedMemoryPlan:
        """The plan that the attributes `shared` of the ops of `function`, and of the function,
        state."""
        ranges = {op: op.shared for op in function.ops if op.shared is not None}
        total = function.attributes.get("shared", 0)
        offsets, sizes = ({op: byte_range[i] for op, byte_range in ranges.items()} for i in (0, 1))
        return SharedMemoryPlan(offsets, sizes, total if isinstance(total, int) else 0)

    @staticmethod
    def with_roles(module: Module, kernel: str, roles: Sequence[str]) -> SharedMemoryPlan:
        """The ranges of `kernel` and of `roles`, as the functions state them."""
        plans = [SharedMemoryPlan.of(module.functions[name]) for name in (kernel, *roles)]
        offsets = {op: at for plan in plans for op, at in plan.offsets.items()}
        sizes = {op: size for plan in plans for op, size in plan.sizes.items()}
        return SharedMemoryPlan(offsets, sizes, plans[0].size)

    @property
    def alignment(self) -> int:
        """The alignment of the first byte."""
        return max((_alignment(op) for op in self.offsets), default=_ALIGNMENT)

    @property
    def dynamic(self) -> bool:
        """Whether the memory must be requested at launch."""
        return self.size > STATIC_SHARED_BYTES


def needs(function: Function) -> dict[Op, SharedRequirement]:
    """The requirement of each op of `function`, in order. Raises CompileError (TIR0709) for a tile
    without a layout."""
    requirements: dict[Op, SharedRequirement] = {}
    for op in function.ops:
        need = NEEDS.get(op.mnemonic)
        if need is None or (_broadcasts(op) and op.results[0] not in uses(function)):
            continue
        check_layouts(op)
        if size := need(op):
            requirements[op] = SharedRequirement(
                -(-size // _ALIGNMENT) * _ALIGNMENT, _alignment(op)
            )
    return requirements


def may_have_hazards(function: Function, context: Any) -> bool:
    """Whether threads may need a barrier. They need none if the function only loads and stores
    through parameters, and no path leads from an access to another one of the same parameter if one
    of them is a store."""
    touching = [op for op in function.ops if op.effects & _ORDERED or op.shared is not None]
    for op in touching:
        plain = isinstance(op, (Load, Store)) and not op.effects & Effects.SYNC
        if not plain or op.shared is not None:
            return True
    defining, parameters = definitions(function), {p.value for p in function.parameters}
    bases = {op: base_pointer(op.inputs[0], defining) for op in touching}
    if not parameters.issuperset(bases.values()):
        return True
    graph = cfg(function)
    if graph.has_cycles:
        return any(op.mnemonic == "store" for op in touching)
    leaving: dict[str, dict[Any, bool]] = {}
    for label in graph.order:
        written: dict[Any, bool] = {}
        for other in graph.predecessors[label]:
            for base, stores in leaving[other].items():
                written[base] = stores or written.get(base, False)
        for op in function.blocks[label].ops:
            if op in bases:
                base, stores = bases[op], op.mnemonic == "store"
                if base in written and (stores or written[base]):
                    return True
                written[base] = stores
        leaving[label] = written
    return False


def _alignment(op: Op) -> int:
    if op.mnemonic != _BUFFER:
        return _ALIGNMENT
    from tileir.backend.shared_memory.shared_tile import SharedTile

    return SharedTile.of(op).alignment


def _broadcasts(op: Op) -> bool:
    """Whether one thread may broadcast the result, unless the result is unused."""
    return bool(op.results) and (op.is_atomic or op.mnemonic == "load")


def is_warp_local(op: Any) -> bool:
    """Whether the values in the range of `op` stay within the warp that wrote them. Other ops
    synchronize all threads in between."""
    if op.mnemonic == "gather":
        from tileir.backend.shared_memory.warp_gathers import gathers_within_warps

        return gathers_within_warps(op.source.type, op.result.type, op.axis)
    if op.mnemonic != "gpu.convert_layout":
        return False
    from tileir.backend.shared_memory.conversion_plan import within_warps  # on use, as below

    return within_warps(op.source.type, op.layout)


def check_layouts(op: Op) -> None:
    """Raise CompileError (TIR0709) where a tile that `op` concerns has no layout."""
    for value in (*op.inputs, *op.results):
        if isinstance(value.type, Tile) and value.type.layout is None:
            message = f"{op.mnemonic}: {value.type} has no layout; `assign-layouts` chooses them"
            raise CompileError(Diagnostic("TIR0709", message, op.location))


# The modules that compute requirements are imported only for kernels with such ops.


def _conversion(op: Any) -> int:
    from tileir.backend.shared_memory.conversion_plan import conversion_bytes

    return conversion_bytes(op.source.type, op.layout)


def _placement_bytes(tile: Tile) -> int:
    from tileir.backend.shared_memory.conversion_plan import placement

    return placement(tile).bytes


def _operand(op: Any) -> int:
    """The range contains the first operand, a tile."""
    return _placement_bytes(op.inputs[0].type)


def _result(op: Any) -> int:
    return _placement_bytes(op.results[0].type)


def _reshape(op: Any) -> int:
    source, tile = op.value.type, op.result.type
    if differs_in_units(source.shape, tile.shape):
        return 0
    moved = source.layout.reshape(source.shape, tile.shape)
    return 0 if moved == tile.layout else source.size * source.element.bytes


def _atomic(op: Any) -> int:
    """The range contains old values that one thread broadcasts: a scalar, or a tile whose elements
    have several owners."""
    kind = op.result.type
    if not isinstance(kind, Tile):
        return element_of(kind).bytes  # type: ignore[union-attr]
    return _placement_bytes(kind) if kind.layout.is_replicated else 0


def _volatile(op: Any) -> int:
    """The range contains the result of a volatile load, which other instances may change meanwhile:
    all owners of an element must read the same value."""
    return _atomic(op) if op.volatile else 0


def _reduce(op: Any) -> int:
    from tileir.backend.layouts.reduction_plan import reduction_bytes

    return reduction_bytes(op)


def _scan(op: Any) -> int:
    from tileir.backend.layouts.scan_plan import scan_bytes

    return scan_bytes(op)


def _dot(op: Any) -> int:
    from tileir.backend.shared_memory.fma_dot_staging import staging

    staged = staging(op)
    return 0 if staged is None else staged.bytes


def _unsplat(op: Any) -> int:
    tile = op.value.type
    return 0 if all(n == 1 for n in tile.layout.extents) else _placement_bytes(tile)


def _histogram(op: Any) -> int:
    return 4 * op.result.type.size


def _buffer(op: Any) -> int:
    from tileir.backend.shared_memory.shared_tile import SharedTile

    return op.shape[0] * SharedTile.of(op).bytes


NEEDS: dict[str, Callable[[Any], int]] = {
    _BUFFER: _buffer,
    "gpu.mbarrier_alloc": lambda op: 8 * op.count,
    "gpu.convert_layout": _conversion,
    "reduce": _reduce,
    "reshape": _reshape,
    "atomic_rmw": _atomic,
    "atomic_cas": _atomic,
    "join": lambda op: 0 if stays(op) else _result(op),
    "split": lambda op: 0 if stays(op) else _operand(op),
    "cat": lambda op: 0 if stays(op) else _result(op),
    "gather": _operand,
    "extract_slice": _operand,
    "insert_slice": lambda op: _placement_bytes(op.small.type),
    "dot": _dot,
    "scan": _scan,
    "unsplat": _unsplat,
    "histogram": _histogram,
    "atomic_load": _atomic,
    "load": _volatile,
}
"""Bytes of shared memory by mnemonic."""
