"""Tests against a changed module, in a process of their own.

The parent has the slow third-party packages loaded and forks; the child drops every module of
tileir, serves the changed source for one of them, and runs pytest. So a change costs the import
of tileir and its tests, no start of Python, and nothing is written to the tree.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from tileir.testing.mutation.change import Change

_HEAVY = ("attrs", "numpy", "ml_dtypes", "hypothesis", "pytest", "_pytest.assertion", "llvmlite")


@attrs.frozen
class Outcome:
    """`killed` by a failing test, `timeout` when tests ran too long, `survived` when all passed;
    after how many `seconds`."""

    status: str
    seconds: float

    @property
    def noticed(self) -> bool:
        """Whether the suite told the change from the real source."""
        return self.status != "survived"


def preload() -> None:
    """Import what every child needs and no change touches."""
    for name in _HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:  # an optional package
            continue


def attempt(change: Change | None, root: Path, tests: Sequence[str], limit: float) -> Outcome:
    """Run `tests` (paths below `root`) with `change` in place, for at most `limit` seconds."""
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(_run(change, root, tests))
    status = _wait(child, started + limit)
    seconds = round(time.monotonic() - started, 2)
    if status is None:
        return Outcome("timeout", seconds)
    return Outcome("survived" if status == 0 else "killed", seconds)


def _wait(child: int, deadline: float) -> int | None:
    """The exit status of `child`; None if it had to be stopped."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _run(change: Change | None, root: Path, tests: Sequence[str]) -> int:
    """The child: exit status 0 if every test passed."""
    os.setpgid(0, 0)
    _silence()
    os.chdir(root)
    for name in [n for n in sys.modules if n == "tileir" or n.startswith("tileir.")]:
        del sys.modules[name]
    if change is not None:
        sys.meta_path.insert(0, _Changed(change, root))
    try:
        import pytest

        arguments = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
        return int(pytest.main([*arguments, "--hypothesis-seed=0", *tests]))
    except BaseException:
        return 1


def _silence() -> None:
    void = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(void, stream)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds the changed module, and loads its new source under the real file's name."""

    def __init__(self, change: Change, root: Path) -> None:
        self.change, self.path = change, root / change.file

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.change.module:
            return None
        places = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=places
        )

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_data(self, path: Any) -> bytes:
        return self.change.source.encode()

    def path_stats(self, path: Any) -> Any:
        raise OSError("never cached")
