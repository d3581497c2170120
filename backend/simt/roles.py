"""Roles in the machine of threads: each a set of threads of its own, walked by a lowering of its
own, with the memory that all share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tileir.backend.lower.roles import by_one, number_of, within
from tileir.backend.simt.order import Order, View
from tileir.backend.simt.shadow import RaceError
from tileir.backend.simt.yard import Crewman, Member, WaitingError, Yard
from tileir.ir import Function

_OPS = ("gpu.role", "gpu.mbarrier_alloc", "gpu.tma_load", "gpu.tma_store", "gpu.wgmma")


def beside(function: Function) -> bool:
    """Whether anything runs beside the threads of a kernel."""
    return any(op.mnemonic in _OPS for op in function.ops)


def run_beside(
    execution: Any, thread: Any, make: Callable[..., Any], values: Sequence[Any],
    seed: tuple[int, ...],
) -> int:  # fmt: skip
    """Run a block, its roles and copies in an order drawn from `seed`. Returns how many barriers
    roles waited at. Raises AssertionError."""
    memory = thread.memory
    order = Order(memory.shared_bytes)
    thread.yard = yard = Yard(order, random.Random(repr(seed)))
    thread.make, thread.roles = make, list[Any]()
    thread.crewman = Crewman(View(order, order.agent("the kernel")))
    memory.order = thread.crewman.view
    memory.expect(slice(0, 0), False)
    for parameter, argument in zip(execution.function.parameters, values, strict=True):
        execution.values[parameter.value] = [argument]
    yard.members.append(Member("the kernel", _to_end(execution, thread)))
    yard.run()
    return sum(role.barriers for role in thread.roles)


def _to_end(execution: Any, thread: Any) -> Any:
    yield from execution.steps()
    thread.crewman.leave()
    if any(m.name != "the kernel" for m in thread.yard.members) and thread.roles:
        raise RaceError("race: the kernel ends before its roles: gpu.join waits for them")


def start_role(thread: Any, lowering: Any, op: Any) -> None:
    """Let the function of role `op` run beside what is there."""
    number_of(lowering, op)
    function = lowering.module.functions[op.callee]
    order, alone = thread.yard.order, by_one(function)
    first, count = 32 * op.first, 1 if alone else 32 * op.warps
    view = View(order, order.agent(f"@{op.callee}"))
    thread.crewman.view.publish(view.known)
    made = thread.make(count, thread.program, thread.grid, thread.memory.of_role(view))
    made.f8_conversion, made.call_function = thread.f8_conversion, thread.call_function
    made.yard, made.crewman, made.view = thread.yard, Crewman(view), view
    made.taken = lambda handle: thread.taken(handle, first, count)
    inner = within(lowering, op, made)
    thread.roles.append(made)
    member = Member(f"@{op.callee}", _role_to_end(inner, made))
    thread.yard.members.append(member)


def _role_to_end(inner: Any, thread: Any) -> Any:
    yield from inner.steps()
    thread.crewman.leave()


def join_roles(thread: Any) -> None:
    """Wait for all roles, and come after what they did."""
    names = {member.name for member in thread.yard.members if member.name != "the kernel"}
    if names:
        yard = thread.yard

        def others() -> list[str]:
            return [m.name for m in yard.members if m.name != "the kernel"]

        raise WaitingError(lambda: not others(), lambda: f"{', '.join(others())} at gpu.join")
    for role in thread.roles:
        role.crewman.view.publish(thread.crewman.view.known)
    thread.roles_done = True
