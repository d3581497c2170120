"""Variants of the SIMT simulator that count accesses, or leave out a barrier."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.simt.counts import Counted, Counts
from tileir.backend.simt.machine import SimtThread
from tileir.backend.simt.memory import SimtMemory
from tileir.op import Op
from tileir.types import I1, Element, element_of, shape_of
from tileir.values import Operand, Value

Site: TypeAlias = tuple[Op, int]
"""A barrier: the op whose rule waits, and how many barriers of that rule come before."""

Make: TypeAlias = Callable[[int, Sequence[int], Sequence[int], SimtMemory], SimtThread]


class _CountedThread(Counted, SimtThread):
    """Threads whose accesses and instructions are counted."""


def counting(counts: Counts) -> Make:
    """Threads that add to `counts`."""

    def make(*operands: Any) -> SimtThread:
        thread = _CountedThread(*operands)
        thread.counts = counts
        return thread

    return make


@attrs.define
class Barriers:
    """The barriers that a kernel waits at, in order, with the barrier `without` removed.

    With `chance`, ops with data-dependent accesses read random data, drawn for every op: bins,
    offsets and indices anywhere within their bounds. A race that the actual data hides may then
    occur.
    """

    without: Site | None = None
    chance: np.random.Generator | None = None
    sites: dict[Site, None] = attrs.field(factory=dict)
    events: list[Op | Site | None] = attrs.field(factory=list)
    """The ops and barriers executed, in order; None where a block begins."""

    def make(self, *operands: Any) -> SimtThread:
        """Threads that synchronize at all barriers but one."""
        self.events.append(None)
        thread = _WatchedThread(*operands)
        thread.recorder = self
        return thread


class _WatchedThread(SimtThread):
    recorder: Barriers
    _at: tuple[Any, int] = (None, 0)

    def barrier(self) -> None:
        if self._waits():
            super().barrier()

    def warp_barrier(self) -> None:
        if self._waits():
            super().warp_barrier()

    def group_barrier(self) -> None:
        if self._waits():
            super().group_barrier()

    @contextmanager
    def running(self, execution: Any, op: Op) -> Generator[None, None, None]:
        chance = self.recorder.chance
        self.recorder.events.append(op)
        drawn = {} if chance is None else _random_operands(op, self, chance)
        drawn_values = {value: execution.values[value] for value in drawn}
        execution.values.update(drawn)
        with super().running(execution, op):
            yield
        execution.values.update(drawn_values)

    def _waits(self) -> bool:
        site = self._site()
        self.recorder.sites[site] = None
        self.recorder.events.append(site)
        return site != self.recorder.without

    def _site(self) -> Site:
        """The barrier of the current rule; the count restarts with every rule."""
        run, index = self._at
        index = index + 1 if run == self.runs else 0
        self._at = (self.runs, index)
        assert self.op is not None
        return self.op, index


def _random_operands(
    op: Any, thread: SimtThread, chance: np.random.Generator
) -> dict[Value, list[Any]]:
    """Random data for the operands that decide which elements `op` accesses."""
    if op.mnemonic == "histogram":
        always = [(x, 1, 2) for x in (op.mask, op.predicate)]
        draws = [(op.value, 0, op.result.type.shape[0]), *always]
    elif op.mnemonic == "gather":
        draws = [(op.index, 0, op.source.type.shape[op.axis])]
    elif op.mnemonic in ("insert_slice", "extract_slice"):
        shape = shape_of(op.value.type)
        part = shape_of((op.small if op.mnemonic == "insert_slice" else op.result).type)
        strides = op.strides or (1,) * len(shape)
        most = [n - (m - 1) * by for n, m, by in zip(shape, part, strides, strict=True)]
        draws = [(x, 0, n) for x, n in zip(op.offsets, most, strict=True)]
    else:
        draws = []
    return {
        x: _numbers(x, low, high, thread, chance) for x, low, high in draws if isinstance(x, Value)
    }


def _numbers(
    operand: Operand, low: int, high: int, thread: SimtThread, chance: np.random.Generator
) -> list[Any]:
    """Handles for `operand`, of numbers from `low` to `high` - 1; a scalar is the same in all
    threads."""
    element = element_of(operand.type)
    assert isinstance(element, Element)
    most = high if element is I1 else min(high, 1 << min(element.bits - 1, 31))
    layout = getattr(operand.type, "layout", None)
    count, size = (1, 1) if layout is None else (layout.size("register"), thread.threads)
    return [thread.as_handle(chance.integers(low, max(most, low + 1), size), element)
            for _ in range(count)]  # fmt: skip
