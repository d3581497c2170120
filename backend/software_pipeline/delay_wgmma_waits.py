"""Delay the waits for `wgmma` until results are read, so that several dots are in flight."""

from __future__ import annotations

import attrs

from tileir.analysis.uses import uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.hopper import Wgmma, WgmmaWait
from tileir.values import Constant, Operand, Value

_MOST_PENDING = 7
"""The most groups of `wgmma` that a wait leaves in flight."""


def delay_wgmma_waits(function: Function) -> Function:
    """The function whose waits follow the matmuls that do not need their results.

    A wait passes other matmuls that add to a sum, and the ops without effects that follow them: a
    matmul that begins a sum would take registers for another accumulator. A matmul that adds to
    the result of the one before, which nothing else reads, does not wait for it: the tensor cores
    add in order.
    """
    blocks = {
        label: block
        if sum(isinstance(op, Wgmma) for op in block.ops) < 2
        else attrs.evolve(block, ops=_WaitDelayer(function, block).ops())
        for label, block in function.blocks.items()
    }
    return function.with_blocks(blocks)


class _WaitDelayer:
    """One block: the matmuls that it has issued, and the waits that are not placed yet, in the
    order of their matmuls, with the places where they were."""

    def __init__(self, function: Function, block: Block) -> None:
        self.block, self.uses = block, uses(function)
        self.issued: list[Operand] = []
        self.delayed: dict[WgmmaWait, int] = {}
        self.result: list[Op] = []

    def ops(self) -> tuple[Op, ...]:
        """The ops of the block in their new order."""
        for op in self.block.ops:
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
        passes = (
            isinstance(op, Wgmma)
            and not isinstance(op.c, Constant)
            and len(self.issued) < _MOST_PENDING
        )
        read = {v for v in op.operands if isinstance(v, Value)}
        delayed = list(self.delayed)
        needed = [i for i, wait in enumerate(delayed) if wait.result in read]
        if not (passes or op.effects is Effects.PURE):
            needed = [len(delayed) - 1]
        for wait in delayed[: needed[-1] + 1] if needed else ():
            place, pending = self.delayed.pop(wait), self._after(wait)
            if pending:
                self.result.append(wait.evolve(pending=pending))
            else:  # no other matmul was issued
                self.result.insert(place, wait)

    def _after(self, wait: WgmmaWait) -> int:
        """The number of matmuls that were issued after that of `wait`."""
        return len(self.issued) - 1 - self.issued.index(wait.value)
