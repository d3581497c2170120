"""Processes whose tasks fail alone: a crash or a hang ends one process, which is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from typing import Any, Literal

import attrs

from tileir.backend.measurement.errors import tune_error
from tileir.backend.worker import pickled_failure

_STARTING = 300.0
"""Seconds that a process may take to begin, `opening` included."""


class Workers(Executor):
    """A `concurrent.futures.Executor` of up to `count` processes, which start on demand.

    A task whose process dies raises TuneError TIR1105. A task that runs longer than `limit` seconds
    raises TIR1106. Both processes are replaced. `opening` is called once per process; its result is
    the first argument of every task. `environments` are environment variables for each process.

    Functions must be picklable. A script that defines some needs the guard `if __name__ ==
    "__main__"`, as `multiprocessing` requires.
    """

    def __init__(
        self, count: int | None = None, limit: float | None = None,
        opening: Callable[[], Any] | None = None,
        environments: Sequence[Mapping[str, str]] = (),
    ) -> None:  # fmt: skip
        self.count = count or len(environments) or os.cpu_count() or 1
        self._opening, self._limit = opening, limit
        self._environments = iter(environments)
        self._all: list[_Process] = []
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._threads = ThreadPoolExecutor(self.count, "tuning")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in one of the processes. Returns a future."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        process = self._free()
        try:
            return process.call((fn, args, kwargs))
        finally:
            self._idle.put(process)

    def _free(self) -> _Process:
        """A process without a task, or a new one. There are at most as many threads as processes,
        so `count` is not exceeded."""
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._starting:
            start = _Start(self._opening, dict(next(self._environments, {})))
            self._all.append(_Process(start, self._limit))
            return self._all[-1]

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Literal[False]:
        """Shut down; after an exception, such as an interrupt, without waiting for tasks."""
        if kind is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            for process in self._all:
                process.end()
        self.shutdown()
        return False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End every process; with `wait`, after its current task."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        with self._starting:
            for process in self._all:
                process.end()


@attrs.frozen
class _Start:
    """The start of a process."""

    opening: Callable[[], Any] | None
    environment: Mapping[str, str]


@attrs.define(eq=False)
class _Process:
    """One process, started for its first task, and restarted after it died."""

    start: _Start
    limit: float | None
    _running: Any = None
    _connection: Any = None
    _ended: bool = False
    _lock: Any = attrs.field(factory=threading.Lock)
    _taking: Any = attrs.field(factory=threading.Lock)

    def call(self, task: Any) -> Any:
        """The result of `task` in the process. Raises the errors of the task, and `TuneError`."""
        data = pickle.dumps(task)
        with self._lock:
            try:
                if self._running is None or not self._running.is_alive():
                    self._begin()
                self._connection.send_bytes(data)
                return self._answer(self.limit)
            except (EOFError, OSError):
                raise tune_error(self._death(), "TIR1105") from None

    def _answer(self, limit: float | None) -> Any:
        """The answer of the process, after at most `limit` seconds."""
        if not self._connection.poll(limit):
            self._kill()
            raise tune_error(f"ended after {limit:g} s", "TIR1106")
        good, answer = pickle.loads(self._connection.recv_bytes())
        if good:
            return answer
        raise answer

    def end(self) -> None:
        """Kill the process, if there is one, and let none start: its state can be rebuilt."""
        self._ended = True
        with contextlib.suppress(Exception):
            self._kill()

    def _begin(self) -> None:
        context = _context()
        self._connection, other = context.Pipe()
        arguments = other, self.start
        self._running = context.Process(
            target=_serve_without_interrupts, args=arguments, daemon=True
        )
        with _interrupts_blocked():
            self._running.start()
        other.close()
        if self._ended:  # while it started
            self._kill()
            raise EOFError
        try:
            self._answer(_STARTING)
        except (EOFError, OSError):
            raise
        except Exception:
            self._kill()
            raise

    def _death(self) -> str:
        running = self._running
        if running is None:
            return "its process was ended"
        running.join(5)
        status = running.exitcode
        self._kill()
        how = f"by signal {-status}" if (status or 0) < 0 else f"with status {status}"
        return f"its process ended {how}"

    def _kill(self) -> None:
        """Kill the process. `end` may run in another thread meanwhile: one of both closes the
        connection."""
        with self._taking:
            running, self._running = self._running, None
        if running is not None:
            running.kill()
            running.join(5)
            self._connection.close()


@contextlib.contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Block SIGINT in processes that are started meanwhile, from their start on: an interrupt from
    the terminal is for the process that tunes, which ends the others."""
    resource_tracker.ensure_running()  # its start would unblock SIGINT
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _context() -> Any:
    """Processes that are forked from one that has imported the backend and started no thread;
    where there is no fork, fresh ones."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tileir.backend.compile", "tileir.backend.tuning.workers"])
    return context


def _serve_without_interrupts(connection: Any, start: _Start) -> None:
    """`_serve`, in a process that others may have forked, with the signals that they block."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(connection, start)


def _serve(connection: Any, start: _Start) -> None:
    """Report that the process is ready, then answer tasks until the other process ends."""
    os.environ.update(start.environment)
    state: tuple[Any, ...] = ()
    try:
        state = () if start.opening is None else (start.opening(),)
        connection.send_bytes(pickle.dumps((True, None)))
    except Exception as error:
        connection.send_bytes(pickled_failure(error))
        return
    while True:
        try:
            data = connection.recv_bytes()
        except (EOFError, OSError):
            return
        with contextlib.suppress(OSError):
            connection.send_bytes(_reply(data, state))


def _reply(data: bytes, state: tuple[Any, ...]) -> bytes:
    """The outcome of a task."""
    try:
        function, arguments, keywords = pickle.loads(data)
        return pickle.dumps((True, function(*state, *arguments, **keywords)))
    except Exception as error:
        return pickled_failure(error)
