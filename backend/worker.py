"""The program of a worker process of `tileir.backend.isolation`: it answers requests until its
input ends.

A request is the name of a function, `module:name`, and its arguments, pickled. The answer states
whether the function returned, and contains its result or exception. Requests and answers are
preceded by their length in 8 bytes.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Any


def send(stream: IO[bytes] | None, data: bytes) -> None:
    """Write `data` with its length. Raises OSError if the other end is closed."""
    assert stream is not None
    stream.write(struct.pack(">Q", len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes] | None) -> bytes:
    """Read an object that `send` wrote. Raises EOFError if the other process has ended."""
    assert stream is not None
    (size,) = struct.unpack(">Q", _exactly(stream, 8))
    return _exactly(stream, size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def main() -> None:
    """Answer requests from standard input on standard output. Nothing else writes to standard
    output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except (EOFError, OSError):
            os._exit(0)
        try:
            send(answers, _answer(request))
        except OSError:
            os._exit(0)


def _watch(parent: int) -> None:
    """End this process when its parent has ended, even while LLVM runs and standard input is not
    read."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _answer(request: bytes) -> bytes:
    try:
        name, arguments = pickle.loads(request)
        return pickle.dumps((True, _function(name)(*arguments)))
    except Exception as error:
        return pickled_failure(error)


def _function(name: str) -> Any:
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def pickled_failure(error: Exception) -> bytes:
    """The pickled answer of a worker for a task that raised `error`: `(False, error)`. If the error
    cannot be pickled, a `RuntimeError` with its text takes its place."""
    try:
        data = pickle.dumps((False, error))
        pickle.loads(data)
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return data
