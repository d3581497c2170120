"""How much of a large test the default run does, and cases that are too small to be tests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few_or_all(few: Any, everything: Any) -> list[Any]:
    """Values of a parameter: `few` by default, `everything` among the slow tests."""
    return [few, pytest.param(everything, marks=pytest.mark.slow)]


def for_each(
    name: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Any]:
    """One test that calls the function with each of `values` as its parameter `name`, or with the
    items of each as the parameters `name`, and stops at the first failure, which says the value.

    It stands for `pytest.mark.parametrize` where a case takes no longer than pytest takes to start
    it, about 5 ms. Fixtures are those of the one test."""
    names, kept = ((name,), [(v,) for v in values]) if isinstance(name, str) else (name, [*values])
    assert kept, "a test without values checks nothing"

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(**others: Any) -> None:
            for value in kept:
                arguments = dict(zip(names, value, strict=True))
                try:
                    function(**arguments, **others)
                except BaseException as error:
                    error.add_note(", ".join(f"{n} = {v}" for n, v in arguments.items()))
                    raise

        signature = inspect.signature(function)
        others = [p for p in signature.parameters.values() if p.name not in names]
        assert len(others) == len(signature.parameters) - len(names), f"not parameters: {names}"
        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return test

    return wrap
