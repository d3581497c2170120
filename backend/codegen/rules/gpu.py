"""Ops that only the backend creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tileir.analysis.uses import definitions
from tileir.backend.codegen.emit.ldmatrix import OwnedRegisters
from tileir.backend.codegen.emit.shared_addresses import (
    SharedTileWindow,
    add_terms,
    addresses,
    register_at,
    times,
)
from tileir.backend.codegen.emit.tile_access import load_tile, store_window
from tileir.backend.codegen.lowering import (
    Fragment,
    Lowering,
    Rule,
    contributions_overlap,
    scalar_of,
    thread_span,
)
from tileir.backend.codegen.rules.memory import access_mask, vector_groups
from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.layouts.wgmma import WARPS
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.layout import Layout
from tileir.ops.shape import GetElementPtr, Splat
from tileir.types import I1, I32, Element


def _convert(lowering: Lowering, op: Any) -> list[Fragment]:
    from tileir.backend.codegen.emit.conversion import convert

    source = op.source.type
    fragment = lowering.fragment(op.source)
    return [convert(lowering, op, fragment, source, op.layout)]


def _barrier(lowering: Lowering, op: Any) -> list[Fragment]:
    if op.warp:
        lowering.thread.warp_barrier()
    elif op.warpgroup and lowering.num_warps > WARPS:
        lowering.thread.group_barrier()
    else:
        lowering.thread.barrier()
    return []


def buffer_place(op: Any, base: int = 0) -> SharedTile:
    """The placement of one stage of the buffer that `op` allocates, from byte `base` on."""
    return SharedTile.of(op, base)


def _shared_alloc(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.integer(lowering.scratch[op])]]


def buffer(lowering: Lowering, op: Any, pointer: Any) -> SharedTile:
    """The placement of the buffer that `op` accesses."""
    defining_op = lowering.origin(pointer)
    if defining_op is None or defining_op.mnemonic != "gpu.shared_alloc":
        raise lowering.refuse(op, "the buffer must be the result of gpu.shared_alloc")
    return buffer_place(defining_op, lowering.scratch[defining_op])


def _window(lowering: Lowering, op: Any, offsets: tuple[int, int] = (0, 0)) -> SharedTileWindow:
    """The part of the stage that `op` accesses."""
    place = buffer(lowering, op, op.buffer)
    start = times(lowering.thread, lowering.scalar(op.stage), place.bytes)
    return SharedTileWindow(place, offsets, start=start)


def _async_copy(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, kind = lowering.thread, op.pointer.type
    window, pointer_of = _window(lowering, op, op.offsets), _pointers(lowering, op.pointer)
    where = addresses(lowering, window, kind.layout)
    size, first_owner = window.place.element.bytes, lowering.first_owner(kind.layout)
    for group in vector_groups(lowering, op):
        mask = access_mask(lowering, op, group[0], once=False)
        inside = lowering.inside(kind.layout, kind.shape, group[0])
        if inside == "false":
            continue
        doing = first_owner
        if inside is not None:
            doing = inside if first_owner is None else thread.binary("and", I1, inside, first_owner)
        offset, constant = register_at(window, where, kind.layout.registers[group[0]])
        pointer = pointer_of(group[0])
        if len(group) * size < _LEAST:
            at = thread.binary("add", I32, offset, thread.integer(constant))
            _copy(lowering, window.place.element, len(group), at, pointer, mask, doing)
        else:
            thread.copy_async(len(group) * size, offset, constant, pointer, mask, doing)
    return []


_LEAST = 4
"""Bytes of an asynchronous copy (PTX ISA, cp.async)."""


def _copy(
    lowering: Lowering,
    element: Element,
    count: int,
    at: Any,
    pointer: Any,
    mask: Any,
    registers: Any,
) -> None:
    """A copy through registers, which completes immediately."""
    thread = lowering.thread
    zeros = None if mask is None else [thread.constant(element, 0)] * count

    def move() -> list[Any]:
        values = thread.load_global(element, count, pointer, mask, zeros, AccessAttributes())
        thread.store_shared(element, at, values)
        return []

    thread.when(registers or "true", (), move)


def _pointers(lowering: Lowering, operand: Any) -> Callable[[int], Any]:
    """A function from a register to its pointer. If all lanes start from one pointer, the pointer
    is rematerialized from it."""
    defining_ops = definitions(lowering.function)
    step: Any = defining_ops.get(operand)
    base: Any = (
        defining_ops.get(cast(Any, step.pointer)) if isinstance(step, GetElementPtr) else None
    )
    if not isinstance(base, Splat):
        return lowering.fragment(operand).__getitem__
    kind, width = scalar_of(operand.type), scalar_of(step.index.type)
    first, offsets = lowering.scalar(base.value), lowering.fragment(step.index)
    return lambda r: lowering.thread.advance_here(kind, first, offsets[r], width)  # type: ignore[arg-type]


def _async_commit(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.commit_copies()
    return []


def _async_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.wait_copies(op.pending)
    return []


def _local_load(lowering: Lowering, op: Any) -> list[Fragment]:
    with lowering.thread.keeping():
        return [load_tile(lowering, _window(lowering, op, op.offsets), op.result.type)]


def _local_gather(lowering: Lowering, op: Any) -> list[Fragment]:
    from tileir.backend.codegen.emit.window_load import read_window

    window = _window(lowering, op)
    place = window.place
    if place.swizzle or place.panel or place.fast != 1:
        why = "the buffer must have whole rows along 1, and not be swizzled"
        raise lowering.refuse(op, why)
    base = lowering.thread.integer(window.place.base)
    start = add_terms(lowering.thread, [base, window.start])
    return [read_window(lowering, op, window.place, start)]


def _local_store(lowering: Lowering, op: Any) -> list[Fragment]:
    first, _ = op.columns or (0, 0)
    window = _window(lowering, op, (op.offsets[0], op.offsets[1] - first))
    columns = _of_columns(lowering, op) if op.columns else None
    store_window(lowering, window, op.value.type, lowering.fragment(op.value), columns)
    return []


def _of_columns(lowering: Lowering, op: Any) -> OwnedRegisters:
    """The registers that contain requested columns, with the conditions under which a thread owns
    them."""
    layout, (first, count) = op.value.type.layout, op.columns
    reach, thread = thread_span(layout, 1), lowering.thread
    threads = None if contributions_overlap(layout, 1) else _columns_of_threads(layout)
    conditions: dict[int, Any] = {}
    of_owners: dict[Any, Any] = {}
    for register, vector in enumerate(layout.registers):
        least = vector[1] - first
        if least >= count or least + reach < 0:
            continue
        conditions[register] = None
        if least < 0 or least + reach >= count:
            owners: Any = register
            if threads is not None:
                owners = tuple(tuple(0 <= least + x < count for x in lanes) for lanes in threads)
            if owners not in of_owners:
                column = lowering.coordinate(layout, register, 1)
                at = thread.binary("sub", I32, column, thread.integer(first))
                of_owners[owners] = thread.compare("ult", I32, at, thread.integer(count))
            conditions[register] = of_owners[owners]
    by_warp = threads is not None and all(len({*lanes}) == 1 for x in of_owners for lanes in x)
    return OwnedRegisters(conditions, by_warp)


def _columns_of_threads(layout: Layout) -> list[list[int]]:
    """For each warp, what its lanes add to the column of a register."""
    lanes = dict.fromkeys(layout.coordinate(lane=i)[1] for i in range(layout.size("lane")))
    warps = dict.fromkeys(layout.coordinate(warp=i)[1] for i in range(layout.size("warp")))
    return [[warp + lane for lane in lanes] for warp in warps]


RULES: dict[str, Rule] = {
    "gpu.convert_layout": _convert,
    "gpu.barrier": _barrier,
    "gpu.shared_alloc": _shared_alloc,
    "gpu.async_copy": _async_copy,
    "gpu.async_commit": _async_commit,
    "gpu.async_wait": _async_wait,
    "gpu.local_load": _local_load,
    "gpu.local_gather": _local_gather,
    "gpu.local_store": _local_store,
}
