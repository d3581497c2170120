"""Waits for products where their sums are needed, so that products begun meanwhile run beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

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

_BESIDE = (BlockBarrier, LocalStore, AsyncFence, TmaStore, TmaWait)
"""Ops by which threads write buffers of their role, and let others read them."""

_MOST_PENDING = 7
"""Products that a wait can leave under way."""


@pass_("sink-wgmma-waits")
def sink_wgmma_waits(function: Function) -> PassResult:
    """Wait for a product where its sum is needed, and begin the next one before that.

    In a block of several products each is begun as soon as its factors are there; the ops that
    follow from a sum come just before the first product, or other op with an effect, that needs
    them; what writes a buffer that no sum under way is made of needs no more than it writes. So
    threads compute from one sum while the next is added up. Slots are given back behind
    the wait that they were given back behind, and what is read from one, before that.

    before:
        stage "warp_specialized"

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %g, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, f32*<64, 16> %p) {
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

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %g, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, f32*<64, 16> %p) {
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
    blocks = {label: _late(block) for label, block in function.blocks.items()}
    count = sum(blocks[label] is not old for label, old in function.blocks.items())
    if not count:
        return PassResult(function)
    return PassResult(function.with_blocks(blocks), (), {"blocks with late waits": count})


def _late(block: Block) -> Block:
    """`block` with late waits; itself where its waits are arranged already, or too few."""
    products = {op.results[0] for op in block.ops if isinstance(op, Wgmma)}
    waits = [op for op in block.ops if isinstance(op, WgmmaWait)]
    if not 1 < len(waits) == len(products) <= _MOST_PENDING:
        return block
    if any(w.pending or w.value not in products for w in waits):
        return block
    if any(isinstance(op, ScheduleBarrier) for op in block.ops):
        return block
    ops = _WaitSinker(block.ops[:-1]).written(block.terminator)
    same = all(new is old for new, old in zip(ops, block.ops, strict=True))
    return block if same else attrs.evolve(block, ops=ops)


class _WaitSinker:
    """Ops of a block in a new order: those that follow from a sum, waits, arrivals and reads of
    slots only when they have to come."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.number = {op: i for i, op in enumerate(ops)}
        self.made = {v: op for op in ops for v in op.results}
        self.stored: set[Operand] = {op.buffer for op in ops if isinstance(op, LocalStore)}
        self.held: dict[Op, None] = {}
        self.done: list[Op] = []
        self.begun: list[Value] = []

    def written(self, last: Op) -> tuple[Op, ...]:
        """All ops, `last` at the end."""
        for op in self.ops:
            if self._waits(op):
                self.held[op] = None
            else:
                self._need(self._before(op))
                self._write(op)
        self._need(self.held)
        return (*self.done, last)

    def _waits(self, op: Op) -> bool:
        """Whether an op can come later."""
        if isinstance(op, MBarrierArrive):
            return any(isinstance(o, (WgmmaWait, LocalLoad)) for o in self.held)
        if isinstance(op, (WgmmaWait, LocalLoad)):
            return True
        return not op.effects and any(self.made.get(v) in self.held for v in _values(op.operands))

    def _before(self, op: Op) -> Iterable[Op]:
        """What was held back that has to come before an op. Where threads write buffers, and let
        products and copies read them, that is what reads these buffers."""
        if not self.stored or not isinstance(op, _BESIDE):
            return self.held if _closes(op) else self._behind(op.operands)
        own = {o for o in self.held if self._reads(o) & self.stored}
        return own | self._behind([*op.operands, *(v for o in own for v in o.operands)])

    def _reads(self, op: Op) -> set[Operand]:
        """The buffers that are read until an op."""
        if isinstance(op, LocalLoad):
            return {op.buffer}
        made = self.made.get(op.value) if isinstance(op, WgmmaWait) else None  # type: ignore[arg-type]
        return {made.a, made.b} if isinstance(made, Wgmma) else set()

    def _behind(self, operands: Iterable[Operand]) -> set[Op]:
        """The ops held back that `operands` follow from, with what has to come before them."""
        found, waiting = set[Op](), list(operands)
        while waiting:
            value = waiting.pop()
            op = self.made.get(value) if isinstance(value, Value) else None
            if op is not None and op in self.held and op not in found:
                found.add(op)
                waiting.extend(op.operands)
        return found

    def _need(self, ops: Iterable[Op]) -> None:
        """Write ops held back, each arrival as soon as nothing before it is. First come those that
        follow from sums begun first; what follows from no sum comes where it is used."""
        after = self._after(sorted(ops, key=self.number.__getitem__))
        waits = {op: isinstance(op, WgmmaWait) for op in after}
        for op in sorted(after, key=lambda o: (after[o], not waits[o], self.number[o])):
            if op in self.held and not isinstance(op, MBarrierArrive):
                self._write(op)
                self._arrive()

    def _after(self, ops: Sequence[Op]) -> dict[Op, int]:
        """By op, the number of the last wait that it follows from; of the first that what uses it
        does, where it follows from none."""
        found: dict[Op, int] = {}
        for op in ops:
            before = (found.get(self.made[v], -1) for v in _values(op.operands) if v in self.made)
            own = self.number[op] if isinstance(op, WgmmaWait) else -1
            found[op] = max(own, *before, -1)
        for op in reversed(ops):
            for value in _values(op.operands):
                made = self.made.get(value)
                if made in found and found[made] < 0:
                    users = [found[o] for o in ops if value in o.operands]
                    found[made] = min(users)
        return found

    def _arrive(self) -> None:
        """Write the arrivals whose waits and reads are all written."""
        for op in list(self.held):
            if isinstance(op, (WgmmaWait, LocalLoad)):
                return
            if isinstance(op, MBarrierArrive) and not self._behind(op.operands):
                self._write(op)

    def _write(self, op: Op) -> None:
        self.held.pop(op, None)
        if isinstance(op, WgmmaWait):
            self._write_earlier(op)
        if isinstance(op, Wgmma):
            self.begun.append(op.results[0])
        if isinstance(op, WgmmaWait):
            pending = len(self.begun) - 1 - self.begun.index(op.value)  # type: ignore[arg-type]
            op = op.evolve(pending=pending) if pending else op
        self.done.append(op)

    def _write_earlier(self, wait: WgmmaWait) -> None:
        """The waits for products begun before that of `wait`: they are done by then, too."""
        before = self.begun[: self.begun.index(wait.value)]  # type: ignore[arg-type]
        for op in [o for o in self.held if isinstance(o, WgmmaWait) and o.value in before]:
            self._write(op)


def _closes(op: Op) -> bool:
    """Whether all that was held back has to come before an op."""
    if isinstance(op, (Wgmma, MBarrierWait)):
        return False
    return bool(op.effects & (Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.TRAP))


def _values(operands: Iterable[Operand]) -> Iterable[Value]:
    return (v for v in operands if isinstance(v, Value))
