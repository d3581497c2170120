"""State of the process: its garbage collector, locks around forks, memory of the C library, and
whether code is generated in another process.

    with collector_paused():        # while many long-lived objects are created
        ...
    with default_isolation():       # generate code in a separate process by default
        ...
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the garbage collector in the body; also a decorator.

    Reading and compiling make many objects that live to their end and few cycles. The collector
    would traverse all of them repeatedly; without the pause it takes three quarters of the time of
    printing text. If the collector is already paused, it stays paused."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class LockLevel(IntEnum):
    """The order in which locks are acquired: a thread that owns one waits for later ones only.

    In the child of a fork, the thread that owned a lock is not there to release it.
    """

    COMPILE = 0
    LOAD = 1
    LLVM = 2
    TYPES = 3


_locks: list[tuple[LockLevel, Any]] = []


def hold_at_fork(lock: Any, level: LockLevel) -> None:
    """Take `lock` before every fork from now on, and release it in both processes."""
    _locks.append((level, lock))
    _locks.sort(key=lambda pair: pair[0])


_acquired: list[Any] = []
"""The locks that the current fork has acquired: Python lets one thread fork at a time."""


def _take() -> None:
    for _, lock in tuple(_locks):
        lock.acquire()
        _acquired.append(lock)


def _release() -> None:
    while _acquired:
        _acquired.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)


_by_default = [os.environ.get("TILEIR_ISOLATE", "") not in ("", "0", "off")]
"""The commands isolate (`tileir.backend.isolation`); a library call does not, unless the
environment has TILEIR_ISOLATE=1."""


@contextmanager
def default_isolation(on: bool = True) -> Generator[None, None, None]:
    """Set the default of `isolate` in all threads."""
    before, _by_default[0] = _by_default[0], on
    try:
        yield
    finally:
        _by_default[0] = before


def is_isolated(isolate: bool | None) -> bool:
    """Whether to isolate: `isolate`, or the current default if that is None."""
    return _by_default[0] if isolate is None else isolate


_BLOCK = (32 << 20) - (64 << 10)
"""Bytes: just below what the threshold of `keep_freed_memory` grows to at most."""


def keep_freed_memory() -> None:
    """Let the C library of this process keep up to 64 MiB of free memory, so that the next
    compilation reuses the memory that LLVM and the assembler have freed.

    The GNU C library returns what is free at the end of its heap to the system beyond 128 KiB, and
    each compilation would fault its pages in: 1,500 page faults for an addition, a third of its
    time. Once a large block has been freed the library keeps twice as much as that block had
    (mallopt(3), "M_MMAP_THRESHOLD": the threshold is dynamic), as it does in any process that has
    freed an array of that size. So one block is allocated, never touched, and freed. If the user
    has set the library's limits (`MALLOC_TRIM_THRESHOLD_` and the like, mallopt), the threshold is
    not dynamic and those limits stay."""
    if sys.platform != "linux":
        return
    import ctypes  # LLVM's binding needs it too

    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.free(library.malloc(_BLOCK))
