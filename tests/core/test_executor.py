"""Executors that other distributions name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileir.executor
from tileir import LaunchError
from tileir.executor import Executor, executor, executors, on_host
from tileir.interp import Interpreter
from tileir.ir import Module


class Entry:
    """An entry point called `own`."""

    name = "own"

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    def install(load: Callable[[], Any]) -> None:
        monkeypatch.setattr(tileir.executor, "_entry_points", lambda *path: {"own": Entry(load)})

    return install


MADE = Interpreter()


class Native:
    """Stands for the executor `cpu`, which takes what has a name it likes."""

    name = "cpu"

    def takes(self, module: Any, kernel: str | None) -> bool:
        return kernel != "large"

    def launch(self, *args: Any, **options: Any) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("installed", "kernel", "name"),
    [("cpu", None, "cpu"), ("cpu", "large", "interpreter"), ("own", None, "interpreter")],
)
def test_arrays_of_the_host_are_left_to_native_code_where_it_takes_a_kernel(
    installed: str, kernel: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry(Native)
    entry.name = installed

    monkeypatch.setattr(tileir.executor, "_entry_points", lambda *path: {installed: entry})
    assert on_host(Module(), kernel) == name


@pytest.mark.parametrize("named", [MADE, Interpreter, lambda: MADE], ids=["one", "class", "call"])
def test_an_entry_point_names_an_executor_or_what_makes_one(named: Any, own: Any) -> None:
    own(lambda: named)
    assert list(executors()) == ["interpreter", "own"]
    instance = executor("own")
    assert isinstance(instance, Executor) and not isinstance(instance, type)
    assert type(instance) is Interpreter


def test_an_executor_that_does_not_load_is_named(own: Any) -> None:
    def missing() -> Any:
        raise ImportError("no accelerator here")

    own(missing)
    with pytest.raises(LaunchError, match="own does not load: no accelerator here") as caught:
        executor("own")
    assert caught.value.code == "TIR0539"
    with pytest.raises(LaunchError, match="no executor other; there are: interpreter, own"):
        executor("other")


def test_installed_executors_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = list(executors())

    def reread(**of: str) -> list[Entry]:
        raise AssertionError

    monkeypatch.setattr(tileir.executor, "entry_points", reread)
    assert list(executors()) == first
    assert executor("simt").name == "simt"


def test_executors_of_folders_added_later_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "added" not in executors()
    folder = tmp_path / "added-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[tileir.executors]\nadded = tileir.interp:Interpreter\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "added" in executors()
    assert isinstance(executor("added"), Interpreter)
