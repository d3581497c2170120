"""Locks that a fork must not find taken: in the child, the thread that owned one is not there to
release it."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any


class LockLevel(IntEnum):
    """The order in which locks are taken: who holds one waits for later ones only."""

    COMPILE = 0
    LOAD = 1
    LLVM = 2
    TYPES = 3


_locks: list[tuple[LockLevel, Any]] = []


def hold_at_fork(lock: Any, level: LockLevel) -> None:
    """Take `lock` before every fork from now on, and release it in both processes."""
    _locks.append((level, lock))
    _locks.sort(key=lambda pair: pair[0])


_taken: list[Any] = []
"""By the fork under way: Python lets one thread fork at a time."""


def _take() -> None:
    for _, lock in tuple(_locks):
        lock.acquire()
        _taken.append(lock)


def _release() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)
