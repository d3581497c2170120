"""Executors that other distributions name."""

from __future__ import annotations

from collections.abc import Callable
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
        def found(group: str, name: str | None = None) -> list[Entry]:
            return [Entry(load)] if name in (None, "own") else []

        monkeypatch.setattr(tileir.executor, "entry_points", found)

    return install


MADE = Interpreter()


class Native:
    """Stands for the executor `cpu`, which takes what has a name it likes."""

    name = "cpu"

    def takes(self, module: Any, kernel: str | None) -> bool:
        return kernel != "large"

    def launch(self, *given: Any, **options: Any) -> None:
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

    def found(group: str, name: str | None = None) -> list[Entry]:
        return [entry] if name in (None, installed) else []

    monkeypatch.setattr(tileir.executor, "entry_points", found)
    assert on_host(Module(), kernel) == name


@pytest.mark.parametrize("named", [MADE, Interpreter, lambda: MADE], ids=["one", "class", "call"])
def test_an_entry_point_names_an_executor_or_what_makes_one(named: Any, own: Any) -> None:
    own(lambda: named)
    assert list(executors()) == ["interpreter", "own"]
    found = executor("own")
    assert isinstance(found, Executor) and not isinstance(found, type)
    assert type(found) is Interpreter


def test_an_executor_that_does_not_load_is_named(own: Any) -> None:
    def missing() -> Any:
        raise ImportError("no accelerator here")

    own(missing)
    with pytest.raises(LaunchError, match="own does not load: no accelerator here") as caught:
        executor("own")
    assert caught.value.code == "TIR0539"
    with pytest.raises(LaunchError, match="no executor other; there are: interpreter, own"):
        executor("other")
