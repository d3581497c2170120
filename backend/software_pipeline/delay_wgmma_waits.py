"""Delay the waits for `wgmma` until results are read, so that several dots are in flight."""

from __future__ import annotations

from typing import TypeGuard

import attrs

from tileir.analysis.uses import uses
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.target import Target
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import AsyncCommit, AsyncCopy, SharedAlloc
from tileir.ops.hopper import Wgmma, WgmmaWait
from tileir.types import Tile
from tileir.values import Constant, Operand, Value

_MOST_PENDING = 7
"""The most groups of `wgmma` that a wait leaves in flight."""


_FEW, _MANY = 24, 68
"""Registers of a thread besides those of its tiles, where each matmul is waited for, and where all
that are in flight have accumulators. Sixteen kernels with gradients of attention have 23 to 64 and
25 to 68."""


def delay_wgmma_waits(
    function: Function, machine: Target | None = None, warps: int = 0
) -> Function:
    """The function whose waits follow the matmuls that do not need their results.

    A wait passes other matmuls that add to a sum, and the ops that follow them and write nothing: a
    matmul that begins a sum would take registers for another accumulator. A matmul that adds to
    the result of the one before, which nothing else reads, does not wait for it: the tensor cores
    add in order.

    If as many blocks of `warps` warps are resident on `machine` nevertheless, no matmul
    waits for others whose results it does not need, and one with operands in shared memory follows
    the matmul before. Threads then compute from one accumulator while the next one is in flight,
    such as the weights of attention while their gradients are multiplied.
    """
    blocks = [x for x in function.blocks.values() if sum(isinstance(op, Wgmma) for op in x.ops) > 1]
    if not blocks:
        return function
    together = machine is not None and _has_registers(function, machine, warps)
    changed = {
        x.label: attrs.evolve(x, ops=_WaitDelayer(function, x, together).ops()) for x in blocks
    }
    return function.with_blocks({**function.blocks, **changed})


def _has_registers(function: Function, machine: Target, warps: int) -> bool:
    """Whether accumulators of all matmuls in flight leave as many blocks resident. Dots by `mma`
    take registers for fragments, which are not known yet."""
    if any(isinstance(op, Dot) for op in function.ops):
        return False
    from tileir.backend.live_registers import live_registers  # few kernels need it

    tiles = max(live_registers(function).values(), default=0) // (warps * machine.lanes)
    shared = sum(
        op.shape[0] * SharedTile.of(op).bytes for op in function.ops if isinstance(op, SharedAlloc)
    )
    fewer, more = (
        machine.resident_blocks(
            warps, machine.register_words(warps, min(tiles + n, machine.max_registers)), shared
        )
        for n in (_FEW, _MANY)
    )
    return more == fewer


def _issue_sooner(block: Block) -> list[Op]:
    """The ops of the block, with each matmul that begins a sum, of operands in shared memory, right
    after the first matmul that it need not follow later. It passes ops that neither compute its
    operands nor order memory, and matmuls that add to an
    accumulator."""
    ops: list[Op] = []
    for op in block.ops:
        place = at = len(ops)
        if _begins_accumulator(op) and not isinstance(op.a.type, Tile):
            read = {v for v in op.operands if isinstance(v, Value)}
            while at and (isinstance(ops[at - 1], Wgmma) or _is_passed(ops[at - 1], read)):
                if isinstance(ops[at - 1], Wgmma):
                    place = at
                if _begins_accumulator(ops[at - 1]):
                    break
                at -= 1
        ops.insert(place, op)
    return ops


def _begins_accumulator(op: Op) -> TypeGuard[Wgmma]:
    return isinstance(op, Wgmma) and isinstance(op.c, Constant)


def _is_passed(op: Op, read: set[Value]) -> bool:
    """Whether a matmul that reads the values `read` may precede `op`."""
    orders = op.effects not in (Effects.PURE, Effects.READ)
    is_free = not orders or isinstance(op, (WgmmaWait, AsyncCopy, AsyncCommit))
    return is_free and read.isdisjoint(op.results)


class _WaitDelayer:
    """One block: the matmuls that it has issued, and the waits that are not placed yet, in the
    order of their matmuls, with the places where they were."""

    def __init__(self, function: Function, block: Block, together: bool) -> None:
        self.block, self.uses, self.together = block, uses(function), together
        self.issued: list[Operand] = []
        self.delayed: dict[WgmmaWait, int] = {}
        self.result: list[Op] = []

    def ops(self) -> tuple[Op, ...]:
        """The ops of the block in their new order."""
        for op in _issue_sooner(self.block) if self.together else self.block.ops:
            if isinstance(op, WgmmaWait) and not op.pending and op.value in self.issued:
                self.delayed[op] = len(self.result)
                continue
            if isinstance(op, Wgmma):
                self._add_in_flight(op)
            self._wait_for(op)
            self.result.append(op)
            if isinstance(op, Wgmma):
                self.issued.append(op.result)
        return tuple(self.result)

    def _add_in_flight(self, op: Wgmma) -> None:
        """Let `op` add to an accumulator that is still in flight, if nothing else reads it."""
        for wait in self.delayed:
            if wait.result is op.c and len(self.uses[wait.result]) == 1:
                del self.delayed[wait]
                self.result.append(wait.evolve(pending=self._after(wait) + 1))
                return

    def _wait_for(self, op: Op) -> None:
        """Place the waits that must precede `op`."""
        passes = op.effects is Effects.PURE or (self.together and op.effects is Effects.READ)
        if isinstance(op, Wgmma):
            may_pass = self.together or not _begins_accumulator(op)
            passes = may_pass and len(self.issued) < _MOST_PENDING
        read = {v for v in op.operands if isinstance(v, Value)}
        delayed = sorted(self.delayed, key=lambda wait: self.issued.index(wait.value))
        needed = [i for i, wait in enumerate(delayed) if wait.result in read]
        if not passes:
            needed = [len(delayed) - 1]
        for wait in delayed[: needed[-1] + 1] if needed else ():
            place, pending = self.delayed.pop(wait), self._after(wait)
            if pending or self.together:
                self.result.append(wait.evolve(pending=pending) if pending else wait)
            else:  # no other matmul was issued
                self.result.insert(place, wait)

    def _after(self, wait: WgmmaWait) -> int:
        """The number of matmuls that were issued after that of `wait`."""
        return len(self.issued) - 1 - self.issued.index(wait.value)
