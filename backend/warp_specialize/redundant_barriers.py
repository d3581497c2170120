"""Barriers of a role that others make needless.

What passes write around the buffers of a role (`storing`, `written`) holds wherever it stands:
threads meet before they write a buffer, because others may still read it, and before it is read.
Where one buffer is filled between two rounds of another, the barriers of the one serve the other.
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

_NOBODY: frozenset[Operand] = frozenset()
_MOST = 8
"""Products under way that are told apart: waits leave fewer."""


@attrs.frozen
class _BarrierState:
    """What threads did to buffers and have not met behind: those that they have `written`; those
    that they, or products that they waited for, have `read`; those that products `begun`, oldest
    first, may read; and whether one has waited for copies to have read theirs (`copied`)."""

    written: frozenset[Operand] = _NOBODY
    read: frozenset[Operand] = _NOBODY
    begun: tuple[frozenset[Operand], ...] = ()
    copied: bool = False

    def join(self, other: _BarrierState) -> _BarrierState:
        """What may have been done on either path. Products are counted from the newest."""
        most = max(len(self.begun), len(other.begun))
        first, second = ((_NOBODY,) * (most - len(s.begun)) + s.begun for s in (self, other))
        begun = tuple(a | b for a, b in zip(first, second, strict=True))
        return _BarrierState(
            self.written | other.written, self.read | other.read, begun,
            self.copied or other.copied,
        )  # fmt: skip

    def hazard(self, op: Op, copied: frozenset[Operand]) -> bool:
        """Whether an op meets what another thread did; copies read the buffers `copied`."""
        if isinstance(op, LocalStore):
            reading = _NOBODY.union(self.read, *self.begun)
            return op.buffer in reading or (self.copied and op.buffer in copied)
        return bool(self.written & _read(op))

    def after(self, op: Op) -> _BarrierState:
        """The same behind an op."""
        match op:
            case BlockBarrier(warp=False, warpgroup=False):
                return _BarrierState(begun=self.begun)
            case LocalStore():
                return attrs.evolve(self, written=self.written | {op.buffer})
            case LocalLoad():
                return attrs.evolve(self, read=self.read | _read(op))
            case Wgmma():
                oldest, newest = self.begun[: 1 - _MOST], self.begun[1 - _MOST :]
                kept = (_NOBODY.union(*oldest), *newest) if oldest else newest
                return attrs.evolve(self, begun=(*kept, _read(op)))
            case WgmmaWait():
                done = max(0, len(self.begun) - op.pending)
                read = self.read.union(*self.begun[:done])
                return attrs.evolve(self, read=read, begun=self.begun[done:])
            case TmaWait():
                return attrs.evolve(self, copied=True)
            case _:
                return self


def eliminate_redundant_barriers(function: Function) -> Function:
    """`function`, a role, less the barriers that no write or read of its buffers needs."""
    stored = frozenset(op.buffer for op in function.ops if isinstance(op, LocalStore))
    barriers = [op for op in function.ops if isinstance(op, BlockBarrier)]
    if not stored or _meets(function, frozenset()):
        return function
    left_out: frozenset[Op] = frozenset()
    for barrier in barriers:
        if not _meets(function, left_out | {barrier}):
            left_out |= {barrier}
    if not left_out:
        return function
    blocks = {
        label: attrs.evolve(block, ops=tuple(op for op in block.ops if op not in left_out))
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


def _meets(function: Function, left_out: frozenset[Op]) -> bool:
    """Whether without those barriers any op meets what another thread did."""
    copied = frozenset(op.buffer for op in function.ops if isinstance(op, TmaStore))
    entering = _entering(function, left_out)
    for label, since in entering.items():
        for op in function.blocks[label].ops:
            if op in left_out:
                continue
            if since.hazard(op, copied):
                return True
            since = since.after(op)
    return False


def _entering(function: Function, left_out: frozenset[Op]) -> Mapping[str, _BarrierState]:
    """What has been done when each block begins: the least solution."""
    graph = cfg(function)
    entering = {graph.order[0]: _BarrierState()}
    changed = True
    while changed:
        changed = False
        for label in graph.order:
            if label not in entering:
                continue
            since = entering[label]
            for op in _counted(function, label, left_out):
                since = since.after(op)
            for target in graph.successors[label]:
                joined = entering.get(target, since).join(since)
                if entering.get(target) != joined:
                    entering[target], changed = joined, True
    return entering


def _counted(function: Function, label: str, left_out: frozenset[Op]) -> Iterator[Op]:
    return (op for op in function.blocks[label].ops if op not in left_out)


def _read(op: Op) -> frozenset[Operand]:
    """The buffers that an op reads."""
    match op:
        case Wgmma():
            return frozenset({op.a, op.b})
        case LocalLoad() | TmaStore():
            return frozenset({op.buffer})
        case _:
            return _NOBODY
