"""Roles in the machine of threads: each a set of threads of its own, walked by a lowering of its
own, with the memory that all share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tileir.backend.codegen.role_lowering import by_one, number_of, within
from tileir.backend.simt.async_global_accesses import Traffic
from tileir.backend.simt.clusters import ClusterBarrier
from tileir.backend.simt.happens_before import AgentClock, HappensBefore
from tileir.backend.simt.scheduler import Coroutine, RoleState, Scheduler, WaitingError
from tileir.backend.simt.shadow import RaceError
from tileir.ir import Function

_OPS = ("gpu.role", "gpu.mbarrier_alloc", "gpu.tma_load", "gpu.tma_store", "gpu.wgmma")

KERNEL = "the kernel"


def has_async_units(function: Function) -> bool:
    """Whether anything runs beside the threads of a kernel."""
    return any(op.mnemonic in _OPS for op in function.ops)


def run_beside(executions: Sequence[Any], make: Callable[..., Any], seed: tuple[int, ...]) -> int:
    """Run a block, or the blocks of a cluster, by rank, with roles and copies in an order drawn
    from `seed`. Returns how many barriers roles waited at. Raises AssertionError."""
    block, count = executions[0].thread.memory.shared_bytes, len(executions)
    yard = Scheduler(HappensBefore(count * block, block), random.Random(repr(seed)))
    yard.meeting = ClusterBarrier(count) if count > 1 else None
    traffic = Traffic.of(executions[0].thread.memory.shadows, yard.order)
    for rank, execution in enumerate(executions):
        _begin(yard, execution, make, rank, traffic)
    peers = [execution.thread.memory for execution in executions]
    for execution in executions:
        execution.thread.peers = peers
    yard.run()
    return sum(role.barriers for e in executions for role in e.thread.roles)


def _begin(
    yard: Scheduler, execution: Any, make: Callable[..., Any], rank: int, traffic: Traffic
) -> None:
    """Block `rank` as a member."""
    thread, order = execution.thread, yard.order
    thread.yard, thread.make, thread.roles = yard, make, list[Any]()
    view = AgentClock(order, order.agent(KERNEL, rank), base=rank * order.block)
    thread.crewman = RoleState(view)
    thread.memory.see(view, traffic)
    thread.rank, thread.meeting = rank, yard.meeting
    thread.cluster = 1 if yard.meeting is None else yard.meeting.ranks
    thread.memory.expect(slice(0, 0), False)
    yard.members.append(Coroutine(view.name, _to_end(execution, thread)))


def _to_end(execution: Any, thread: Any) -> Any:
    yield from execution.steps()
    thread.crewman.leave()
    if any(not role.ended for role in thread.roles):
        raise RaceError("race: the kernel ends before its roles: gpu.join waits for them")
    thread.end_block()


def start_role(thread: Any, lowering: Any, op: Any) -> None:
    """Let the function of role `op` run beside what is there."""
    number_of(lowering, op)
    function = lowering.module.functions[op.callee]
    order, alone = thread.yard.order, by_one(function)
    first, count = 32 * op.first, 1 if alone else 32 * op.warps
    view = AgentClock(
        order, order.agent(f"@{op.callee}", thread.rank), base=thread.crewman.view.base
    )
    thread.crewman.view.publish(view.known)
    made = thread.make(count, thread.program, thread.grid, thread.memory.of_role(view))
    made.f8_conversion, made.call_function = thread.f8_conversion, thread.call_function
    made.yard, made.crewman, made.view = thread.yard, RoleState(view), view
    made.rank, made.cluster, made.peers = thread.rank, thread.cluster, thread.peers
    made.taken = lambda handle: thread.taken(handle, first, count)
    inner = within(lowering, op, made)
    thread.roles.append(made)
    member = Coroutine(view.name, _role_to_end(inner, made))
    thread.yard.members.append(member)


def _role_to_end(inner: Any, thread: Any) -> Any:
    yield from inner.steps()
    thread.crewman.leave()
    thread.ended = True


def join_roles(thread: Any) -> None:
    """Wait for all roles, and come after what they did."""

    def others() -> list[str]:
        return [role.crewman.view.name for role in thread.roles if not role.ended]

    if others():
        raise WaitingError(lambda: not others(), lambda: f"{', '.join(others())} at gpu.join")
    for role in thread.roles:
        role.crewman.view.publish(thread.crewman.view.known)
