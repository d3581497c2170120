"""Clusters: blocks arrive and wait in turn, outside of roles, in kernels that have a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tileir.analysis.cfg import cfg
from tileir.analysis.clusters import ARRIVE, ATTRIBUTE, WAIT, uses_cluster_rank
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op

_ROLE, _JOIN, _END = "gpu.role", "gpu.join", "ret"
_State = tuple[bool, bool]
"""Whether the block has arrived and not waited since, and whether roles run."""


def check_clusters(module: Module, function: Function) -> Iterator[Diagnostic]:
    """Check the ops of `function` that concern its cluster."""
    if not uses_cluster_rank(function):
        return
    role = function.name in _roles(module)
    if function.kernel and ATTRIBUTE not in function.attributes:
        message = f"@{function.name} uses ranks, but has no attribute `{ATTRIBUTE}`"
        yield Diagnostic("TIR0229", message, function.location)
    entering = _entering(function)
    for label in cfg(function).order:
        states = entering[label]
        for op in function.blocks[label].ops:
            faults = [f for state in sorted(states) if (f := _fault(role, op, state))]
            for fault in faults[:1]:
                yield Diagnostic("TIR0229", f"{op.mnemonic}: {fault}", op.location)
            states = {_after(op, state) for state in states}


def _entering(function: Function) -> dict[str, set[_State]]:
    """The states in which a block may begin."""
    graph = cfg(function)
    result: dict[str, set[_State]] = {label: set() for label in graph.order}
    result[graph.order[0]] = {(False, False)}
    changed = True
    while changed:
        changed = False
        for label in graph.order:
            states = result[label]
            for op in function.blocks[label].ops:
                states = {_after(op, state) for state in states}
            for target in graph.successors[label]:
                changed |= not states <= result[target]
                result[target] |= states
    return result


def _after(op: Op, state: _State) -> _State:
    arrived, roles = state
    if op.mnemonic in (ARRIVE, WAIT):
        return op.mnemonic == ARRIVE, roles
    if op.mnemonic in (_ROLE, _JOIN):
        return arrived, op.mnemonic == _ROLE
    return state


def _roles(module: Module) -> set[str]:
    """Functions that kernels start as roles."""
    ops = (op for f in module.functions.values() if f.kernel for op in f.ops)
    return {cast(Any, op).callee for op in ops if op.mnemonic == _ROLE}


def _fault(role: bool, op: Op, state: _State) -> str | None:
    """The error of `op` in a state, in a role or not."""
    arrived, roles = state
    if op.mnemonic in (ARRIVE, WAIT):
        if role:
            return "only a kernel synchronizes with other blocks, not its roles"
        if roles and op.mnemonic == ARRIVE:
            return "roles may run: gpu.join comes before"
    if op.mnemonic == ARRIVE and arrived:
        return "the block may have arrived before, and not have waited"
    if op.mnemonic == WAIT and not arrived:
        return "the block may not have arrived"
    if op.mnemonic == _END and arrived:
        return "the block may have arrived, and not have waited"
    return None
