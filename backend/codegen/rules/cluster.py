"""Ops of clusters of thread blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.backend.codegen.emit.shared_addresses import SharedTileWindow, add_terms, times
from tileir.backend.codegen.emit.tile_access import load_tile
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.backend.codegen.rules.gpu import buffer
from tileir.backend.codegen.rules.hopper import barrier_of
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.shared_memory.shared_tile import CHUNK, SharedTile
from tileir.effects import Effects
from tileir.layout import Layout
from tileir.types import I1, I32

_BEGINNING = frozenset({"gpu.shared_alloc", "gpu.mbarrier_alloc"})
_WORD = 4
"""The fewest bytes that go to another block together (PTX ISA, "st.async")."""


def _rank(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.cluster_rank()]]


def _arrive(lowering: Lowering, op: Any) -> list[Fragment]:
    _check_kernel(lowering, op)
    lowering.thread.cluster_arrive(first=_is_first(lowering, op))
    return []


def _wait(lowering: Lowering, op: Any) -> list[Fragment]:
    _check_kernel(lowering, op)
    lowering.thread.cluster_wait()
    return []


def _is_first(lowering: Lowering, op: Any) -> bool:
    """Whether the kernel has done nothing to memory before `op` except to initialize mbarriers."""
    entry = lowering.function.entry.ops
    before = entry[: entry.index(op)] if op in entry else [op]
    memory = Effects.READ | Effects.WRITE
    return all(each.mnemonic in _BEGINNING or not each.effects & memory for each in before)


def _check_kernel(lowering: Lowering, op: Any) -> None:
    """Raise CompileError (TIR0706) if `op` is in a role: all threads of the block take part in a
    cluster barrier."""
    if not lowering.function.kernel:
        raise lowering.refuse(op, "cluster barriers are allowed in the kernel, not in its roles")


def _remote_load(lowering: Lowering, op: Any) -> list[Fragment]:
    place = buffer(lowering, op, op.buffer)
    start = times(lowering.thread, lowering.scalar(op.stage), place.bytes)
    window = SharedTileWindow(place, moved=(lowering.scalar(op.row), None), start=start)
    rank = lowering.scalar(op.rank)
    with lowering.thread.keeping():
        return [load_tile(lowering, window, op.result.type, rank)]


def _remote_scatter(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, place, kind = lowering.thread, buffer(lowering, op, op.buffer), op.value.type
    rows = kind.shape[0] // op.blocks
    if place.shape != (rows, kind.shape[1]) or place.fast != 1 or place.panel:
        raise lowering.refuse(op, f"stages of {place.shape} for rows of {kind} by {op.blocks}")
    layout, values = kind.layout, lowering.fragment(op.value)
    width = min(vector_run(layout, 1), CHUNK // kind.element.bytes)
    if width * kind.element.bytes < _WORD:
        raise lowering.refuse(op, f"threads own single elements of {kind}, less than 4 bytes")
    start = times(thread, lowering.scalar(op.stage), place.bytes)
    barrier = barrier_of(lowering, op, op.barrier, op.index)
    first = lowering.first_owner(layout) or "true"
    for register in _once(layout, width):
        inside = lowering.inside(layout, kind.shape, register)
        if inside == "false":
            continue
        condition = first if inside is None else thread.binary("and", I1, first, inside)
        row, column = (lowering.coordinate(layout, register, dim) for dim in (0, 1))
        rank = thread.binary("udiv", I32, row, thread.integer(rows))
        within = thread.binary("urem", I32, row, thread.integer(rows))
        at = add_terms(thread, [start, _swizzled_offset(thread, place, within, column)])
        part = values[register : register + width]
        thread.when(condition, (), _storing(thread, kind.element, at, rank, part, barrier))
    return []


def _once(layout: Layout, width: int) -> list[int]:
    """Every `width`th register among those with distinct elements, so that each byte is counted
    once."""
    starts = range(0, layout.size("register"), width)
    return list({layout.registers[at]: at for at in reversed(starts)}.values())[::-1]


def _storing(
    thread: Any, element: Any, at: Any, rank: Any, values: Fragment, barrier: Any
) -> Callable[[], list[Any]]:
    def store() -> list[Any]:
        thread.store_remote(element, at, rank, values, barrier)
        return []

    return store


def _swizzled_offset(thread: Any, place: SharedTile, row: Any, column: Any) -> Any:
    """The byte offset of an element of a stage."""
    byte = times(thread, column, place.element.bytes)
    if place.swizzle:
        phase = thread.binary("lshr", I32, row, thread.integer(3 - place.swizzle))
        mask = thread.integer((1 << place.swizzle) - 1)
        phase = times(thread, thread.binary("and", I32, phase, mask), CHUNK)
        byte = thread.binary("xor", I32, byte, phase)
    return add_terms(thread, [thread.integer(place.base), byte, times(thread, row, place.pitch)])


def _remote_arrive(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, where = lowering.thread, barrier_of(lowering, op, op.barrier, op.index)
    thread.barrier()
    count = thread.integer(thread.cluster)
    number = thread.binary("add", I32, times(thread, thread.warp(), 32), thread.lane())
    thread.arrive_remote(where, thread.lane(), thread.compare("ult", I32, number, count))
    return []


def _remote_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    where = barrier_of(lowering, op, op.barrier, op.index)
    lowering.thread.cluster_mbarrier_wait(where, lowering.scalar(op.parity))
    return []


RULES: dict[str, Rule] = {
    "gpu.cluster_rank": _rank,
    "gpu.cluster_arrive": _arrive,
    "gpu.cluster_wait": _wait,
    "gpu.cluster_load": _remote_load,
    "gpu.cluster_scatter": _remote_scatter,
    "gpu.cluster_mbarrier_arrive": _remote_arrive,
    "gpu.cluster_mbarrier_wait": _remote_wait,
}
