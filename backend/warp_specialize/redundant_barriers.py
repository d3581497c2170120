"""Eliminate redundant barriers of a role.

The passes that insert stores to the buffers of a role (`epilogue`, `stored_operands`) put a barrier
before each store, since other threads may still read the buffer, and one before it is read. Where a
buffer is written between two iterations of another, the barriers of one make those of the other
redundant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from tileir.analysis.cfg import cfg
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.gpu import BlockBarrier, LocalLoad, LocalStore
from tileir.ops.hopper import TmaStore, TmaWait, Wgmma, WgmmaWait
from tileir.values import Operand

_NO_BUFFERS: frozenset[Operand] = frozenset()
_MAX_IN_FLIGHT = 8
"""The most matmuls in flight that are distinguished; waits leave fewer."""


@attrs.frozen
class _BarrierState:
    """Accesses to buffers since the last barrier: the buffers `written`; the buffers `read` by
    threads or by matmuls that were waited for; those that each matmul `in_flight` may read, oldest
    first; and whether a thread has waited for TMA copies to read theirs (`tma_waited`)."""

    written: frozenset[Operand] = _NO_BUFFERS
    read: frozenset[Operand] = _NO_BUFFERS
    in_flight: tuple[frozenset[Operand], ...] = ()
    tma_waited: bool = False

    def join(self, other: _BarrierState) -> _BarrierState:
        """The union of both states. Matmuls in flight are matched from the newest."""
        most = max(len(self.in_flight), len(other.in_flight))
        first, second = (
            (_NO_BUFFERS,) * (most - len(s.in_flight)) + s.in_flight for s in (self, other)
        )
        in_flight = tuple(a | b for a, b in zip(first, second, strict=True))
        return _BarrierState(
            self.written | other.written, self.read | other.read, in_flight,
            self.tma_waited or other.tma_waited,
        )  # fmt: skip

    def hazard(self, op: Op, copied: frozenset[Operand]) -> bool:
        """Whether an op conflicts with an access of another thread. TMA copies read the buffers
        `copied`."""
        if isinstance(op, LocalStore):
            reading = _NO_BUFFERS.union(self.read, *self.in_flight)
            return op.buffer in reading or (self.tma_waited and op.buffer in copied)
        return bool(self.written & _buffers_read(op))

    def transfer(self, op: Op) -> _BarrierState:
        """The state after an op."""
        match op:
            case BlockBarrier(warp=False, warpgroup=False):
                return _BarrierState(in_flight=self.in_flight)
            case LocalStore():
                return attrs.evolve(self, written=self.written | {op.buffer})
            case LocalLoad():
                return attrs.evolve(self, read=self.read | _buffers_read(op))
            case Wgmma():
                oldest, newest = (
                    self.in_flight[: 1 - _MAX_IN_FLIGHT],
                    self.in_flight[1 - _MAX_IN_FLIGHT :],
                )
                pending = (_NO_BUFFERS.union(*oldest), *newest) if oldest else newest
                return attrs.evolve(self, in_flight=(*pending, _buffers_read(op)))
            case WgmmaWait():
                done = max(0, len(self.in_flight) - op.pending)
                read = self.read.union(*self.in_flight[:done])
                return attrs.evolve(self, read=read, in_flight=self.in_flight[done:])
            case TmaWait():
                return attrs.evolve(self, tma_waited=True)
            case _:
                return self


def eliminate_redundant_barriers(function: Function) -> Function:
    """`function`, a role, without the barriers that no access to its buffers needs."""
    stored = frozenset(op.buffer for op in function.ops if isinstance(op, LocalStore))
    barriers = [op for op in function.ops if isinstance(op, BlockBarrier)]
    if not stored or _has_hazard(function, frozenset()):
        return function
    removed: frozenset[Op] = frozenset()
    for barrier in barriers:
        if not _has_hazard(function, removed | {barrier}):
            removed |= {barrier}
    if not removed:
        return function
    blocks = {
        label: attrs.evolve(block, ops=tuple(op for op in block.ops if op not in removed))
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


def _has_hazard(function: Function, removed: frozenset[Op]) -> bool:
    """Whether an op conflicts with an access of another thread if barriers `removed` are
    removed."""
    copied = frozenset(op.buffer for op in function.ops if isinstance(op, TmaStore))
    states = _states_at_entry(function, removed)
    for label, state in states.items():
        for op in function.blocks[label].ops:
            if op in removed:
                continue
            if state.hazard(op, copied):
                return True
            state = state.transfer(op)
    return False


def _states_at_entry(function: Function, removed: frozenset[Op]) -> Mapping[str, _BarrierState]:
    """The state at the entry of each block: the least fixed point."""
    graph = cfg(function)
    states = {graph.order[0]: _BarrierState()}
    changed = True
    while changed:
        changed = False
        for label in graph.order:
            if label not in states:
                continue
            state = states[label]
            for op in _remaining_ops(function, label, removed):
                state = state.transfer(op)
            for target in graph.successors[label]:
                joined = states.get(target, state).join(state)
                if states.get(target) != joined:
                    states[target], changed = joined, True
    return states


def _remaining_ops(function: Function, label: str, removed: frozenset[Op]) -> Iterator[Op]:
    return (op for op in function.blocks[label].ops if op not in removed)


def _buffers_read(op: Op) -> frozenset[Operand]:
    """The buffers that an op reads."""
    match op:
        case Wgmma():
            return frozenset({op.a, op.b})
        case LocalLoad() | TmaStore():
            return frozenset({op.buffer})
        case _:
            return _NO_BUFFERS
