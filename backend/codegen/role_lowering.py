"""Lowering of roles: functions that some of a kernel's warps run, lowered where the kernel starts
them."""

from __future__ import annotations

from typing import Any, cast

from tileir.analysis.uses import definitions
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.wgmma import WARPS
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile

_ALONE = Effects.READ | Effects.CONTROL | Effects.TRAP
"""Effects that one thread's ops may have."""

MOST_BARRIERS = 15
"""Barriers of a block that roles may use (PTX ISA, "bar": 16, of which the block has one)."""


def within(lowering: Lowering, op: Any, thread: Any) -> Lowering:
    """The lowering of the function of role `op` for `thread`. Its parameters are bound to the
    operands that the kernel passes."""
    function = lowering.module.functions[op.callee]
    inner = type(lowering)(
        lowering.module, function, lowering.target, thread, AccessWidths(function),
        lowering.scratch, lowering.rules, op.warps, alone=by_one(function),
    )  # fmt: skip
    for parameter, argument in zip(function.parameters, op.arguments, strict=True):
        inner.values[parameter.value] = [
            thread.slice_threads(x) for x in lowering.fragment(argument)
        ]
        origin = lowering.origin(argument)
        if origin is not None:
            inner.bound[parameter.value] = origin
    return inner


def number_of(lowering: Lowering, op: Op) -> int:
    """The index of role `op` among the roles of the kernel, starting at 1."""
    roles = [x for x in lowering.function.ops if x.mnemonic == op.mnemonic]
    number = roles.index(op) + 1
    if number > MOST_BARRIERS:
        raise lowering.refuse(op, f"a kernel has {MOST_BARRIERS} roles at most")
    last = cast(Any, op).first + cast(Any, op).warps
    if last > lowering.num_warps:
        raise lowering.refuse(op, f"warp {last - 1} of {lowering.num_warps}")
    return number


def group_barriers(lowering: Lowering, op: Any) -> dict[str, int]:
    """The first number of the named barriers that only the warpgroups of role `op` use, by purpose.
    They come after the barriers between roles, and after those of the roles before this one."""
    roles: list[Any] = [x for x in lowering.function.ops if x.mnemonic == op.mnemonic]
    last, barriers = len(roles), dict[str, int]()
    for role in roles:
        ops = tuple(lowering.module.functions[role.callee].ops)
        names = {x.mnemonic for x in ops if x.mnemonic in _OF_GROUPS}
        used = [n for n in names if n != "gpu.barrier" or any(map(_needs_named_barrier, ops))]
        for name in sorted(used):
            if role is op:
                barriers[name] = last + 1
            last += role.warps // WARPS
    if last > MOST_BARRIERS:
        raise lowering.refuse(op, f"{last} barriers are needed, and there are {MOST_BARRIERS}")
    return barriers


_OF_GROUPS = ("gpu.barrier", "gpu.named_barrier_sync")
"""Ops that wait for warpgroups of a role."""


def _needs_named_barrier(op: Any) -> bool:
    return op.mnemonic == "gpu.barrier" and op.warpgroup


def by_one(function: Function) -> bool:
    """Whether one thread can run all of `function`: it has only scalars, copies and waits."""
    return all(map(_by_one, function.ops))


def _by_one(op: Op) -> bool:
    if any(isinstance(v.type, Tile) for v in (*op.operands, *op.results)):
        return False
    return op.runs_on_one_thread or not op.effects & ~_ALONE


def role_functions(functions: Any, kernel: Function) -> dict[str, Op]:
    """The functions of the roles of `kernel`: the op that starts each, by the name of the
    function."""
    role_ops: dict[str, Op] = {}
    for op in kernel.ops:
        if op.mnemonic == "gpu.role":
            role_ops[cast(Any, op).callee] = op
    return {name: op for name, op in role_ops.items() if name in functions}


def origin_in(kernel: Function, role: Op, function: Function) -> dict[Any, Op]:
    """The op of `kernel` that defines the operand of each parameter of the role's function."""
    defining_ops = definitions(kernel)
    arguments = cast(Any, role).arguments
    return {
        p.value: defining_ops[a]
        for p, a in zip(function.parameters, arguments, strict=True)
        if a in defining_ops
    }
