"""Sink `wgmma` waits to the first use of the accumulator, so that more matmuls are in flight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tileir.backend.warp_specialize.hoist_vector_loads import hoist_vector_loads
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.gpu import BlockBarrier, LocalLoad, LocalStore
from tileir.ops.hopper import (
    AsyncFence,
    MBarrierArrive,
    MBarrierWait,
    ScheduleBarrier,
    TmaStore,
    TmaWait,
    Wgmma,
    WgmmaWait,
)
from tileir.passmanager.registry import PassResult, pass_
from tileir.values import Operand, Value

_BUFFER_OPS = (BlockBarrier, LocalStore, AsyncFence, TmaStore, TmaWait)
"""Ops by which consumers write shared-memory buffers and make the writes visible."""

_MOST_PENDING = 7
"""The most `wgmma` groups that a wait leaves in flight."""


@pass_("sink-wgmma-waits")
def sink_wgmma_waits(function: Function) -> PassResult:
    """Sink `wgmma` waits to the first use of the accumulator, and issue the next matmul earlier.

    In a block with several matmuls, each is issued as soon as its operands are available. Ops that
    depend on an accumulator move to just before the first matmul, or other op with an effect, that
    needs them. A store to a buffer that no matmul in flight reads needs only its own operands.
    Threads thus compute from one accumulator while the next matmul is in flight. A stage is
    released after the same wait as before, and after the loads that read it into registers.

    In a block with one matmul, loads of vectors and scalars move before the wait.

    before:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %g, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, f32*<64, 16> %p) {
        entry:
          gpu.mbarrier_wait %full, 0, 0
          %a = gpu.wgmma f32<64, 16> %k, 0, %q, 0, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %a
          %e = exp2 f32<64, 16> %x
          gpu.mbarrier_wait %full, 1, 0
          %b = gpu.wgmma f32<64, 16> %v, 0, %g, 0, 0.0
          %y = gpu.wgmma_wait f32<64, 16> %b
          gpu.mbarrier_arrive %empty, 1
          %m = fmul f32<64, 16> %e, %y
          %h = fptrunc f16<64, 16> %m
          %c = gpu.wgmma f32<64, 16> %h, 0, %q, 0, 0.0
          %z = gpu.wgmma_wait f32<64, 16> %c
          gpu.mbarrier_arrive %empty, 0
          store %p, %z
          ret
        }
    after:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %g, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, f32*<64, 16> %p) {
        entry:
          gpu.mbarrier_wait %full, 0, 0
          %a = gpu.wgmma f32<64, 16> %k, 0, %q, 0, 0.0
          gpu.mbarrier_wait %full, 1, 0
          %b = gpu.wgmma f32<64, 16> %v, 0, %g, 0, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %a {pending = 1}
          %e = exp2 f32<64, 16> %x
          %y = gpu.wgmma_wait f32<64, 16> %b
          gpu.mbarrier_arrive %empty, 1
          %m = fmul f32<64, 16> %e, %y
          %h = fptrunc f16<64, 16> %m
          %c = gpu.wgmma f32<64, 16> %h, 0, %q, 0, 0.0
          %z = gpu.wgmma_wait f32<64, 16> %c
          gpu.mbarrier_arrive %empty, 0
          store %p, %z
          ret
        }
    """  # noqa: E501
    blocks = {label: _sink_waits(block) for label, block in function.blocks.items()}
    count = sum(blocks[label] is not old for label, old in function.blocks.items())
    if not count:
        return PassResult(function)
    return PassResult(function.with_blocks(blocks), (), {"blocks with sunk waits": count})


def _sink_waits(block: Block) -> Block:
    """`block` with its waits sunk; the block itself if they are scheduled already. A single wait
    stays after its matmul and the loads of vectors."""
    wgmmas = {op.results[0] for op in block.ops if isinstance(op, Wgmma)}
    if len(wgmmas) == 1:
        return hoist_vector_loads(block)
    waits = [op for op in block.ops if isinstance(op, WgmmaWait)]
    if not 1 < len(waits) == len(wgmmas) <= _MOST_PENDING:
        return block
    if any(w.pending or w.value not in wgmmas for w in waits):
        return block
    if any(isinstance(op, ScheduleBarrier) for op in block.ops):
        return block
    if any(isinstance(op, Wgmma) and op.depth for op in block.ops):
        return block  # each part of the dot would need registers for an accumulator
    ops = _WaitSinker(block.ops[:-1]).schedule(block.terminator)
    same = all(new is old for new, old in zip(ops, block.ops, strict=True))
    return block if same else attrs.evolve(block, ops=ops)


class _WaitSinker:
    """A list scheduler for a block: waits, the ops that depend on an accumulator, arrivals and
    loads from shared memory stay pending until another op requires them."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.number = {op: i for i, op in enumerate(ops)}
        self.producers = {v: op for op in ops for v in op.results}
        self.stored_buffers: set[Operand] = {op.buffer for op in ops if isinstance(op, LocalStore)}
        self.pending: dict[Op, None] = {}
        self.scheduled: list[Op] = []
        self.issued: list[Value] = []

    def schedule(self, last: Op) -> tuple[Op, ...]:
        """All ops in their new order, `last` at the end."""
        for op in self.ops:
            if self._may_sink(op):
                self.pending[op] = None
            else:
                self._emit_all(self._required_by(op))
                self._emit(op)
        self._emit_all(self.pending)
        return (*self.scheduled, last)

    def _may_sink(self, op: Op) -> bool:
        """Whether an op may stay pending."""
        if isinstance(op, MBarrierArrive):
            return any(isinstance(o, (WgmmaWait, LocalLoad)) for o in self.pending)
        if isinstance(op, (WgmmaWait, LocalLoad)):
            return True
        return not op.effects and any(
            self.producers.get(v) in self.pending for v in _values(op.operands)
        )

    def _required_by(self, op: Op) -> Iterable[Op]:
        """The pending ops that must precede an op. For an op on the consumers' buffers these are
        the producers of its operands, and the ops until which those buffers are read."""
        if not self.stored_buffers or not isinstance(op, _BUFFER_OPS):
            return self.pending if _needs_all(op) else self._pending_producers(op.operands)
        own = {o for o in self.pending if self._reads(o) & self.stored_buffers}
        return own | self._pending_producers([*op.operands, *(v for o in own for v in o.operands)])

    def _reads(self, op: Op) -> set[Operand]:
        """The buffers that are read until an op is complete."""
        if isinstance(op, LocalLoad):
            return {op.buffer}
        wgmma = self.producers.get(op.value) if isinstance(op, WgmmaWait) else None  # type: ignore[arg-type]
        return {wgmma.a, wgmma.b} if isinstance(wgmma, Wgmma) else set()

    def _pending_producers(self, operands: Iterable[Operand]) -> set[Op]:
        """The pending ops that `operands` depend on, transitively."""
        producers, waiting = set[Op](), list(operands)
        while waiting:
            value = waiting.pop()
            op = self.producers.get(value) if isinstance(value, Value) else None
            if op is not None and op in self.pending and op not in producers:
                producers.add(op)
                waiting.extend(op.operands)
        return producers

    def _emit_all(self, ops: Iterable[Op]) -> None:
        """Emit pending ops, and arrivals as soon as they are allowed. The ops that depend on the
        matmuls issued first come first; ops that depend on none come where they are used."""
        depths = self._wait_depths(sorted(ops, key=self.number.__getitem__))
        waits = {op: isinstance(op, WgmmaWait) for op in depths}
        for op in sorted(depths, key=lambda o: (depths[o], not waits[o], self.number[o])):
            if op in self.pending and not isinstance(op, MBarrierArrive):
                self._emit(op)
                self._emit_arrivals()

    def _wait_depths(self, ops: Sequence[Op]) -> dict[Op, int]:
        """The number of the last wait that each op depends on; if there is none, the least such
        number of its users."""
        depths: dict[Op, int] = {}
        for op in ops:
            before = (
                depths.get(self.producers[v], -1)
                for v in _values(op.operands)
                if v in self.producers
            )
            own = self.number[op] if isinstance(op, WgmmaWait) else -1
            depths[op] = max(own, *before, -1)
        for op in reversed(ops):
            for value in _values(op.operands):
                producer = self.producers.get(value)
                if producer in depths and depths[producer] < 0:
                    users = [depths[o] for o in ops if value in o.operands]
                    depths[producer] = min(users)
        return depths

    def _emit_arrivals(self) -> None:
        """Emit the arrivals whose waits and loads have all been emitted."""
        for op in list(self.pending):
            if isinstance(op, (WgmmaWait, LocalLoad)):
                return
            if isinstance(op, MBarrierArrive) and not self._pending_producers(op.operands):
                self._emit(op)

    def _emit(self, op: Op) -> None:
        self.pending.pop(op, None)
        if isinstance(op, WgmmaWait):
            self._emit_earlier_waits(op)
        if isinstance(op, Wgmma):
            self.issued.append(op.results[0])
        if isinstance(op, WgmmaWait):
            pending = len(self.issued) - 1 - self.issued.index(op.value)  # type: ignore[arg-type]
            op = op.evolve(pending=pending) if pending else op
        self.scheduled.append(op)

    def _emit_earlier_waits(self, wait: WgmmaWait) -> None:
        """Emit the waits for matmuls issued before that of `wait`, which are complete then, too."""
        before = self.issued[: self.issued.index(wait.value)]  # type: ignore[arg-type]
        for op in [o for o in self.pending if isinstance(o, WgmmaWait) and o.value in before]:
            self._emit(op)


def _needs_all(op: Op) -> bool:
    """Whether all pending ops must precede an op."""
    if isinstance(op, (Wgmma, MBarrierWait)):
        return False
    return bool(op.effects & (Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.TRAP))


def _values(operands: Iterable[Operand]) -> Iterable[Value]:
    return (v for v in operands if isinstance(v, Value))
