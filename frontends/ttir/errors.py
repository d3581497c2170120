"""Errors in a TTIR text, at its lines and columns."""

from __future__ import annotations

from tileir import Location
from tileir.errors import BuildError, Diagnostic, Severity


class CompilationError(BuildError):
    """The text is not TTIR, or has something that is not supported; `line` and `column` are those
    of the text."""


class UnsupportedStatement(Exception):  # noqa: N818 - never seen outside
    """An unsupported statement, before its location is known."""

    def __init__(self, message: str, code: str = "TIR1003") -> None:
        super().__init__(message)
        self.message, self.code = message, code


def error_at(
    message: str, place: Location | None, code: str = "TIR1001", source: Location | None = None
) -> CompilationError:
    """An error at `place`; `source` is the corresponding location in the user's program."""
    note = Diagnostic(code, "written here", source, Severity.NOTE)
    return CompilationError(Diagnostic(code, message, place, notes=(note,) if source else ()))
