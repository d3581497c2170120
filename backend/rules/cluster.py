"""Ops of clusters of thread blocks."""

from __future__ import annotations

from typing import Any

from tileir.backend.lower.lowering import Fragment, Lowering, Rule
from tileir.backend.memory.shared import Window, times
from tileir.backend.memory.windows import load_window
from tileir.backend.rules.gpu import buffer
from tileir.backend.rules.hopper import barrier_of
from tileir.types import I32


def _rank(lowering: Lowering, op: Any) -> list[Fragment]:
    return [[lowering.thread.cluster_rank()]]


def _arrive(lowering: Lowering, op: Any) -> list[Fragment]:
    _check_kernel(lowering, op)
    lowering.thread.cluster_arrive()
    return []


def _wait(lowering: Lowering, op: Any) -> list[Fragment]:
    _check_kernel(lowering, op)
    lowering.thread.cluster_wait()
    return []


def _check_kernel(lowering: Lowering, op: Any) -> None:
    """All threads of a block take part, those of its roles too."""
    if not lowering.function.kernel:
        raise lowering.refuse(op, "only a kernel meets other blocks, and not its roles")


def _remote_load(lowering: Lowering, op: Any) -> list[Fragment]:
    place = buffer(lowering, op, op.buffer)
    start = times(lowering.thread, lowering.scalar(op.slot), place.bytes)
    window = Window(place, moved=(lowering.scalar(op.row), None), start=start)
    rank = lowering.scalar(op.rank)
    with lowering.thread.keeping():
        return [load_window(lowering, window, op.result.type, rank)]


def _remote_arrive(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, where = lowering.thread, barrier_of(lowering, op, op.barrier, op.index)
    thread.barrier()
    count = thread.integer(thread.cluster)
    number = thread.binary("add", I32, times(thread, thread.warp(), 32), thread.lane())
    thread.arrive_remote(where, thread.lane(), thread.compare("ult", I32, number, count))
    return []


def _remote_wait(lowering: Lowering, op: Any) -> list[Fragment]:
    where = barrier_of(lowering, op, op.barrier, op.index)
    lowering.thread.remote_wait(where, lowering.scalar(op.parity))
    return []


RULES: dict[str, Rule] = {
    "gpu.cluster_rank": _rank,
    "gpu.cluster_arrive": _arrive,
    "gpu.cluster_wait": _wait,
    "gpu.remote_load": _remote_load,
    "gpu.remote_arrive": _remote_arrive,
    "gpu.remote_wait": _remote_wait,
}
