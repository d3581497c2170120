"""Which rooms in shared memory must not share a byte, and which had better not.

Two rooms that are in use at once must not (`tileir.analysis.shared_buffers`). Where a thread may
still read one while another thread writes the other already, sharing costs a barrier more: that is
so until the threads have met, at a barrier or within an op that passes values between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis.shared_buffers import (
    READS,
    WAIT,
    BufferLiveness,
    accessed,
    alive,
    forward_states,
)
from tileir.backend.shared_memory.requirements import (
    BUFFERS,
    SharedRequirement,
    is_warp_local,
    needs,
)
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import Barrier
from tileir.values import Value


@attrs.frozen(eq=False)
class InterferenceGraph:
    """The rooms of a function, by the ops that need them, buffers by what allots them.

    `inside`: of an op that works in a room, the buffers alive meanwhile. `buffers`: of a buffer,
    the others alive at once. `unmet`: of an op, those whose room a thread may still access when
    another begins to write the op's.
    """

    needs: Mapping[Op, SharedRequirement]
    inside: Mapping[Op, frozenset[Op]]
    buffers: Mapping[Op, frozenset[Op]]
    unsynchronised: Mapping[Op, frozenset[Op]]


def interference(function: Function) -> InterferenceGraph:
    """The rooms of `function`, whose tiles have layouts."""
    needed = needs(function)
    if not needed:
        return InterferenceGraph({}, {}, {}, {})
    allots = {op.results[0]: op for op in needed if op.mnemonic in BUFFERS}
    found = alive(function)

    def ops(values: frozenset[Value]) -> frozenset[Op]:
        return frozenset(allots[v] for v in values if v in allots)

    inside = {op: ops(found.at(op)) for op in needed if op.mnemonic not in BUFFERS}
    together: dict[Op, set[Op]] = {op: set() for op in allots.values()}
    for group in {found.at(op) for op in function.ops} if allots else ():
        for op in ops(group):
            together[op] |= ops(group)
    buffers = {op: frozenset(others - {op}) for op, others in together.items()}
    return InterferenceGraph(needed, inside, buffers, _unmet(function, needed, allots, found))


def _unmet(
    function: Function,
    needed: Mapping[Op, SharedRequirement],
    allots: Mapping[Value, Op],
    found: BufferLiveness,
) -> dict[Op, frozenset[Op]]:
    nothing = frozenset[Op]()

    def after(op: Op, state: frozenset[Op]) -> frozenset[Op]:
        if isinstance(op, Barrier) and not op.warp:
            return nothing
        if op in needed:
            if op.mnemonic in BUFFERS:
                return state
            return state | {op} if is_warp_local(op) else frozenset({op})
        touched = found.copying[op] if op.mnemonic == WAIT and op in found.copying else accessed(op)
        return state.union(allots[v] for v in touched if v in allots) if touched else state

    unsynchronised = dict.fromkeys(needed, nothing)
    for op, (before, _) in forward_states(function, after, nothing, lambda a, b: a | b):
        if op in needed and op.mnemonic not in BUFFERS:
            unsynchronised[op] = before - {op}
        elif before and op.mnemonic not in READS:
            for v in accessed(op):
                if v in allots:
                    unsynchronised[allots[v]] |= before - {allots[v]}
    return unsynchronised
