"""The functions that each test calls. A test that does not call a changed function need not run."""

from __future__ import annotations

import ast
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs

from tileir.testing.mutation.change import FOLDERS, Change
from tileir.testing.mutation.fork import child, run_silently

_WHOLE = "<module>"
_KINDS = ("*.py", "*.tir", "*.mapl19")
_SOONER = 4
"""The number by which the time of a test is divided, to rank it, per word that its path shares
    with the path of the changed file."""


@attrs.frozen
class Suite:
    """A suite of tests. `tests` is an argument of pytest. `passed` states whether they pass without
    a change, `seconds` their time while calls are recorded. `calls` are the called functions as
    (module, first line); line 0 stands for code that runs on import."""

    tests: str
    passed: bool
    seconds: float
    calls: frozenset[tuple[str, int]]


def reach(
    root: Path, tests: Iterable[str], jobs: int, cache: Path, ends: float | None = None
) -> dict[str, Suite]:
    """The suite of each of `tests`, measured in `jobs` processes. Tests that have not started when
    the clock is at `ends` are omitted. Results are added to the file `cache`, which is valid until
    a source changes."""
    state = _digest(root)
    suites = _read(cache, state)
    missing = [t for t in tests if t not in suites]
    if missing:
        _write(cache, state, suites)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = [pool.submit(_measure, tests, root, ends) for tests in missing]
        for future in as_completed(running):
            suite = future.result()
            if suite is not None:
                suites[suite.tests] = suite
                _append(cache, suite)
    return suites


def suites_for(change: Change, tests: Sequence[str], suites: dict[str, Suite]) -> list[Suite]:
    """The passing suites of `tests` that call the changed function, in the order in which they are
    tried. That is the order of their times, reduced for suites whose path has words in common with
    that of the changed file (`_SOONER`)."""
    changed, words = (change.module, _place(change)), _words(change.file)
    result = [suites[t] for t in tests]
    return sorted(
        (s for s in result if s.passed and changed in s.calls),
        key=lambda s: s.seconds / _SOONER ** len(words & _words(s.tests)),
    )


def _words(path: str) -> set[str]:
    """The words of a path, without those of the first folder and without `test`."""
    parts = Path(path.partition("::")[0]).with_suffix("").parts[1:]
    return {word.rstrip("s") for part in parts for word in part.split("_")} - {"test"}


def _place(change: Change) -> int:
    """The first line of the innermost function around a change; 0 if there is none."""
    best: ast.FunctionDef | None = None
    for node in ast.walk(ast.parse(change.source)):
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= change.line:
            inside = change.line <= (node.end_lineno or 0)
            if inside and (best is None or node.lineno > best.lineno):
                best = node
    if best is None:
        return 0
    return min([best.lineno, *(d.lineno for d in best.decorator_list)])


def _measure(tests: str, root: Path, ends: float | None) -> Suite | None:
    """Run `tests` in a separate process and record their calls. None if it is later than `ends`, or
    if the process was killed."""
    if ends is not None and time.monotonic() > ends:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out, started = Path(folder) / "calls.json", time.monotonic()
        status = child(lambda: _run_watched(root, tests, out), None) or 0
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGTERM):
            return None
        seconds = round(time.monotonic() - started, 2)
        calls = json.loads(out.read_text()) if out.exists() else []
        return Suite(tests, status == 0, seconds, frozenset((m, n) for m, n in calls))


def _run_watched(root: Path, tests: str, out: Path) -> int:
    seen: dict[int, tuple[CodeType, str]] = {}

    def note(frame: FrameType) -> None:
        code = frame.f_code
        seen.setdefault(id(code), (code, frame.f_globals.get("__name__", "")))

    with _calls(note):
        status = run_silently(None, root, [tests])
    calls = {
        (name, 0 if code.co_name == _WHOLE else code.co_firstlineno)
        for code, name in seen.values()
        if name.startswith("tileir")
    }
    out.write_text(json.dumps(sorted(calls)))
    return status


@contextmanager
def _calls(note: Callable[[FrameType], None]) -> Generator[None]:
    """Call `note` with a frame of each called function. From Python 3.12 on, `sys.monitoring`
    reports the first frame of each function, which is cheap; earlier versions report the frame of
    every call."""
    if sys.version_info >= (3, 12):
        watch = sys.monitoring

        def begins(code: CodeType, offset: int) -> object:
            note(sys._getframe(1))
            return watch.DISABLE

        watch.use_tool_id(watch.PROFILER_ID, __name__)
        watch.register_callback(watch.PROFILER_ID, watch.events.PY_START, begins)
        watch.set_events(watch.PROFILER_ID, watch.events.PY_START)
        yield
        watch.free_tool_id(watch.PROFILER_ID)
    else:

        def on_call(frame: FrameType, event: str, _: Any) -> None:
            note(frame)

        threading.settrace(on_call)
        sys.settrace(on_call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def _digest(root: Path) -> str:
    """A digest of all sources and tests, and of the Python version."""
    result = hashlib.sha256(sys.version.encode())
    for folder in (*FOLDERS, "tests"):
        for kind in _KINDS:
            for path in sorted((root / folder).rglob(kind)):
                result.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return result.hexdigest()


def _read(cache: Path, state: str) -> dict[str, Suite]:
    """Read the stored results: a line with the digest, and a line per suite; the last line may be
    incomplete."""
    if not cache.exists():
        return {}
    first, *lines = cache.read_text().split("\n")[:-1] or [""]
    if first != state:
        return {}
    return {suite.tests: suite for suite in map(_suite, lines)}


def _suite(line: str) -> Suite:
    tests, passed, seconds, modules = json.loads(line)
    calls = ((name, place) for name, places in modules.items() for place in places)
    return Suite(tests, passed, seconds, frozenset(calls))


def _write(cache: Path, state: str, suites: dict[str, Suite]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(state + "\n" + "".join(map(_line, suites.values())))


def _append(cache: Path, suite: Suite) -> None:
    with cache.open("a") as file:
        file.write(_line(suite))


def _line(suite: Suite) -> str:
    modules: dict[str, list[int]] = {}
    for name, place in sorted(suite.calls):
        modules.setdefault(name, []).append(place)
    fields = (suite.tests, suite.passed, suite.seconds, modules)
    return json.dumps(fields, separators=(",", ":")) + "\n"
