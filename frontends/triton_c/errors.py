"""Errors in a Triton-C program, at its lines and columns."""

from __future__ import annotations

from tileir import Location
from tileir.errors import BuildError, Diagnostic, LaunchError


class CompilationError(BuildError):
    """The program is invalid, at a line of its source."""


class ProgramError(Exception):
    """An error in a part of a program, before its location is known."""

    def __init__(self, message: str, code: str = "TIR1003") -> None:
        super().__init__(message)
        self.message, self.code = message, code


def error_at(message: str, place: Location | None, code: str = "TIR1001") -> CompilationError:
    """An error at `place`."""
    return CompilationError(Diagnostic(code, message, place))


def launch_error(message: str, place: Location | None = None) -> LaunchError:
    """Arguments, tunables or a grid that a kernel cannot be launched with."""
    return LaunchError(Diagnostic("TIR1005", message, place))
