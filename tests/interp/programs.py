"""Running `.tir` text in the interpreter, and where it must fail."""

from __future__ import annotations

from typing import Any

import pytest

import tileir
from tileir import InterpretError, Module, textual
from tileir.interp import Report, interpret


def module(body: str) -> Module:
    """The verified module of `body`, given without its version line."""
    module = textual.parse("tir 1.0\n" + body)
    tileir.verify(module)
    return module


def run(body: str, grid: Any, *arguments: Any, **options: Any) -> Report:
    """Interpret the only kernel of `body`."""
    return interpret(module(body), None, grid, arguments, **options)


def fails(code: str, at: str, body: str, grid: Any, *arguments: Any, **options: Any) -> str:
    """Check that `body` stops with `code` on the line that contains `at`; the whole message."""
    with pytest.raises(InterpretError) as caught:
        run(body, grid, *arguments, **options)
    error = caught.value
    assert error.code == code, str(error)
    lines = ("tir 1.0\n" + body).splitlines()
    assert error.line is not None, str(error)
    assert at in lines[error.line - 1], (lines[error.line - 1], str(error))
    return str(error)
