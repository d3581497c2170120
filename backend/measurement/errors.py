"""Errors of tuning."""

from __future__ import annotations

from tileir.errors import Diagnostic, TileirError


class TuneError(TileirError):
    """A search space, a problem or a database is invalid."""


def tune_error(message: str, code: str = "TIR1101") -> TuneError:
    """A `TuneError` with one diagnostic."""
    return TuneError(Diagnostic(code, message))
