"""Timing of calls on a GPU, in the same way for all benchmarks."""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

REPETITIONS, LAUNCHES = 5, 20
"""Repetitions, and the most launches of one."""
REPETITION_SECONDS = 0.02
"""Seconds of launches in a repetition, unless three launches take longer."""
SPIN = 150_000
"""Cycles for which the GPU waits for the host: 75 microseconds."""
FLUSHED = 256 << 20
"""Bytes that are written to empty the L2."""


_WITHOUT_CHECKS: ContextVar[bool] = ContextVar("without_checks", default=False)


def checks_results() -> bool:
    """Whether results are currently checked. A peer that computes something else then returns the
    expected result; while it is timed or profiled, it only does its own work."""
    return not _WITHOUT_CHECKS.get()


@contextmanager
def without_checks() -> Generator[None]:
    """A context in which results are not checked."""
    before = _WITHOUT_CHECKS.set(True)
    try:
        yield
    finally:
        _WITHOUT_CHECKS.reset(before)


def measure(calls: Mapping[str, Callable[..., Any]], data: Sequence[Any]) -> dict[str, float]:
    """Microseconds of every variant for `data`, `without_checks`."""
    repetitions: dict[str, list[float]] = {name: [] for name in calls}
    counts: dict[str, int] = {}
    for _ in range(REPETITIONS):
        names = list(calls)
        random.shuffle(names)
        for name in names:
            if name not in counts:
                first = median(calls[name], data, 2)
                counts[name] = max(3, min(LAUNCHES, int(REPETITION_SECONDS * 1e6 / first)))
            repetitions[name].append(median(calls[name], data, counts[name]))
    return {name: statistics.mean(times) for name, times in repetitions.items()}


@without_checks()
def median(call: Callable[..., Any], data: Sequence[Any], count: int = LAUNCHES) -> float:
    """Microseconds of the median of `count` launches, `without_checks`."""
    buffer = _flush_buffer()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    call(*data)
    for start, end in events:
        buffer.zero_()
        torch.cuda._sleep(SPIN)
        start.record()
        call(*data)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1000 for start, end in events)


@functools.cache
def _flush_buffer() -> torch.Tensor:
    return torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
