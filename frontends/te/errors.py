"""Errors at the line of the user's program."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from tileir import Location
from tileir.builder import source_name
from tileir.errors import BuildError, Diagnostic, TileirError


class TensorExpressionError(BuildError):
    """The expression or schedule is invalid or not supported, at a line of the user's program."""


def here() -> Location:
    """The innermost line outside of this library."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return Location(source_name(frame.f_code.co_filename), frame.f_lineno, 1)


def error(code: str, message: str) -> TensorExpressionError:
    """An error at the user's line."""
    return TensorExpressionError(Diagnostic(code, message, here()))


@contextmanager
def at_location(place: Location | None) -> Generator[None, None, None]:
    """Errors raised inside get the location `place`."""
    try:
        yield
    except TensorExpressionError:
        raise
    except RecursionError:
        raise TensorExpressionError(Diagnostic("TIR1501", "nested too deeply", place)) from None
    except TileirError as error:
        result = (Diagnostic(d.code, d.message, place, d.severity) for d in error.diagnostics)
        raise TensorExpressionError(*result) from None


def _is_ours(module: str) -> bool:
    return module.startswith(("tileir.", "contextlib")) or module == "tileir"
