"""Runs of tests with a changed module, in a forked process.

The parent imports the slow third-party packages and forks. The child removes every module of tileir
and of the tests, which refer to objects of tileir. It serves the changed source for one module, and
runs pytest. A change therefore costs only the import of tileir and its tests, and nothing is
written to the tree.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from tileir.testing.mutation.change import Change

_HEAVY = ("numpy", "ml_dtypes", "hypothesis", "pytest", "_pytest.assertion", "llvmlite")
_NO_TESTS = 64
"""The exit status of a process whose tests were not found: none of pytest's."""


@attrs.frozen
class Outcome:
    """The outcome of a change: `killed` by a failing test, `timeout` if the tests ran too long,
    `survived` if all passed; and the time in `seconds`. `failed` is the name of the first failure
    in pytest's form: a test, or a file that cannot be imported; '' if there is none."""

    status: str
    seconds: float
    failed: str = ""


def preload() -> None:
    """Import the modules that every child needs and that no change affects."""
    for name in _HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:  # an optional package
            continue


def attempt(change: Change | None, root: Path, tests: Sequence[str], limit: float) -> Outcome:
    """Run `tests` (paths below `root`) with `change` in place, one after the other until one fails,
    for at most `limit` seconds. Slow tests run last. Raises LookupError if some of the tests do not
    exist."""
    started = time.monotonic()
    with tempfile.NamedTemporaryFile() as file:
        failed = Path(file.name)
        status = child(lambda: run_silently(change, root, tests, failed), started + limit)
        seconds = round(time.monotonic() - started, 2)
        if status is None:
            return Outcome("timeout", seconds)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _NO_TESTS:
            raise LookupError(f"pytest finds no tests, or not all of these: {', '.join(tests)}")
        return Outcome("killed" if status else "survived", seconds, failed.read_text())


def child(work: Callable[[], int], deadline: float | None) -> int | None:
    """The exit status of `work` in a forked process; None if it was stopped. The process has its
    own process group, which ends with it, and with this process, even if that is killed."""
    read_end, write_end = os.pipe()
    result = os.fork()
    if result == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            os.close(write_end)
            _end_with(read_end)
            status = work()
        finally:
            os._exit(status)
    os.close(read_end)
    try:
        return _wait(result, deadline)
    finally:
        os.close(write_end)


def _end_with(read_end: int) -> None:
    """Fork a process that kills the process group when the write end of a pipe is closed."""
    if os.fork():
        os.close(read_end)
        return
    try:
        os.read(read_end, 1)
    finally:
        os.killpg(0, signal.SIGKILL)


def run_silently(
    change: Change | None, root: Path, tests: Sequence[str], failed: Path | None = None
) -> int:
    """Run the tests with `change` in place, in a process of their own; returns 0 if every test
    passes. The first failure is written to `failed`."""
    _silence()
    gc.freeze()  # inherited objects are exempt from garbage collection
    os.chdir(root)
    for name in [n for n, module in sys.modules.items() if _is_project_module(n, module, root)]:
        del sys.modules[name]
    if change is not None:
        sys.meta_path.insert(0, _Changed(change))
    try:
        for path in tests:
            if status := _run_tests(path, failed):
                return status
        return 0
    except BaseException:
        return 1


def _is_project_module(name: str, module: ModuleType, root: Path) -> bool:
    """Whether a module belongs to tileir, or to the tests below `root`. The virtual environment may
    also be below `root`."""
    if name.partition(".")[0] == "tileir":
        return True
    folders = getattr(module, "__path__", ())  # a package may have no file
    path = Path(getattr(module, "__file__", None) or next(iter(folders), "/"))
    return path.is_relative_to(root) and not path.is_relative_to(sys.prefix)


def _run_tests(tests: str, failed: Path | None) -> int:
    """The exit status: 0 if `tests` pass, _NO_TESTS if there are none."""
    import pytest

    arguments = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
    plugin = _FirstFailure(failed)
    status = pytest.main([*arguments, "--hypothesis-seed=0", tests], [plugin])
    missing = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
    return _NO_TESTS if status in missing and plugin.nothing_failed else int(status)


class _FirstFailure:
    """A pytest plugin that runs slow tests last and writes the first failure to a file. A
    `conftest.py` that cannot be imported fails before the session starts."""

    def __init__(self, file: Path | None) -> None:
        self.file, self.nothing_failed = file, False

    def pytest_sessionstart(self) -> None:
        self.nothing_failed = True

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("slow") is not None)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and self.nothing_failed:
            self.nothing_failed = False
            if self.file is not None:
                self.file.write_text(report.nodeid)


def _wait(process: int, deadline: float | None) -> int | None:
    """The exit status of a process; None if it had to be stopped."""
    while deadline is None or time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _silence() -> None:
    void = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(void, stream)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """An import finder that locates the changed module at its usual place, and loads the changed
    source."""

    def __init__(self, change: Change) -> None:
        self.change, self.origin = change, ""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.change.module:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                self.origin, spec.loader = spec.origin or "", self
                return spec
        return None

    def get_filename(self, fullname: str) -> str:
        return self.origin

    def get_data(self, path: Any) -> bytes:
        return self.change.source.encode()

    def path_stats(self, path: Any) -> Any:
        raise OSError("never cached")
