"""Branches and return, and how many iterations of a loop run together, so that the loads of several
are in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.analysis.loops import loops
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule
from tileir.effects import Effects
from tileir.ops.shape import Broadcast, ExpandDims, MakeRange, Reshape, Splat
from tileir.types import Tile

if TYPE_CHECKING:
    from tileir.analysis.loops import Loop
    from tileir.ir import Function
    from tileir.op import Op


_IN_FLIGHT = 64
"""Bytes that the loads of a thread have in flight together, at least: what 2,048 threads of a
multiprocessor have then is more than memory delivers in the time of an access, and what 512 have,
about as much. They take 16 registers."""

_MOST = 4
"""Iterations that run together, at most."""

_MOVES = (Broadcast, ExpandDims, MakeRange, Reshape, Splat)
"""Ops that leave elements where they are."""


def _branch(lowering: Lowering, op: Any) -> list[Fragment]:
    count = _unroll_count(lowering.function, op, lowering.target.lanes * lowering.num_warps)
    lowering.thread.branch(lowering.edge(op.target), count)
    return []


def _unroll_count(function: Function, jump: Any, threads: int) -> int:
    """The unroll factor of the loop to which `jump` returns, in a block of `threads`.

    It is more than 1 for a loop that loads little at a time and has no other memory access or
    synchronization, since loads do not move over these. It divides the number of iterations, which
    must be known: a remainder loop would cost rows of few iterations more than others gain. It is 1
    if `jump` leads to no such loop.
    """
    loop = loops(function).by_header.get(jump.target.label)
    if loop is None or len(loop.order) > 2:
        return 1
    blocks = [function.blocks[label] for label in loop.order]
    if loop.latch is None or function.blocks[loop.latch].terminator is not jump:
        return 1
    loaded = 0
    for op in (op for block in blocks for op in block.ops):
        if op.mnemonic == "load" and not op.effects & Effects.SYNC:
            loaded += _bytes_per_thread(op, threads)
        elif not (op.elementwise or isinstance(op, _MOVES) or op.effects & Effects.CONTROL):
            return 1
    total = _iterations(function, loop) if loaded else 0
    count = 1
    while total and count < _MOST and 2 * count * loaded <= _IN_FLIGHT and not total % (2 * count):
        count *= 2
    return count


def _bytes_per_thread(op: Op, threads: int) -> int:
    """Bytes that a thread loads; none where all threads load one number."""
    kind = cast(Any, op.results[0].type)
    if not isinstance(kind, Tile):
        return 0
    return max(1, kind.size // threads) * cast(Any, kind.element).bytes


def _iterations(function: Function, loop: Loop) -> int:
    """The number of iterations of `loop`; 0 if it is unknown."""
    from tileir.analysis.induction import trip_count  # few kernels have such loops

    trips = trip_count(function, loop)
    return 0 if trips is None else trips.count or 0


def _cond_branch(lowering: Lowering, op: Any) -> list[Fragment]:
    condition = lowering.scalar(op.condition)
    then, otherwise = lowering.edge(op.then), lowering.edge(op.otherwise)
    lowering.thread.branch_if(condition, then, otherwise)
    return []


def _return(lowering: Lowering, op: Any) -> list[Fragment]:
    handles = [lowering.scalar(v) for v in op.values]
    if lowering.leaving is not None:
        lowering.thread.branch(lowering.leaving)
    else:
        lowering.thread.return_values([v.type for v in op.values], handles)
    return []


def _unreachable(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.unreachable()
    return []


RULES: dict[str, Rule] = {
    "br": _branch,
    "cond_br": _cond_branch,
    "ret": _return,
    "unreachable": _unreachable,
}
