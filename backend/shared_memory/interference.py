"""The interference graph of shared-memory allocations.

Two allocations that are live at once must be disjoint (`tileir.analysis.shared_buffers`). Where a
thread may still read one while another thread already writes the other, reuse costs an additional
barrier: until the threads synchronize, at a barrier or within an op that passes values between
them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.analysis.shared_buffers import (
    READS,
    WAIT,
    BufferLiveness,
    accessed_buffers,
    alive,
    forward_states,
)
from tileir.backend.shared_memory.requirements import (
    SharedRequirement,
    is_warp_local,
    needs,
)
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Value


@attrs.frozen(eq=False, repr=False)
class InterferenceGraph:
    """The allocations of a function, keyed by the ops that need them; a buffer by the op that
    allocates it.

    `inside`: for an op with a range of its own, the buffers live meanwhile. `buffers`: for a
    buffer, the other buffers live at once. `unmet`: for an op, the allocations that a thread may
    still access when another thread begins to write the range of the op.
    """

    needs: Mapping[Op, SharedRequirement]
    inside: Mapping[Op, frozenset[Op]]
    buffers: Mapping[Op, frozenset[Op]]
    unsynchronised: Mapping[Op, frozenset[Op]]


def interference(function: Function) -> InterferenceGraph:
    """The interference graph of `function`, whose tiles have layouts."""
    needed = needs(function)
    if not needed:
        return InterferenceGraph({}, {}, {}, {})
    allots = {op.results[0]: op for op in needed if op.allocates_shared}
    liveness = alive(function)

    def ops(values: frozenset[Value]) -> frozenset[Op]:
        return frozenset(allots[v] for v in values if v in allots)

    inside = {op: ops(liveness.at(op)) for op in needed if not op.allocates_shared}
    together: dict[Op, set[Op]] = {op: set() for op in allots.values()}
    for group in {liveness.at(op) for op in function.ops} if allots else ():
        for op in ops(group):
            together[op] |= ops(group)
    buffers = {op: frozenset(live - {op}) for op, live in together.items()}
    return InterferenceGraph(needed, inside, buffers, _unmet(function, needed, allots, liveness))


def _unmet(
    function: Function,
    needed: Mapping[Op, SharedRequirement],
    allots: Mapping[Value, Op],
    liveness: BufferLiveness,
) -> dict[Op, frozenset[Op]]:
    nothing = frozenset[Op]()

    def after(op: Op, state: frozenset[Op]) -> frozenset[Op]:
        if op.mnemonic == "gpu.barrier" and not op.attributes["warp"]:
            return nothing
        if op in needed:
            if op.allocates_shared:
                return state
            return state | {op} if is_warp_local(op) else frozenset({op})
        touched = (
            liveness.copying[op]
            if op.mnemonic == WAIT and op in liveness.copying
            else accessed_buffers(op)
        )
        return state.union(allots[v] for v in touched if v in allots) if touched else state

    unsynchronised = dict.fromkeys(needed, nothing)
    for op, (before, _) in forward_states(function, after, nothing, lambda a, b: a | b):
        if op in needed and not op.allocates_shared:
            unsynchronised[op] = before - {op}
        elif before and op.mnemonic not in READS:
            for v in accessed_buffers(op):
                if v in allots:
                    unsynchronised[allots[v]] |= before - {allots[v]}
    return unsynchronised
