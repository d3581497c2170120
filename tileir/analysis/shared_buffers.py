"""Liveness of buffers in shared memory, at every op.

A buffer is the result of `gpu.shared_alloc`; each execution discards its contents. It is live at a
point if, on some path, it was written before and will be read after, and also while a copy into it
may be in flight. A copy is complete when its group was waited for (PTX ISA, cp.async.wait_group).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Value

ALLOT, COPY, COMMIT, WAIT = (
    "gpu.shared_alloc", "gpu.async_copy", "gpu.async_commit", "gpu.async_wait",
)  # fmt: skip
WGMMA, WGMMA_WAIT = "gpu.wgmma", "gpu.wgmma_wait"
"""`gpu.wgmma` reads its operands until a wait for it."""

READS = frozenset({"gpu.local_load", "gpu.local_gather", WGMMA})
STORE = "gpu.local_store"
ACCESSES = READS | {COPY, STORE}
"""Ops that access a buffer. A buffer that any other op takes is treated as live everywhere."""

Buffers: TypeAlias = frozenset[Value]
Ages: TypeAlias = Mapping[Value, int]
"""For each buffer that is copied to, the number of groups that ended since the newest copy
began."""

_F = TypeVar("_F")
_NONE: Buffers = frozenset()


@attrs.frozen(eq=False, repr=False)
class BufferLiveness:
    """The live buffers by op.

    `needed` are the buffers that are live before or after the op, or that it accesses. `copying`
    are those into which a copy may be in flight. `multiplying` are those that a wgmma issued before
    the op may still read. Unreachable ops have none.
    """

    needed: Mapping[Op, Buffers]
    copying: Mapping[Op, Buffers]
    multiplying: Mapping[Op, Buffers]

    def at(self, op: Op) -> Buffers:
        """Buffers whose bytes no other buffer may share while `op` runs."""
        return self.needed.get(op, _NONE) | self.copying.get(op, _NONE)


@memoize
def alive(function: Function) -> BufferLiveness:
    """The buffers of `function` that are alive at its ops."""
    result = frozenset(op.results[0] for op in function.ops if op.allocates_shared)
    if not result:
        return BufferLiveness({}, {}, {})
    written = dict(forward_states(function, _written_buffers, _NONE, lambda a, b: a | b))
    multiplied = dict(forward_states(function, _age_wgmmas, dict[Value, int](), _younger))
    multiplying = {op: frozenset(before) for op, (before, _) in multiplied.items()}
    required = dict(_backward(function, multiplying))
    copied = dict(forward_states(function, _age_copies(function), dict[Value, int](), _younger))
    escaping = result & {
        v for op in function.ops if op.mnemonic not in ACCESSES for v in op.operands
    }
    needed, copying = dict[Op, Buffers](), dict[Op, Buffers]()
    for op in function.ops:
        if op in written:
            # A buffer that is live before the op and not after it is one that the op reads.
            needed[op] = (written[op][1] & required[op][1]) | accessed_buffers(op) | escaping
            copying[op] = frozenset(copied[op][0]) | frozenset(copied[op][1])
    return BufferLiveness(needed, copying, multiplying)


def accessed_buffers(op: Op) -> Buffers:
    """The buffers that `op` reads or writes."""
    if op.mnemonic not in ACCESSES:
        return _NONE
    access = cast(Any, op)
    buffers = (access.a, access.b) if op.mnemonic == WGMMA else (access.buffer,)
    return frozenset(v for v in buffers if type(v) is Value and not isinstance(v.type, Tile))


def forward_states(
    function: Function, change: Callable[[Op, _F], _F], nothing: _F, join: Callable[[_F, _F], _F]
) -> Iterator[tuple[Op, tuple[_F, _F]]]:
    """The state before and after every reachable op: a forward data-flow analysis.

    `change` is the transfer function of an op, `join` merges the states of paths, and `nothing` is
    the state at the entry.
    """
    graph = cfg(function)
    entering = dict.fromkeys(graph.order, nothing)
    changed = True
    while changed:
        changed = False
        for label in graph.order:
            state = entering[label]
            for op in function.blocks[label].ops:
                state = change(op, state)
            for target in graph.successors[label]:
                joined = join(entering[target], state)
                changed |= joined != entering[target]
                entering[target] = joined
    for label in graph.order:
        state = entering[label]
        for op in function.blocks[label].ops:
            before, state = state, change(op, state)
            yield op, (before, state)


def _written_buffers(op: Op, state: Buffers) -> Buffers:
    """Buffers that something was written to."""
    if op.mnemonic == ALLOT:
        return state - {op.results[0]}
    return state if op.mnemonic in READS else state | accessed_buffers(op)


def _age_copies(function: Function) -> Callable[[Op, Ages], Ages]:
    """The transfer function of pending copies: their ages in commits. Ages beyond the largest
    pending count of a wait are equal."""
    most = max((cast(Any, op).pending for op in function.ops if op.mnemonic == WAIT), default=0) + 1

    def transfer(op: Op, state: Ages) -> Ages:
        if op.mnemonic == COPY:
            return {**state, **dict.fromkeys(accessed_buffers(op), 0)}
        if op.mnemonic == COMMIT:
            return {v: min(age + 1, most) for v, age in state.items()}
        if op.mnemonic == WAIT:
            pending = cast(Any, op).pending
            return {v: age for v, age in state.items() if age <= pending}
        return state

    return transfer


_MOST_WGMMAS = 8
"""Groups of wgmma beyond those that a wait may leave pending."""


def _age_wgmmas(op: Op, state: Ages) -> Ages:
    """The transfer function of buffers that a wgmma may still read: their ages in wgmmas issued
    since. Every wgmma is a group."""
    if op.mnemonic == WGMMA:
        older = {v: min(age + 1, _MOST_WGMMAS) for v, age in state.items()}
        return {**older, **dict.fromkeys(accessed_buffers(op), 0)}
    if op.mnemonic == WGMMA_WAIT:
        pending = cast(Any, op).pending
        return {v: age for v, age in state.items() if age < pending}
    return state


def _younger(a: Ages, b: Ages) -> Ages:
    return {v: min(ages[v] for ages in (a, b) if v in ages) for v in {**a, **b}}


def _backward(
    function: Function, multiplying: Mapping[Op, Buffers]
) -> Iterator[tuple[Op, tuple[Buffers, Buffers]]]:
    """Buffers that will be read, before and after every op."""
    graph, overwriting = cfg(function), _overwriting_stores(function)
    entering = dict.fromkeys(graph.order, _NONE)
    changed = True
    while changed:
        changed = False
        for label in reversed(graph.order):
            state = _NONE.union(*(entering[target] for target in graph.successors[label]))
            for op in reversed(function.blocks[label].ops):
                state = _required_buffers(op, state, multiplying) - overwriting.get(op, _NONE)
            changed |= state != entering[label]
            entering[label] = state
    for label in graph.order:
        state = _NONE.union(*(entering[target] for target in graph.successors[label]))
        for op in reversed(function.blocks[label].ops):
            after = state
            state = _required_buffers(op, state, multiplying) - overwriting.get(op, _NONE)
            yield op, (state, after)


def _overwriting_stores(function: Function) -> dict[Op, Buffers]:
    """The stores that write all elements of a buffer of one stage, whose old contents are then
    dead."""
    shapes = {op.results[0]: cast(Any, op).shape for op in function.ops if op.mnemonic == ALLOT}
    return {
        op: accessed_buffers(op)
        for op in function.ops
        if op.mnemonic == STORE
        and not cast(Any, op).columns
        and shapes.get(cast(Any, op).buffer) == (1, *shape_of(cast(Any, op).value.type))
    }


def _required_buffers(op: Op, state: Buffers, multiplying: Mapping[Op, Buffers]) -> Buffers:
    if op.mnemonic == ALLOT:
        return state - {op.results[0]}
    if op.mnemonic == WGMMA_WAIT:
        return state | multiplying.get(op, _NONE)
    return state | accessed_buffers(op) if op.mnemonic in READS else state
