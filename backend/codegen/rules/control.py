"""Branches and return. Loops are unrolled so that the loads of several iterations are in flight."""

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
about as much. They take 16 registers. A thread of a small block has more, because a multiprocessor
has few threads of small blocks."""

_SMALL_BLOCK = 128
"""Threads of a block below which each of them has more bytes in flight."""

_MOST = 4
"""Iterations that run together, at most."""

_MOST_COPIES, _MOST_OPS = 16, 1024
"""Iterations of a loop, and ops of all of them and all elements of a thread, up to which it becomes
straight code."""

_MOVES = (Broadcast, ExpandDims, MakeRange, Reshape, Splat)
"""Ops that leave elements where they are."""


def _branch(lowering: Lowering, op: Any) -> list[Fragment]:
    lowering.thread.branch(lowering.edge(op.target), _unroll_count(lowering, op))
    return []


def _unroll_count(lowering: Lowering, jump: Op) -> int:
    """The unroll factor of the loop to which `jump` returns.

    It is more than 1 for a loop that loads little at a time and has no other memory access or
    synchronization, since loads do not move over these. It divides the number of iterations, which
    must be known, since a remainder loop would slow down rows of few iterations by more than it
    speeds up others. It is 1 if `jump` leads to no such loop. All iterations of a short loop run
    together: ptxas issues loads of an iteration before it waits for those of the iteration before.
    So do those of a short loop whose counter is no induction variable, such as a binary search in a
    table of known size: ptxas does not unroll it.
    """
    function, threads = lowering.function, lowering.target.lanes * lowering.num_warps
    loop = _loop_of_latch(function, jump)
    if loop is None or len(loop.order) > 2:
        return 1
    blocks = [function.blocks[label] for label in loop.order]
    loaded = 0
    for op in (op for block in blocks for op in block.ops):
        if op.mnemonic == "load" and not op.effects & Effects.SYNC:
            loaded += _bytes_per_thread(op, threads)
        elif not (op.elementwise or _is_move(op) or op.effects & Effects.CONTROL):
            return 1
    ops = [op for block in blocks for op in block.ops if not isinstance(op, _MOVES)]
    each = sum(_elements_per_thread(op, threads) for op in ops)
    total = _iterations(function, loop) if loaded else 0
    if loaded and not total:
        from tileir.backend.codegen.literal_loops import literal_iterations  # few loops need it

        copies = literal_iterations(function, loop, _MOST_COPIES)
        return max(1, copies) if copies * each <= _MOST_OPS else 1
    count, most = 1, _IN_FLIGHT * max(1, _SMALL_BLOCK // threads)
    if _MOST < total <= _MOST_COPIES and 2 * loaded <= most and total * each <= _MOST_OPS:
        return total
    while total and count < _MOST and 2 * count * loaded <= most and not total % (2 * count):
        count *= 2
    return count


def _is_move(op: Op) -> bool:
    """Whether `op` leaves elements in their registers, or moves them within warps by shuffles."""
    return isinstance(op, _MOVES) or (op.is_identity and op.shared is None)


def _loop_of_latch(function: Function, jump: Op) -> Loop | None:
    """The loop to whose header `jump` returns; None if its block is no latch."""
    by_header = loops(function).by_header
    around = (by_header.get(edge.label) for edge in jump.successors)
    return next(
        (x for x in around if x and x.latch and function.blocks[x.latch].terminator is jump), None
    )


def _bytes_per_thread(op: Op, threads: int) -> int:
    """The number of bytes that a thread loads; 0 if all threads load the same number."""
    kind = op.results[0].type
    if not isinstance(kind, Tile):
        return 0
    return _elements_per_thread(op, threads) * cast(Any, kind.element).bytes


def _elements_per_thread(op: Op, threads: int) -> int:
    """The number of elements of the result of `op` that a thread computes."""
    kind = op.results[0].type if op.results else None
    return max(1, kind.size // threads) if isinstance(kind, Tile) else 1


def _iterations(function: Function, loop: Loop) -> int:
    """The number of iterations of `loop`; 0 if it is unknown."""
    from tileir.analysis.induction import trip_count  # few kernels need it

    trips = trip_count(function, loop)
    return 0 if trips is None else trips.count or 0


def _cond_branch(lowering: Lowering, op: Any) -> list[Fragment]:
    condition = lowering.scalar(op.condition)
    then, otherwise = lowering.edge(op.then), lowering.edge(op.otherwise)
    lowering.thread.branch_if(condition, then, otherwise, _unroll_count(lowering, op))
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
