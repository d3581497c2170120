"""What a GPU takes for calls, as every benchmark here measures it.

Variants run in random order in rounds. A round's figure is the median of its launches, each
between two events and with a cold second cache; the result is the mean of the rounds. Before the
first event the GPU spins while the host gets the call ready, so that nothing but the work lies
between the two.
"""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

ROUNDS, LAUNCHES = 5, 20
"""Rounds, and launches of one at most."""
ROUND_SECONDS = 0.02
"""Work of a round, at most where one launch is less."""
SPIN = 150_000
"""Cycles for which the GPU waits for the host: 75 microseconds."""
FLUSHED = 256 << 20
"""Bytes that are written to empty the second cache."""


_UNCHECKED: ContextVar[bool] = ContextVar("unchecked", default=False)


def checked() -> bool:
    """Whether results are looked at: peers that compute something else give what is expected where
    they are, and where launches are timed or profiled do nothing but what is measured."""
    return not _UNCHECKED.get()


@contextmanager
def unchecked() -> Generator[None]:
    """Nobody looks at results meanwhile."""
    before = _UNCHECKED.set(True)
    try:
        yield
    finally:
        _UNCHECKED.reset(before)


def measure(calls: Mapping[str, Callable[..., Any]], data: Sequence[Any]) -> dict[str, float]:
    """Microseconds of every variant for `data`, `unchecked`."""
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    counts: dict[str, int] = {}
    for _ in range(ROUNDS):
        names = list(calls)
        random.shuffle(names)
        for name in names:
            if name not in counts:
                first = median(calls[name], data, 2)
                counts[name] = max(3, min(LAUNCHES, int(ROUND_SECONDS * 1e6 / first)))
            rounds[name].append(median(calls[name], data, counts[name]))
    return {name: statistics.mean(times) for name, times in rounds.items()}


@unchecked()
def median(call: Callable[..., Any], data: Sequence[Any], count: int = LAUNCHES) -> float:
    """Microseconds of the median of `count` launches, `unchecked`."""
    flushed = _flushed()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    call(*data)
    for start, end in events:
        flushed.zero_()
        torch.cuda._sleep(SPIN)
        start.record()
        call(*data)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1000 for start, end in events)


@functools.cache
def _flushed() -> torch.Tensor:
    return torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
