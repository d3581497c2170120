"""How much work a call is, in a number that no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(run: Callable[[], Any]) -> int:
    """Functions, of Python and of C, that this thread calls while `run` runs."""
    total = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return total


def grows_linearly(run: Callable[[int], Any], small: int, times: int = 4) -> bool:
    """Whether `run(times * small)` calls at most an eighth more than `times` as many functions as
    `run(small)`. What is imported, or kept for the next time, is there before it is counted."""
    run(small)
    few = calls_of(lambda: run(small))
    return calls_of(lambda: run(times * small)) <= 9 / 8 * times * few


def steps_of(run: Callable[[], Any]) -> int:
    """Calls and lines of Python that this thread executes while `run` runs: also those of
    comprehensions, one for each of their items."""
    total = 0

    def note(frame: Any, event: str, argument: Any) -> Any:
        nonlocal total
        total += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        run()
    finally:
        sys.settrace(before)
    return total
