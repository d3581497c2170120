"""Steps that may pause anywhere, within a rule too: each on a thread of its own, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Generic, TypeVar

_T = TypeVar("_T")


class _ClosedError(BaseException):
    """Nobody asks for more."""


class Fiber(Generic[_T]):
    """What `steps(fiber)` yields, and what anything it calls gives to `pause`, in order. Close it,
    or its thread waits as long as the process lives."""

    def __init__(self, steps: Callable[[Fiber[_T]], Iterator[_T]]) -> None:
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._found: list[_T] = []
        self._error: BaseException | None = None
        self._closed = self._done = False
        context = copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run, steps), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[_T]:
        return self

    def __next__(self) -> _T:
        if not self._done:
            self._go.release()
            self._back.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._done:
            raise StopIteration
        return self._found.pop()

    def pause(self, found: _T) -> None:
        """Give `found` to whoever asks, and go on when asked again."""
        self._found.append(found)
        self._back.release()
        self._go.acquire()
        if self._closed:
            raise _ClosedError

    def close(self) -> None:
        """End it where it is."""
        self._closed = True
        self._go.release()
        self._thread.join()

    def _run(self, steps: Callable[[Fiber[_T]], Iterator[_T]]) -> None:
        self._go.acquire()
        try:
            if not self._closed:
                for found in steps(self):
                    self.pause(found)
        except _ClosedError:
            pass
        except BaseException as error:
            self._error = error  # raised where the next step is asked for
        self._done = True
        self._back.release()
