"""Processes that execute the requests of `tileir.backend.isolation`. They are started on demand and
replaced when they end. A child of a fork does not use the processes of its parent."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Any

from tileir.backend.worker import receive, send
from tileir.errors import CompileError, Diagnostic, from_signal_handler

_STARTING = 120.0
"""Seconds that a worker may take to start, on a busy machine."""

_SHOWN = 600
"""The characters of a dead worker's output that an error shows."""

_POSIX = os.name == "posix"


class DiedError(Exception):
    """A worker ended before it answered. The message states the cause, and contains its output."""


class _Worker:
    """One process. Only one thread at a time uses it."""

    def __init__(self) -> None:
        if not sys.executable:
            message = "isolate needs a Python to start: sys.executable is not set"
            raise CompileError(Diagnostic("TIR0704", message))
        code = "import sys; sys.path[:] = {!r}; from tileir.backend.worker import main; main()"
        self._written: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - kept with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-c", code.format(sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._written,
            start_new_session=_POSIX,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._waiting = False
        """Whether an answer is awaited, and its time limit may end the process."""
        self._started = False

    def call(self, data: bytes, seconds: float) -> Any:
        """Return the answer of the worker, after at most `seconds` (no limit if this is 0, or more
        than a timer supports). Raises `DiedError` and `TimeoutError`. After these, and after any
        other exception, the worker has ended."""
        timed_out = threading.Event()
        wait = seconds and seconds + (0 if self._started else _STARTING)
        wait = wait if wait <= threading.TIMEOUT_MAX else 0
        timer = threading.Timer(wait, self._time_out, [timed_out])
        timer.daemon = self._waiting = True
        if wait:
            timer.start()
        try:
            self._clear()
            send(self._process.stdin, data)
            answer = receive(self._process.stdout)
            with self._lock:
                self._waiting, self._started = False, True
            if timed_out.is_set():
                raise TimeoutError
            return pickle.loads(answer)
        except (EOFError, OSError) as error:
            if from_signal_handler(error):
                self.end()
                raise
            if timed_out.is_set():
                raise TimeoutError from None
            raise DiedError(self._death()) from error
        except BaseException:
            self.end()
            raise
        finally:
            timer.cancel()

    def _time_out(self, timed_out: threading.Event) -> None:
        with self._lock:
            if not self._waiting:
                return
            timed_out.set()
        self.end()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def _clear(self) -> None:
        self._written.seek(0)
        self._written.truncate()

    def _death(self) -> str:
        """The cause of the end of the process, and its output."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        status = self._process.returncode
        self.end()
        self._written.seek(0)
        words = _error_text(self._written.read().decode(errors="replace"))
        return f"{_ending(status)}{': ' if words else ''}{words}"

    def end(self) -> None:
        """Kill the process and its children."""
        with suppress(OSError):
            if _POSIX:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)

    def close(self) -> None:
        """Kill the process, and close the pipes to it."""
        self.end()
        for stream in (self._process.stdin, self._process.stdout, self._written):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def _ending(status: int | None) -> str:
    if status is None or status >= 0:
        return f"with status {status}"
    names = {s.value: s.name for s in signal.Signals}
    return f"by {names.get(-status, f'signal {-status}')}"


def _error_text(text: str) -> str:
    """The error message of LLVM: its output from the first line that is an error, or else its last
    lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    error_lines = [n for n, line in enumerate(lines) if _is_error(line)]
    return " ".join(lines[error_lines[0] :] if error_lines else lines[-3:])[:_SHOWN]


def _is_error(line: str) -> bool:
    return any(mark in line for mark in ("LLVM ERROR", "Assertion", "error:", "Fatal"))


class _WorkerPool:
    """The workers of this process. They are started on demand, at most one per processor."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.idle: list[_Worker] = []
        self.all: list[_Worker] = []
        self.lock = threading.Lock()
        self.free = threading.BoundedSemaphore(os.cpu_count() or 1)

    def call(self, data: bytes, seconds: float) -> Any:
        """Call a free worker, as `_Worker.call` does."""
        with self.free:
            worker = self._take()
            try:
                answer = worker.call(data, seconds)
            except BaseException:
                self._drop(worker)
                raise
            with self.lock:
                self.idle.append(worker)
            return answer

    def _take(self) -> _Worker:
        with self.lock:
            while self.idle:
                worker = self.idle.pop()
                if worker.is_alive:
                    return worker
                self.all.remove(worker)
                worker.close()
            worker = _Worker()
            self.all.append(worker)
            return worker

    def _drop(self, worker: _Worker) -> None:
        worker.close()
        with self.lock:
            if worker in self.all:
                self.all.remove(worker)

    def close(self) -> None:
        """End all workers."""
        with self.lock:
            workers, self.all, self.idle = self.all, [], []
        for worker in workers:
            worker.close()


_starting = threading.Lock()
_pool: _WorkerPool | None = None


def workers() -> _WorkerPool:
    """The workers of this process."""
    global _pool
    with _starting:
        if _pool is None:
            _pool = _WorkerPool()
            atexit.register(close)
        return _pool


def close() -> None:
    """End the workers of this process. The next task starts new ones."""
    global _pool
    with _starting:
        pool, _pool = _pool, None
    if pool is not None and pool.pid == os.getpid():
        pool.close()


def _reset_after_fork() -> None:
    """Reset the pool in the child of a fork, which has its own workers and locks."""
    global _pool, _starting
    _pool, _starting = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
