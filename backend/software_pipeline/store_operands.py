"""Stores of the operands of a block's dots to shared memory, with their barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.loops import loops
from tileir.backend.live_registers import ThreadRegisters
from tileir.backend.software_pipeline.copied_operands import CopiedOperands
from tileir.backend.software_pipeline.store_plan import (
    Buffers,
    Stored,
    StoredOperand,
    plan_block,
)
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    BlockBarrier,
    LocalStore,
    SharedAlloc,
)
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.types import I32
from tileir.values import Value, constant

_NO_BUFFERS: Buffers = {}


@attrs.frozen
class DotRewriter:
    """The code that a pass emits for dots with stored operands: `place` returns the ops that store
    to a buffer, `fences` those between stores and the barrier after them, and `multiply` those that
    replace a dot."""

    place: Callable[[SharedAlloc], Iterable[Op]]
    fences: Callable[[], Iterable[Op]]
    multiply: Callable[[Dot, Buffers], Iterable[Op]]


def store_operands(
    function: Function, block: Block, needed: Mapping[Dot, Sequence[StoredOperand]], shared: int,
    rewriter: DotRewriter, *, copies: ThreadRegisters | None, before: Buffers = _NO_BUFFERS,
) -> tuple[Block, Buffers]:  # fmt: skip
    """`block` with dots that read the operands `needed` of each in at most `shared` bytes, besides
    those that are stored `before` it; and the buffers of all.

    In a loop, threads wait before they store again what the dots before have read. In other blocks,
    what is loaded for these dots alone is copied asynchronously, if the registers `copies` hold
    what the function loads: where values are spilled, so are the addresses of early copies.
    """
    own = {dot: [x for x in each if x.key not in before] for dot, each in needed.items()}
    writer = _BlockWriter(rewriter, {**before})
    planned = plan_block(block, own, shared)
    if block.label in loops(function).innermost:
        writer.waits_before_stores = True
    elif copies is not None and any(planned.values()) and copies.suffice_for(function):
        copied = CopiedOperands(function, block, own, planned, shared // 2)
        writer.copied = copied if copied.loads else None
    return attrs.evolve(block, ops=tuple(writer.ops_of(block, planned))), writer.stored


class _BlockWriter:
    def __init__(self, rewriter: DotRewriter, stored: dict[Stored, Value]) -> None:
        self.rewriter, self.stored = rewriter, stored
        self.waits_before_stores = False
        self.copied: CopiedOperands | None = None
        self.in_flight: list[Stored] = []
        """What is copied and has not been waited for, in the order of the copies."""

    def ops_of(self, block: Block, planned: Mapping[Op, Sequence[Stored] | None]) -> Iterator[Op]:
        dropped = set[Op]() if self.copied is None else self._ops_to_drop(self.copied)
        for position, op in enumerate(block.ops):
            if self.copied is not None and position == self.copied.begin:
                yield from self._first_copies(self.copied)
            if op in dropped:
                if isinstance(op, Load) and self.copied is not None:
                    yield from self._copy(op, self.copied)
                continue
            stores = planned.get(op)
            if stores is None:
                yield op
                continue
            if stores:
                yield from self._store(stores)
            yield from self.rewriter.multiply(cast(Dot, op), self.stored)

    def _ops_to_drop(self, copied: CopiedOperands) -> set[Op]:
        """The ops of a block that are not repeated at their place: loads that become copies, their
        transposes, and what computes the addresses of the first copies."""
        values = {load.result for load in copied.loads}
        turned = {x for x in copied.block.ops if isinstance(x, Trans) and x.value in values}
        return {*copied.loads, *turned, *(op for ops in copied.first.values() for op in ops)}

    def _first_copies(self, copied: CopiedOperands) -> Iterator[Op]:
        yield from dict.fromkeys(op for ops in copied.first.values() for op in ops)
        for load in copied.first:
            yield from self._copy(load, copied)

    def _copy(self, load: Load, copied: CopiedOperands) -> Iterator[Op]:
        """The copy in place of `load`, where none was issued before."""
        key = copied.loads[load]
        if key in self.stored:
            return
        yield from self._allocate(key)
        self.in_flight.append(key)
        buffer, stage = self.stored[key], constant(I32, 0)
        yield AsyncCopy(load.pointer, buffer, stage, load.mask, location=load.location)
        yield AsyncCommit()

    def _store(self, keys: Sequence[Stored]) -> Iterator[Op]:
        """The stores of operands `keys` that are not copied, and the wait for those that are."""
        if self.waits_before_stores:
            yield BlockBarrier()
        for key in keys:
            if key not in self.stored:
                yield from self._allocate(key)
                yield LocalStore(key[0], self.stored[key], constant(I32, 0))
        awaited = [i for i, key in enumerate(self.in_flight, 1) if key in keys]
        if awaited:
            del self.in_flight[: awaited[-1]]
            yield AsyncWait(pending=len(self.in_flight))
        yield from self.rewriter.fences()
        yield BlockBarrier()

    def _allocate(self, key: Stored) -> Iterator[Op]:
        buffer = key[1].allocate()
        self.stored[key] = buffer.results[0]
        yield from self.rewriter.place(buffer)
