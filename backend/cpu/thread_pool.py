"""A grid distributed over threads of this machine's processors.

The threads persist, since starting one takes as long as a small kernel. The operating system may
wake a thread on any processor, on a machine of few processors often on that of the launching
thread, and moves it only milliseconds later. Two threads would then share one processor for as long
as most kernels run. If there are other processors, the threads are therefore kept off the launching
one.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import Any

_SHARES = 4
"""Parts of the grid that a thread takes, so that uneven ones even out."""


def processors() -> int:
    """The number of processors on which this thread may run."""
    return len(_allowed_processors()) or os.cpu_count() or 1


def parallel_for(
    part: Callable[[int, int], None], total: int, workers: int,
    abandon: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Call `part` on consecutive ranges of `total`, in this thread and `workers - 1` others. Ranges
    start in order. Exceptions of `part`, or of a signal handler that runs meanwhile, are raised
    once all started ranges have ended; `abandon` is called first, to make them end soon."""
    if total == 0:
        return
    if workers == 1 or total == 1:
        part(0, total)
        return
    size = -(-total // (workers * _SHARES))
    waiting = iter(range(0, total, size))
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                start = next(waiting, total)
            if start == total:
                return
            part(start, min(start + size, total))

    pool = _pool(workers - 1)
    pool.keep_off_this_processor()
    tasks = [pool.threads.submit(work) for _ in range(workers - 1)]
    try:
        work()
        wait(started := [other for other in tasks if not other.cancel()])
    except BaseException:
        abandon()
        wait([other for other in tasks if not other.cancel()])
        raise
    for done in started:
        done.result()


class _ThreadPool:
    """Threads, and the processors on which they may run."""

    def __init__(self, workers: int) -> None:
        self._affinities: dict[int, frozenset[int] | None] = {}
        self.threads = ThreadPoolExecutor(workers, "tileir-cpu", self._join)

    def _join(self) -> None:
        self._affinities[threading.get_native_id()] = None

    def keep_off_this_processor(self) -> None:
        """Let the threads run on the processors that this thread may use, except the one that it is
        on."""
        allowed = _allowed_processors()
        other_processors = allowed - {_current()} or allowed
        for thread, affinity in tuple(self._affinities.items()):
            if other_processors and affinity != other_processors:
                self._affinities[thread] = other_processors
                with suppress(OSError):
                    os.sched_setaffinity(thread, other_processors)


@cache
def _pool(workers: int) -> _ThreadPool:
    return _ThreadPool(workers)


os.register_at_fork(after_in_child=_pool.cache_clear)


def _allowed_processors() -> frozenset[int]:
    """The processors on which this thread may run; none if the system does not report them."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def _current() -> int:
    """The processor on which this thread runs; -1 if the system does not report it."""
    return _getcpu()() if _getcpu() is not None else -1


@cache
def _getcpu() -> Any:
    with suppress(OSError, TypeError):
        return getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    return None
