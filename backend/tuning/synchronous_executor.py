"""An executor without processes or threads: tasks run as they are submitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class SynchronousExecutor(Executor):
    """Runs tasks on submission; `opening()`, called before the first, returns their first
    argument."""

    def __init__(self, opening: Callable[[], Any] | None = None) -> None:
        self._opening = opening
        self._first_argument: tuple[Any, ...] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` now."""
        future: Future[Any] = Future()
        try:
            if self._first_argument is None:
                self._first_argument = () if self._opening is None else (self._opening(),)
            future.set_result(fn(*self._first_argument, *args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
