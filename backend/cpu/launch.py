"""Control of a launch: the words that its code polls, and the Python functions that the code calls.

The code polls `WORD` after every iteration of a loop and every call. It returns if `attend`
requests that (`HELPERS`). A watchdog thread makes long launches call `attend` every `_TICK`
seconds, so that the main thread runs Python's signal handlers (for example for Ctrl-C) and time
limits are observed.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.errors import Diagnostic, LaunchError

_FIELDS = (
    "word", "stop", "host", "records", "all", "type", "value", "trace", "lost", "ensure", "check",
    "fetch", "release",
)  # fmt: skip
WORDS = {name: index for index, name in enumerate(_FIELDS)}
"""The words of 64 bits at `%launch`.

`word`: instances of this number and later ones must attend. `stop`: they must end. `host`: the
function that answers sites. `records`: bounds of parameters and globals (`regions`), `all`: of
everything. `type`, `value`, `trace`: an exception that a signal handler raised. `lost`: whether
one kept a site from being answered. The rest are functions of Python's.
"""
_NEVER = (1 << 63) - 1
_TICK = 0.1
"""Seconds between two looks at a launch that lasts."""


def word(name: str, result: str, kind: str = "i64") -> str:
    """LLVM IR that loads a word into `result`."""
    place = f"{result}.at = getelementptr i64, ptr %launch, i64 {WORDS[name]}"
    return f"  {place}\n  {result} = load volatile {kind}, ptr {result}.at"


def _at(name: str, place: str) -> str:
    return f"  {place} = getelementptr i64, ptr %launch, i64 {WORDS[name]}"


HELPERS = f"""define internal i1 @attend(ptr %launch, i64 %index) noinline cold #0 {{
entry:
{word("stop", "%before")}
  %ends = icmp sle i64 %before, %index
  br i1 %ends, label %done, label %look
look:
  store volatile i64 %before, ptr %launch
{word("ensure", "%ensure", "ptr")}
{word("check", "%check", "ptr")}
{word("release", "%release", "ptr")}
  %some = icmp ne ptr %ensure, null
  br i1 %some, label %signals, label %done
signals:
  %state = call i32 %ensure()
  %raised = call i32 %check()
  %bad = icmp ne i32 %raised, 0
  br i1 %bad, label %keep, label %on
keep:
{word("fetch", "%fetch", "ptr")}
{_at("type", "%type")}
{_at("value", "%value")}
{_at("trace", "%trace")}
  call void %fetch(ptr %type, ptr %value, ptr %trace)
  store volatile i64 -1, ptr %before.at
  store volatile i64 -1, ptr %launch
  br label %on
on:
  call void %release(i32 %state)
  %now = load volatile i64, ptr %before.at
  %leaves = icmp sle i64 %now, %index
  br label %done
done:
  %found = phi i1 [ true, %entry ], [ false, %look ], [ %leaves, %on ]
  ret i1 %found
}}
define internal void @ask(ptr %launch, i64 %site, ptr %buffer) noinline #0 {{
entry:
{word("host", "%host", "ptr")}
  %answered = call i32 %host(i64 %site, ptr %buffer)
  %lost = icmp eq i32 %answered, 0
  br i1 %lost, label %note, label %done
note:
{_at("lost", "%lost.at")}
{_at("stop", "%stop.at")}
  store volatile i64 1, ptr %lost.at
  store volatile i64 -1, ptr %stop.at
  store volatile i64 -1, ptr %launch
  br label %done
done:
  ret void
}}"""
"""Functions for launches: `attend` runs the handlers of signals that have arrived, on the main
thread, and tells whether an instance must stop; `ask` calls Python for a site."""


@attrs.frozen(eq=False)
class CpuLaunch:
    """A launch in progress: the words that its code polls."""

    words: Any = attrs.field(factory=lambda: (ctypes.c_int64 * len(_FIELDS))(_NEVER, _NEVER))
    limit: float | None = None
    """Seconds that it may take."""
    deadline: float = attrs.field(init=False)
    _expired: list[bool] = attrs.field(init=False, factory=list)
    _lock: Any = attrs.field(init=False, factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        end = float("inf") if self.limit is None else time.monotonic() + self.limit
        object.__setattr__(self, "deadline", end)
        self.words[_FIRST : _FIRST + len(_PYTHON)] = _PYTHON

    def stop_at(self, index: int) -> None:
        """Make instances from number `index` on end."""
        with self._lock:
            for name in ("stop", "word"):
                self.words[WORDS[name]] = min(self.words[WORDS[name]], index)

    def stops(self, index: int) -> bool:
        """Whether instance number `index` need not start."""
        return self.words[WORDS["stop"]] <= index

    def tick(self) -> None:
        """Make all instances call `attend`, or end if the time limit was reached."""
        if time.monotonic() >= self.deadline:
            self._expired.append(True)
            self.stop_at(-1)
        self.words[WORDS["word"]] = -1

    def check(self) -> None:
        """Raise the exception of a signal handler, or `LaunchError` (TIR0725) if the time limit was
        reached."""
        kind, value, trace = (self.words[WORDS[n]] for n in ("type", "value", "trace"))
        if kind:
            ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, (kind, value, trace)))
        if self.words[WORDS["lost"]]:
            raise KeyboardInterrupt
        if self._expired:
            message = f"the launch has taken longer than its time limit, {self.limit:g} s"
            raise LaunchError(Diagnostic("TIR0725", message))

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch the launch for a timeout or an interrupt within the context."""
        watch = _watches[0]
        watch.add(self)
        try:
            yield
        finally:
            watch.launches.discard(self)


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


_FIRST = WORDS["ensure"]
_PYTHON = [
    _address(name)
    for name in (
        "PyGILState_Ensure",
        "PyErr_CheckSignals",
        "PyErr_Fetch",
        "PyGILState_Release",
    )
]


class _Watch:
    """A thread that ticks the launches in progress. It sleeps if there are none."""

    def __init__(self) -> None:
        self.launches: set[CpuLaunch] = set()
        self._some, self._thread = threading.Event(), None

    def add(self, launch: CpuLaunch) -> None:
        """Tick `launch` from now on."""
        self.launches.add(launch)
        if self._thread is None:
            self._begin()
        if not self._some.is_set():
            self._some.set()

    def _begin(self) -> None:
        self._thread: Any = threading.Thread(target=self._run, name="tileir-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._some.wait():
            soonest = min((x.deadline for x in tuple(self.launches)), default=float("inf"))
            time.sleep(min(max(soonest - time.monotonic(), 0.001), _TICK))
            self._some.clear()
            for launch in tuple(self.launches):
                self._some.set()
                launch.tick()


_watches = [_Watch()]


def _after_fork() -> None:
    """Reset the watchdog in the child of a fork, where its thread does not exist."""
    _watches[0] = _Watch()


os.register_at_fork(after_in_child=_after_fork)
