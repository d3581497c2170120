"""Roles in the SIMT simulator: each role has its own threads and its own lowering; all share the
memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tileir.backend.codegen.role_lowering import by_one, number_of, within
from tileir.backend.simt.async_global_accesses import AsyncGlobalAccesses
from tileir.backend.simt.clusters import ClusterBarrier
from tileir.backend.simt.happens_before import AgentClock, HappensBefore
from tileir.backend.simt.scheduler import Coroutine, RoleState, Scheduler, WaitingError
from tileir.backend.simt.shadow import RaceError
from tileir.ir import Function

_OPS = ("gpu.role", "gpu.mbarrier_alloc", "gpu.tma_load", "gpu.tma_store", "gpu.wgmma")

KERNEL = "the kernel"


def has_async_units(function: Function) -> bool:
    """Whether a kernel uses asynchronous units."""
    return any(op.mnemonic in _OPS for op in function.ops)


def run_concurrently(
    executions: Sequence[Any], make: Callable[..., Any], seed: tuple[int, ...]
) -> int:
    """Run a block, or the blocks of a cluster, by rank, with roles and copies in an order drawn
    from `seed`. Returns how many barriers roles waited at. Raises AssertionError."""
    block, count = executions[0].thread.memory.shared_bytes, len(executions)
    scheduler = Scheduler(HappensBefore(count * block, block), random.Random(repr(seed)))
    scheduler.cluster_barrier = ClusterBarrier(count) if count > 1 else None
    traffic = AsyncGlobalAccesses.of(executions[0].thread.memory.shadows, scheduler.order)
    for rank, execution in enumerate(executions):
        _begin(scheduler, execution, make, rank, traffic)
    peers = [execution.thread.memory for execution in executions]
    for execution in executions:
        execution.thread.peers = peers
    scheduler.run()
    return sum(role.barriers for e in executions for role in e.thread.roles)


def _begin(
    scheduler: Scheduler,
    execution: Any,
    make: Callable[..., Any],
    rank: int,
    traffic: AsyncGlobalAccesses,
) -> None:
    """Block `rank`, as a coroutine."""
    thread, order = execution.thread, scheduler.order
    thread.scheduler, thread.make, thread.roles = scheduler, make, list[Any]()
    view = AgentClock(order, order.agent(KERNEL, rank), base=rank * order.block)
    thread.role_state = RoleState(view)
    thread.memory.see(view, traffic)
    thread.rank, thread.cluster_barrier = rank, scheduler.cluster_barrier
    thread.cluster = 1 if scheduler.cluster_barrier is None else scheduler.cluster_barrier.ranks
    thread.memory.expect(slice(0, 0), False)
    scheduler.coroutines.append(Coroutine(view.name, _to_end(execution, thread)))


def _to_end(execution: Any, thread: Any) -> Any:
    yield from execution.steps()
    thread.role_state.leave()
    if any(not role.ended for role in thread.roles):
        raise RaceError("race: the kernel ends before its roles: gpu.join waits for them")
    thread.end_block()


def start_role(thread: Any, lowering: Any, op: Any) -> None:
    """Start the function of role `op` concurrently."""
    number_of(lowering, op)
    function = lowering.module.functions[op.callee]
    order, alone = thread.scheduler.order, by_one(function)
    first, count = 32 * op.first, 1 if alone else 32 * op.warps
    view = AgentClock(
        order, order.agent(f"@{op.callee}", thread.rank), base=thread.role_state.view.base
    )
    thread.role_state.view.publish(view.clocks)
    inner_thread = thread.make(count, thread.program, thread.grid, thread.memory.of_role(view))
    inner_thread.f8_conversion, inner_thread.call_function = (
        thread.f8_conversion,
        thread.call_function,
    )
    inner_thread.scheduler, inner_thread.role_state, inner_thread.view = (
        thread.scheduler,
        RoleState(view),
        view,
    )
    inner_thread.rank, inner_thread.cluster, inner_thread.peers = (
        thread.rank,
        thread.cluster,
        thread.peers,
    )
    inner_thread.slice_threads = lambda handle: thread.slice_threads(handle, first, count)
    inner = within(lowering, op, inner_thread)
    thread.roles.append(inner_thread)
    coroutine = Coroutine(view.name, _role_to_end(inner, inner_thread))
    thread.scheduler.coroutines.append(coroutine)


def _role_to_end(inner: Any, thread: Any) -> Any:
    yield from inner.steps()
    thread.role_state.leave()
    thread.ended = True


def join_roles(thread: Any) -> None:
    """Wait for all roles; what they did happens before what follows."""

    def others() -> list[str]:
        return [role.role_state.view.name for role in thread.roles if not role.ended]

    if others():
        raise WaitingError(lambda: not others(), lambda: f"{', '.join(others())} at gpu.join")
    for role in thread.roles:
        role.role_state.view.publish(thread.role_state.view.clocks)
