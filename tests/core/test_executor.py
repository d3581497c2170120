"""Executors that other distributions name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tileir.executor
from tileir import LaunchError
from tileir.executor import Executor, executor, executors
from tileir.interp import Interpreter


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
