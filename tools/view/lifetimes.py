"""Live ranges of shared-memory allocations, along the ops of a kernel in program order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import loops
from tileir.analysis.shared_buffers import ALLOT, accessed_buffers, alive
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.ir import Function
from tileir.op import Op


@attrs.frozen(eq=False)
class LiveAllocation:
    """Bytes `offset` to `offset + size`, which `op` occupies at the ops of `spans`. A span is a
    first and a last op, numbered from the start of the kernel. `touched` are the ops that access
    the bytes."""

    op: Op
    offset: int
    size: int
    spans: tuple[tuple[int, int], ...]
    touched: tuple[int, ...]

    @property
    def first(self) -> int:
        """The first op at which the allocation is live."""
        return self.spans[0][0]

    def at(self, op: int) -> bool:
        """Whether the allocation is live at op number `op`."""
        return any(first <= op <= last for first, last in self.spans)


@attrs.frozen
class BlockSpan:
    """A block in program order: its label, the numbers of its first op and of the op after its last
    one, and the number of loops around it."""

    label: str
    start: int
    end: int
    depth: int


def block_spans(function: Function) -> list[BlockSpan]:
    """The blocks of `function` in reverse post-order."""
    result: list[BlockSpan] = []
    at, nest = 0, loops(function)
    for label in cfg(function).order:
        count = len(function.blocks[label].ops)
        result.append(BlockSpan(label, at, at + count, nest.depth(label)))
        at += count
    return result


def in_order(function: Function) -> list[Op]:
    """The ops of `function` in the order of `block_spans`."""
    return [op for label in cfg(function).order for op in function.blocks[label].ops]


def allocations(function: Function, plan: SharedMemoryPlan) -> list[LiveAllocation]:
    """The allocations of `plan` in the order of first use. The range of an op is live while the op
    runs; a buffer is live while its contents are read later, or a copy to it may be in flight
    (`tileir.analysis.shared_buffers`)."""
    ops, living = in_order(function), alive(function)
    index = {op: i for i, op in enumerate(ops)}
    result: list[LiveAllocation] = []
    for op, offset in plan.offsets.items():
        needed, touched = [index[op]], [index[op]]
        if op.mnemonic == ALLOT:
            buffer = op.results[0]
            needed = [i for i, other in enumerate(ops) if buffer in living.at(other)]
            touched = [i for i, other in enumerate(ops) if buffer in accessed_buffers(other)]
        spans = _spans(needed or touched or [index[op]])
        result.append(LiveAllocation(op, offset, plan.sizes[op], spans, tuple(touched)))
    return sorted(result, key=lambda allocation: (allocation.first, allocation.offset))


def _spans(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Runs of consecutive numbers: the first and the last one of each."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return tuple(spans)


def most_at_once(allocations: Sequence[LiveAllocation]) -> int:
    """The largest number of bytes that are live at one op: a lower bound for every placement."""
    starts = {first for allocation in allocations for first, _ in allocation.spans}
    return max((sum(r.size for r in allocations if r.at(op)) for op in starts), default=0)
