"""Errors in a kernel definition, at its lines and columns."""

from __future__ import annotations

from tileir import Location
from tileir.errors import Diagnostic, LaunchError
from tileir.frontends.sources import CompilationError as CompilationError


def error_at(message: str, place: Location | None, code: str = "TIR1201") -> CompilationError:
    """An error at `place`: TIR1201 syntax, 1202 names, 1203 shapes, 1204 schedule."""
    return CompilationError(Diagnostic(code, message, place))


def launch_error(message: str, place: Location | None = None) -> LaunchError:
    """Arguments or sizes that a function cannot be called with."""
    return LaunchError(Diagnostic("TIR1205", message, place))


def template_error(message: str) -> CompilationError:
    """A shorthand or template that cannot be read."""
    return CompilationError(Diagnostic("TIR1206", message))
